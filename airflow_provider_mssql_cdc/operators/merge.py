"""``merge``: silver, the current state, kept from bronze."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.model.table_uri import uri_problems
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    announce,
    as_flag,
    at_least,
    attempt_of,
    flag,
    flag_or_template,
    text,
    with_own_alias,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.task import Waiting


class MssqlCdcMergeOperator(MssqlCdcOperator):
    """Keep a Delta table that has one row per key: the source table as of the changes in bronze.

    The first run, and one that finds a newer snapshot, builds it in one commit; any other run brings the keys
    up to date that new change rows name, and writes only the files again that hold them. Silver has the
    captured columns, ``_start_lsn`` and ``_commit_ts``. It can be run again at any time, and side by side.

    A run is skipped, with the reason, while bronze holds no snapshot that changes lead on from. It returns
    ``{"version", "rows", "bronze_version", "snapshot", "changes", "inserted", "updated", "deleted",
    "files_added", "files_removed", "rebuilt", "consistent", "consistent_after", "reason"}``; ``consistent``
    tells whether changes have passed the snapshot's horizon, so that silver is the source row by row.

    :param table: what is kept, from where and to where. (templated)
    :param silver: path or URI of the Delta table that receives the current state. (templated)
    :param wait_consistent: leave silver as it is until changes have passed the snapshot's horizon, and wait
        for that; readers so never see a mixture of two moments. (templated)
    :param wait_seconds: how long to wait.
    :param poll_seconds: between two looks at bronze.
    :param deferrable: False waits on the worker.
    :param asset_events: announce changed rows on silver's asset (``delta_asset(silver)``), with
        ``{"lsn", "version", "rows"}``; nothing when silver's rows stayed as they are. A task that is cleared
        announces what its run committed once more.
    """

    template_fields: Sequence[str] = ("table", "silver", "wait_consistent")
    field_checks: ClassVar = {
        "silver": text,
        "wait_consistent": flag_or_template,
        "wait_seconds": at_least(0),
        "poll_seconds": at_least(1),
        "deferrable": flag,
        "asset_events": flag,
    }

    def __init__(
        self,
        *,
        silver: str,
        wait_consistent: bool | str = False,
        wait_seconds: int = 3600,
        poll_seconds: int = 60,
        deferrable: bool = True,
        asset_events: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_own_alias(kwargs, table=silver, announced=asset_events))
        self.silver = silver
        self.wait_consistent = wait_consistent
        self.wait_seconds = wait_seconds
        self.poll_seconds = poll_seconds
        self.deferrable = deferrable
        self.asset_events = asset_events
        self._deadline: datetime | None = None
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        return uri_problems(self.table.known_uris(silver=self.silver))

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.merge_silver import MergeOrder, merge_silver
        from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting

        self._refuse_wrong_arguments()  # once more: templates are rendered now
        order = MergeOrder(
            table=self.table,
            silver=self.silver,
            attempt=attempt_of(context),
            wait_consistent=as_flag(self.wait_consistent, name="wait_consistent"),
        )
        while isinstance(outcome := merge_silver(order, connect=self.connect), Waiting):
            self._wait(outcome)
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        announce(
            context,
            self.outlets,
            table=outcome.silver,
            extra={"lsn": outcome.position.changes.text, "version": outcome.version, "rows": outcome.rows},
            changed=outcome.committed,
        )
        return outcome.to_xcom()

    def resume(self, context: Context, event: Any, deadline: str | None = None) -> Any:
        """After a deferral: look again; the deadline stays the one of the first look.

        ``dag.test()`` hands the event over and nothing else; the time to wait begins anew there.
        """
        self._deadline = datetime.fromisoformat(deadline) if deadline else None
        return self.execute(context)

    def _wait(self, waiting: Waiting) -> None:
        """Give the worker back for a while, or wait on it.

        :raises NotReadyYet: the time to wait is over.
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
