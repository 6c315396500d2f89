"""``MssqlCdcCaptureTrigger``: wait in the triggerer until capture has passed a target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mssql_cdc.errors import MssqlCdcError
from airflow_provider_mssql_cdc.model.capture import CaptureTarget

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider_mssql_cdc.jobs.status import CaptureAnswer

PASSED, LATE, FAILED = "passed", "late", "failed"


class MssqlCdcCaptureTrigger(BaseTrigger):
    """Check capture every ``poll_seconds`` until it has passed the target or the deadline is over.

    The event is ``{"status": "passed" | "late" | "failed", "reason", "lsn", "deadline"}``. Retryable errors
    continue the wait; others end it with ``failed``.

    :param mssql_conn_id: id of the Airflow connection.
    :param capture_instance: the capture instance whose position is compared with the target.
    :param target: result of :meth:`~..model.capture.CaptureTarget.to_json`.
    :param deadline: ISO 8601 with a zone.
    :param poll_seconds: seconds between two checks.
    :param source: ``[schema, table]`` or None.
    """

    def __init__(
        self,
        *,
        mssql_conn_id: str,
        capture_instance: str,
        target: dict[str, Any],
        deadline: str,
        poll_seconds: float = 30,
        source: list[str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mssql_conn_id = mssql_conn_id
        self.capture_instance = capture_instance
        self.target = target
        self.deadline = deadline
        self.poll_seconds = poll_seconds
        self.source = source

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments; JSON types, no credentials."""
        names = ("mssql_conn_id", "capture_instance", "target", "deadline", "poll_seconds", "source")
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the wait is over."""
        # The first check comes after a pause too: the operator has just checked, and a task that resumes
        # before the scheduler has recorded its deferral may be failed (apache/airflow#67287, #72716).
        from airflow.providers.common.compat.connection import get_async_connection

        connection = await get_async_connection(self.mssql_conn_id)
        deadline = datetime.fromisoformat(self.deadline)
        while True:
            await asyncio.sleep(self._pause_before(deadline))
            status, reason, lsn = await self._attempt(connection)
            if status is None and datetime.now(UTC) >= deadline:
                status = LATE
            if status is not None:
                event = {"status": status, "reason": reason, "lsn": lsn, "deadline": self.deadline}
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]
                return

    def _pause_before(self, deadline: datetime) -> float:
        """Return the seconds until the next check; the last check is at the deadline."""
        rest = (deadline - datetime.now(UTC)).total_seconds()
        return max(0.0, min(self.poll_seconds, rest))

    async def _attempt(self, connection: Connection) -> tuple[str | None, str, str | None]:
        try:
            # The drivers block: a check in the event loop would stop every other trigger.
            answer = await asyncio.to_thread(self._look, connection)
        except MssqlCdcError as exc:
            reason = f"{type(exc).__name__}: {exc}"
            return (None if exc.retryable else FAILED), reason, None
        passed = answer.passed
        return (None, answer.reason, None) if passed is None else (PASSED, answer.reason, passed.text)

    def _look(self, connection: Connection) -> CaptureAnswer:
        """Check capture once, in a thread; imports the hook and the drivers."""
        from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
        from airflow_provider_mssql_cdc.jobs.status import look_at_capture

        source = (self.source[0], self.source[1]) if self.source else None
        with MssqlCdcHook(self.mssql_conn_id, connection=connection).session() as session:
            target = CaptureTarget.from_json(self.target)
            return look_at_capture(session, target, capture_instance=self.capture_instance, source=source)
