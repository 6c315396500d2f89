"""``merge``: update silver, the current state, from bronze."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.model.table_uri import uri_problems
from airflow_provider_mssql_cdc.operators._base import (
    announce,
    as_flag,
    at_least,
    attempt_of,
    flag,
    flag_or_template,
    share,
    text,
    with_own_alias,
)
from airflow_provider_mssql_cdc.operators._waiting import WaitingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class MssqlCdcMergeOperator(WaitingOperator):
    """Update a Delta table with one row per key: the source table as of the changes in bronze.

    The first run, and a run that finds a newer snapshot, builds it in one commit. Any other run updates the
    keys of new change rows and rewrites only the files that hold them. Silver has the captured columns,
    ``_start_lsn`` and ``_commit_ts``. Runs may be repeated and may run at the same time.

    A run is skipped, with the reason, while bronze holds no snapshot that changes can continue, and while too
    few changes wait (``min_changed_share``). It returns
    ``{"version", "rows", "bronze_version", "snapshot", "changes", "inserted", "updated", "deleted",
    "files_added", "files_removed", "rebuilt", "consistent", "consistent_after", "reason"}``; ``consistent``
    is true once changes have passed the snapshot's horizon, so that silver equals the source row by row.

    :param table: the source table and its Delta tables. (templated)
    :param silver: path or URI of the Delta table that receives the current state. (templated)
    :param wait_consistent: wait until changes have passed the snapshot's horizon before silver is written,
        so that readers never see rows of two moments. (templated)
    :param min_changed_share: skip the merge while the change rows that wait are fewer than this share of
        silver's rows, 0.0 to 1.0; 0.0 merges every time. Scattered changes rewrite nearly every file of
        silver, however few they are.
    :param max_delay_seconds: merge in any case once the oldest of them has been in bronze that long, in
        seconds; for ``min_changed_share`` alone.
    :param wait_seconds: seconds to wait at most.
    :param poll_seconds: seconds between two checks of bronze.
    :param deferrable: False waits on the worker.
    :param asset_events: emit an event on silver's asset (``delta_asset(silver)``), with
        ``{"lsn", "version", "rows"}``, when rows of silver changed. A cleared task emits the events of its
        run again.
    """

    template_fields: Sequence[str] = ("table", "silver", "wait_consistent")
    field_checks: ClassVar = {
        "silver": text,
        "wait_consistent": flag_or_template,
        "min_changed_share": share,
        "max_delay_seconds": at_least(0),
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
        min_changed_share: float = 0.0,
        max_delay_seconds: int = 3600,
        wait_seconds: int = 3600,
        poll_seconds: int = 60,
        deferrable: bool = True,
        asset_events: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            wait_seconds=wait_seconds,
            poll_seconds=poll_seconds,
            deferrable=deferrable,
            **with_own_alias(kwargs, table=silver, announced=asset_events),
        )
        self.silver = silver
        self.wait_consistent = wait_consistent
        self.min_changed_share = min_changed_share
        self.max_delay_seconds = max_delay_seconds
        self.asset_events = asset_events
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        return uri_problems(self.table.known_uris(silver=self.silver))

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.merge_silver import MergeOrder, merge_silver
        from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting

        self._refuse_wrong_arguments()  # again: templates are rendered now
        order = MergeOrder(
            table=self.table,
            silver=self.silver,
            attempt=attempt_of(context),
            wait_consistent=as_flag(self.wait_consistent, name="wait_consistent"),
            min_changed_share=self.min_changed_share,
            max_delay_seconds=self.max_delay_seconds,
        )
        while isinstance(outcome := merge_silver(order, connect=self.connect), Waiting):
            self.wait(outcome)
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
