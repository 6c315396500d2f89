"""``upkeep``: keep the number and the size of a table's Delta files within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.model.table_uri import uri_problems
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    at_least,
    attempt_of,
    flag,
    or_none,
    share,
    text,
)

if TYPE_CHECKING:
    from airflow.sdk import Context


class MssqlCdcUpkeepOperator(MssqlCdcOperator):
    """Write small files together, fold old changes into the snapshot, remove files that nothing needs.

    Safe at any time next to loads, changes and merges, which go on meanwhile; the source is not asked. Each
    part is done on its own: one that fails leaves the others alone, and the task fails at the end. A run may
    be repeated. Run it daily, with ``silver`` merged by another task before it.

    It returns what each part did to ``bronze``, ``silver`` and ``facts``, for instance
    ``{"bronze": {"fold": {"lsn", "rows", "changes_removed"},
    "compact": {"files_removed", "files_added", "bytes_removed", "bytes_added", "files"},
    "vacuum": {"files", "staged_files"}, "checkpoint": {"version"}}}``; a fold that was not due or not
    possible is ``{"reason"}``.

    :param table: the source table and its Delta tables. (templated)
    :param silver: path or URI of the silver table. It is looked after too, and bronze keeps the files that
        it still has to merge. (templated)
    :param compact: write small files of changes, of silver and of facts together; no row changes.
    :param fold: write bronze's own state as its snapshot, and take out the older snapshot's rows and the
        changes that are in it. Needs ``silver``; readers of bronze no longer see the changes that left.
    :param fold_share: fold when the changes that would leave are at least this share of the snapshot's rows,
        0.0 to 1.0: a fold writes the whole snapshot again.
    :param fold_after_hours: fold changes that are at least this old, in hours; at least CDC's retention, so
        that no load under way is superseded.
    :param keep_changes_days: keep changes in bronze for this many days although a fold has them; None keeps
        none. They can no longer be repaired.
    :param vacuum: remove files that left a table, and staged files that no task can commit any more.
    :param vacuum_hours: since when, in hours; readers of older versions fail afterwards.
    :param facts_keep_days: remove facts rows of changes, repairs, merges and reconciles that are older, in
        days; the newest of each table stays. None keeps all.
    """

    template_fields: Sequence[str] = ("table", "silver")
    field_checks: ClassVar = {
        "silver": or_none(text),
        "compact": flag,
        "fold": flag,
        "fold_share": share,
        "fold_after_hours": at_least(0),
        "keep_changes_days": or_none(at_least(0)),
        "vacuum": flag,
        "vacuum_hours": at_least(0),
        "facts_keep_days": or_none(at_least(1)),
    }

    def __init__(
        self,
        *,
        silver: str | None = None,
        compact: bool = True,
        fold: bool = False,
        fold_share: float = 0.1,
        fold_after_hours: int = 168,
        keep_changes_days: int | None = None,
        vacuum: bool = True,
        vacuum_hours: int = 168,
        facts_keep_days: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.silver = silver
        self.compact = compact
        self.fold = fold
        self.fold_share = fold_share
        self.fold_after_hours = fold_after_hours
        self.keep_changes_days = keep_changes_days
        self.vacuum = vacuum
        self.vacuum_hours = vacuum_hours
        self.facts_keep_days = facts_keep_days
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        problems = uri_problems(self.table.known_uris(silver=self.silver))
        if self.fold and not self.silver:
            problems.append("fold=True needs silver=: only what silver has merged may leave bronze")
        return problems

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.task import Skipped
        from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepOrder, upkeep

        self._refuse_wrong_arguments()  # again: templates are rendered now
        order = UpkeepOrder(
            table=self.table,
            silver=self.silver,
            attempt=attempt_of(context),
            compact=self.compact,
            fold=self.fold,
            vacuum=self.vacuum,
            fold_share=self.fold_share,
            fold_after_hours=self.fold_after_hours,
            keep_changes_days=self.keep_changes_days,
            vacuum_hours=self.vacuum_hours,
            facts_keep_days=self.facts_keep_days,
        )
        outcome = upkeep(order)
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        return outcome.to_xcom()
