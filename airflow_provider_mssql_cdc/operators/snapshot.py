"""``read``: read one key range and stage it as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.model.plan import PlannedRange
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator, attempt_of, flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

RANGE_LABEL = "mssql_cdc_range"
"""Context key of the label that the UI shows for a mapped task."""


class MssqlCdcSnapshotOperator(MssqlCdcOperator):
    """Read one key range in bounded memory and stage it as Parquet files that no reader sees yet.

    Map it over the plan: ``.partial(task_id="read", table=orders).expand(key_range=plan.output)``.
    Nothing is read when bronze already holds this snapshot or a newer one.

    :param table: the source table and its Delta tables. (templated)
    :param key_range: one item of the plan; it is data and not templated.
    :param verify_counts: count the range on the server after the read, and fail, retryable, on a difference
        that no change explains: exact under ``isolation="snapshot"``, otherwise only for tables without
        writes.
    :param show_bounds: show the range's bounds, which are key values, in the label of the mapped task.
    """

    field_checks: ClassVar = {"verify_counts": flag, "show_bounds": flag}

    def __init__(
        self,
        *,
        key_range: Mapping[str, Any],
        verify_counts: bool = False,
        show_bounds: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.key_range = key_range
        self.verify_counts = verify_counts
        self.show_bounds = show_bounds
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        planned = PlannedRange.from_xcom(self.key_range)
        self.show_label(context, name=RANGE_LABEL, text=_label_of(planned, show_bounds=self.show_bounds))
        from airflow_provider_mssql_cdc.jobs.read_range import read_range

        staged = read_range(
            self.table,
            planned,
            attempt=attempt_of(context),
            connect=self.connect,
            verify_counts=self.verify_counts,
        )
        return staged.to_xcom()


def _label_of(planned: PlannedRange, *, show_bounds: bool) -> str:
    if planned.done:
        return "already in bronze"
    label = f"range {planned.index + 1} of {planned.count}"
    if not show_bounds:
        return label
    lower, upper = (
        "…" if bound is None else ", ".join("NULL" if value is None else value for value in bound)
        for bound in (planned.key_range.lower, planned.key_range.upper)
    )
    return f"{label} [{lower} to {upper})"
