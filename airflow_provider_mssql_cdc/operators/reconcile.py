"""``plan`` and ``compare`` of a reconcile: prove that silver is the source, some of it in each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import ConfigurationError, SilverDiffers
from airflow_provider_mssql_cdc.model.reconcile import ReconcileItem
from airflow_provider_mssql_cdc.model.table_uri import uri_problems
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    at_least,
    attempt_of,
    flag,
    or_none,
    share_of,
    text,
)
from airflow_provider_mssql_cdc.operators._waiting import WaitingOperator
from airflow_provider_mssql_cdc.operators.plan import max_map_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.reconcile import Reconciled

ITEM_LABEL = "mssql_cdc_reconcile"
"""Context key of the label that the UI shows for a mapped task."""


def column_names(value: Any) -> str | None:
    """Check for a tuple or list of column names."""
    good = isinstance(value, tuple | list) and value and all(isinstance(each, str) and each for each in value)
    return None if good else f"must be a tuple of column names, got {value!r}"


def both_given(*, columns: Sequence[str] | None, counts_only: bool) -> list[str]:
    return ["columns and counts_only exclude each other"] if columns and counts_only else []


class MssqlCdcReconcilePlanOperator(MssqlCdcOperator):
    """Choose what one run compares: tiles of the source that have gone longest without proof, and some keys.

    The table is cut on its key into tiles once per cycle; each run takes a share of them, so that a month of
    daily runs with the default proves the whole table. It returns a list of ``{"cycle", "tile", "bucket",
    "buckets"}``, one for each mapped ``MssqlCdcReconcileOperator``. A run is skipped while there is no
    silver.

    :param table: the source table and its Delta tables. (templated)
    :param silver: path or URI of the Delta table to prove. (templated)
    :param share: of the tiles, and of silver's keys, above 0 and at most 1.
    :param rows_per_tile: target rows of one tile; a mapped task holds them in memory.
    :param sample_keys: look some of silver's keys up in the source as well, at most 10,000 in each run: rows
        that only silver has are found by nothing else.
    """

    template_fields: Sequence[str] = ("table", "silver")
    field_checks: ClassVar = {
        "silver": text,
        "share": share_of,
        "rows_per_tile": at_least(1),
        "sample_keys": flag,
    }

    def __init__(
        self,
        *,
        silver: str,
        share: float = 1 / 30,
        rows_per_tile: int = 100_000,
        sample_keys: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.silver = silver
        self.share = share
        self.rows_per_tile = rows_per_tile
        self.sample_keys = sample_keys
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        return uri_problems(self.table.known_uris(silver=self.silver))

    def run_job(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_mssql_cdc.jobs.plan_reconcile import ReconcileOrder, plan_reconcile
        from airflow_provider_mssql_cdc.jobs.task import Skipped

        self._refuse_wrong_arguments()  # again: templates are rendered now
        order = ReconcileOrder(
            self.table,
            self.silver,
            attempt_of(context),
            share=self.share,
            rows_per_tile=self.rows_per_tile,
            sample_keys=self.sample_keys,
            max_items=max_map_length(),
        )
        planned = plan_reconcile(order, connect=self.connect)
        if isinstance(planned, Skipped):
            self.skip(planned.reason)
        return [item.to_xcom() for item in planned]


class MssqlCdcReconcileOperator(WaitingOperator):
    """Compare one tile, or some of silver's keys, with the source, row by row and without stopping writes.

    Map it over the plan: ``.partial(task_id="compare", table=orders, silver=...).expand(item=plan.output)``,
    or use :func:`~airflow_provider_mssql_cdc.mssql_cdc_reconcile`.

    The rows are read once; then the task waits until changes and a merge have brought silver past the read.
    A key that no change names in between has to be equal on both sides. Of one that a change names, the row
    read and silver's row each have to be what the changes say, by an implementation of the state rule that
    the merge does not use.

    It returns ``{"cycle", "tile", "bucket", "buckets", "rows_source", "rows_silver", "equal", "moved",
    "missing", "extra", "different", "unexplained", "columns", "left_out", "read_lsn", "silver_lsn"}`` and
    writes a row to ``<silver>_reconcile`` and one to the facts.

    :param table: the source table and its Delta tables. (templated)
    :param silver: path or URI of the Delta table to prove. (templated)
    :param item: one item of the plan; it is data and not templated.
    :param columns: columns to compare, as silver names them; None compares all that can be.
    :param counts_only: compare which keys there are, and no other column.
    :param show_keys: report up to 20 keys that fail as they are; else as salted hashes.
    :param fail_on_difference: fail the task when something differs; else it is reported and logged.
    :param wait_seconds: seconds to wait at most for silver.
    :param poll_seconds: seconds between two checks.
    :param deferrable: False waits on the worker.
    """

    template_fields: Sequence[str] = ("table", "silver")
    field_checks: ClassVar = {
        "silver": text,
        "columns": or_none(column_names),
        "counts_only": flag,
        "show_keys": flag,
        "fail_on_difference": flag,
        "wait_seconds": at_least(0),
        "poll_seconds": at_least(1),
        "deferrable": flag,
    }

    def __init__(
        self,
        *,
        silver: str,
        item: Mapping[str, Any],
        columns: Sequence[str] | None = None,
        counts_only: bool = False,
        show_keys: bool = False,
        fail_on_difference: bool = True,
        wait_seconds: int = 21_600,
        poll_seconds: int = 60,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            wait_seconds=wait_seconds, poll_seconds=poll_seconds, deferrable=deferrable, **kwargs
        )
        self.silver = silver
        self.item = item
        self.columns = columns
        self.counts_only = counts_only
        self.show_keys = show_keys
        self.fail_on_difference = fail_on_difference
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        together = both_given(columns=self.columns, counts_only=self.counts_only)
        return [*together, *uri_problems(self.table.known_uris(silver=self.silver))]

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.plan_reconcile import ReconcileOrder
        from airflow_provider_mssql_cdc.jobs.reconcile import reconcile_item
        from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting

        self._refuse_wrong_arguments()  # again: templates are rendered now
        item = ReconcileItem.from_xcom(self.item)
        self.show_label(context, name=ITEM_LABEL, text=item.label)
        order = ReconcileOrder(
            self.table,
            self.silver,
            attempt_of(context),
            columns=self.columns,
            counts_only=self.counts_only,
            show_keys=self.show_keys,
        )
        while isinstance(outcome := reconcile_item(order, item, connect=self.connect), Waiting):
            self.wait(outcome)
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        if problem := outcome.problem:
            self._report(outcome, problem)
        return outcome.to_xcom()

    def _report(self, outcome: Reconciled, problem: str) -> None:
        """:raises SilverDiffers: unless differences are only to be reported."""
        said = f"{self.table.label}: {outcome.item.label}: {problem}"
        if self.fail_on_difference:
            raise SilverDiffers(said)
        self.log.warning("%s", said)


def refuse_wrong_group(group_id: str, given: Mapping[str, Any]) -> None:
    """Check the arguments of both tasks when the DAG is parsed.

    :raises ConfigurationError: names each wrong argument.
    """
    # Airflow creates the operator of a mapped task when it runs, so its own checks come too late.
    checks = {**MssqlCdcReconcilePlanOperator.field_checks, **MssqlCdcReconcileOperator.field_checks}
    problems = [f"{name} {problem}" for name, check in checks.items() if (problem := check(given[name]))]
    problems += both_given(columns=given["columns"], counts_only=given["counts_only"])
    if problems:
        raise ConfigurationError(f"mssql_cdc_reconcile {group_id!r}: " + "; ".join(problems))
