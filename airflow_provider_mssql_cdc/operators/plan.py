"""``plan``: one small dict per mapped task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import conf

from airflow_provider_mssql_cdc.operators._arguments import as_flag, at_least, flag_or_template
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator, attempt_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class MssqlCdcPlanOperator(MssqlCdcOperator):
    """Record S, then cut the table into key ranges, one per mapped task.

    Preflight reports every problem at once, before anything is written. When bronze holds a complete
    snapshot already, the plan is one item that carries its S and nothing is read. The result is never
    empty and fits ``[core] max_map_length``.

    :param table: what is loaded, from where and to where. (templated)
    :param max_ranges: at most this many mapped tasks.
    :param rows_per_range: rows that one mapped task should read, when the table allows it.
    :param resnapshot: take a new snapshot although bronze holds one; at most one per run. (templated)
    :param wait_seconds: how long a resnapshot waits for capture to pass the stored snapshot's LSN.
    """

    template_fields: Sequence[str] = ("table", "resnapshot")
    field_checks: ClassVar = {
        "max_ranges": at_least(1),
        "rows_per_range": at_least(1),
        "resnapshot": flag_or_template,
        "wait_seconds": at_least(0),
    }

    def __init__(
        self,
        *,
        max_ranges: int = 256,
        rows_per_range: int = 1_000_000,
        resnapshot: bool | str = False,
        wait_seconds: int = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_ranges = max_ranges
        self.rows_per_range = rows_per_range
        self.resnapshot = resnapshot
        self.wait_seconds = wait_seconds
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot

        request = PlanRequest(
            table=self.table,
            attempt=attempt_of(context),
            max_ranges=min(self.max_ranges, conf.getint("core", "max_map_length", fallback=1024)),
            rows_per_range=self.rows_per_range,
            resnapshot=as_flag(self.resnapshot, name="resnapshot"),
            wait_seconds=self.wait_seconds,
        )
        return [planned.to_xcom() for planned in plan_snapshot(request, connect=self.connect)]
