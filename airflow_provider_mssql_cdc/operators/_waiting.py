"""Waiting for other tasks: deferred, or asleep on the worker, until a deadline."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.task import Waiting


class WaitingOperator(MssqlCdcOperator):
    """Base of operators whose job may have to be called again later.

    :param wait_seconds: seconds to wait at most.
    :param poll_seconds: seconds between two checks.
    :param deferrable: False waits on the worker.
    """

    def __init__(self, *, wait_seconds: int, poll_seconds: int, deferrable: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wait_seconds = wait_seconds
        self.poll_seconds = poll_seconds
        self.deferrable = deferrable
        self._deadline: datetime | None = None

    def resume(self, context: Context, event: Any, deadline: str | None = None) -> Any:
        """Check again after a deferral; the deadline of the first check stays."""
        # dag.test() passes the event and no kwargs: the wait starts over there.
        self._deadline = datetime.fromisoformat(deadline) if deadline else None
        return self.execute(context)

    def wait(self, waiting: Waiting) -> None:
        """Defer, or sleep on the worker, until the next check.

        :raises NotReadyYet: ``wait_seconds`` are over.
        """
        now = datetime.now(UTC)
        self._deadline = self._deadline or now + timedelta(seconds=self.wait_seconds)
        if now >= self._deadline:
            raise NotReadyYet(waiting.reason)
        pause = min(timedelta(seconds=self.poll_seconds), self._deadline - now)
        self.log.info("%s", waiting.reason)
        if not self.deferrable:
            time.sleep(pause.total_seconds())
            return
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        self.defer(
            trigger=TimeDeltaTrigger(pause),
            method_name="resume",
            kwargs={"deadline": self._deadline.isoformat()},
        )
