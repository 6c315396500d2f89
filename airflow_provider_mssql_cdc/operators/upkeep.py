"""``upkeep``: keep the number and the size of a table's Delta files within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.table_uri import uri_problems
from airflow_provider_mssql_cdc.operators._base import (
    CdcTask,
    MssqlCdcOperator,
    at_least,
    attempt_of,
    flag,
    or_none,
    share,
    text,
    wrong_arguments,
)
from airflow_provider_mssql_cdc.operators.database import MssqlCdcDatabaseTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepOptions


class UpkeepTask(CdcTask):
    """Base of the tasks of upkeep: what is done to each table.

    :param compact: write small files of changes, of silver and of facts together; no row changes.
    :param fold: write bronze's own state as its snapshot, and take out the older snapshot's rows and the
        changes that are in it. Needs silver; readers of bronze no longer see the changes that left.
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

    field_checks: ClassVar = {
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
        self.compact = compact
        self.fold = fold
        self.fold_share = fold_share
        self.fold_after_hours = fold_after_hours
        self.keep_changes_days = keep_changes_days
        self.vacuum = vacuum
        self.vacuum_hours = vacuum_hours
        self.facts_keep_days = facts_keep_days

    def options(self) -> UpkeepOptions:
        """Return the arguments as the job takes them."""
        from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepOptions

        return UpkeepOptions(**{each.name: getattr(self, each.name) for each in fields(UpkeepOptions)})


class MssqlCdcUpkeepOperator(UpkeepTask, MssqlCdcOperator):
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
        it still has to merge; ``fold`` needs it. (templated)
    """

    template_fields: Sequence[str] = ("table", "silver")
    field_checks: ClassVar = {**UpkeepTask.field_checks, "silver": or_none(text)}

    def __init__(self, *, silver: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.silver = silver
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
        outcome = upkeep(UpkeepOrder(self.table, self.silver, attempt_of(context), self.options()))
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        return outcome.to_xcom()


class MssqlCdcDatabaseUpkeepOperator(UpkeepTask, MssqlCdcDatabaseTask):
    """The same for every table that ``mssql_cdc_pipeline`` loads and follows, one after the other.

    The source is asked which tables CDC tracks. A table that fails does not stop the others; the task fails
    at the end and names it. It returns ``tables`` and the numbers of all tables added up.

    :param database: which tables, from where and to where; the value of the pipeline. (templated)
    :param sessions_per_task: how many tables are looked after at the same time.
    """

    template_fields: Sequence[str] = ("database",)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        problems = wrong_arguments(self.field_checks, vars(self))
        if self.fold and self.database.silver is None:
            problems.append(
                "fold=True needs a database with silver: only what it has merged may leave bronze"
            )
        if problems:
            raise ConfigurationError(f"{type(self).__name__} {self.task_id!r}: " + "; ".join(problems))

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.upkeep_database import summed, upkeep_database

        outcome = upkeep_database(self.worker(context), self.options())
        failures = self.ended(context, outcome, plan=None, item=0)["failures"]
        if failures:
            named = "; ".join(f"{name}: {one.error}: {one.message}" for name, one in outcome.failures.items())
            raise AirflowFailException(
                f"upkeep of {len(failures)} table(s) failed, the others are done: {named}"
            )
        return {"tables": len(outcome.tables), **summed(outcome)}
