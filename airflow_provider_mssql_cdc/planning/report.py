"""What became of the tables of a run: put together from its tasks' results, in words and in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mssql_cdc.errors import listed
from airflow_provider_mssql_cdc.model.database_items import TableFailure

Key = tuple[str, int]
"""A mapped task and the number of its item."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of a pipeline.

    :param label: what messages call the database.
    :param tables: chosen by the patterns.
    :param loaded: whose snapshot was completed in this run.
    :param followed: whose changes were read up to what capture has processed.
    :param rows: change rows that went to bronze.
    :param failed: by table, why; the newest word where several tasks had the table.
    :param died: tasks that ended without a result, with their tables.
    :param waiting: tables that a later run loads.
    :param untracked: loaded once, and no longer tracked by CDC; with their bronze.
    :param planned: False when ``plan`` itself ended without a result.
    """

    label: str
    tables: int = 0
    loaded: Sequence[str] = ()
    followed: int = 0
    rows: int = 0
    failed: Mapping[str, TableFailure] = field(default_factory=dict)
    died: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waiting: Sequence[str] = ()
    untracked: Mapping[str, str] = field(default_factory=dict)
    planned: bool = True

    @classmethod
    def without_plan(cls, label: str) -> RunReport:
        return cls(label, planned=False)

    def problem(self, *, max_failed_tables: int) -> str | None:
        """Why the run has to fail, with each failed table's error and remedy; None when it has not."""
        if not self.planned:
            return (
                f"{self.label}: plan ended without a result; its log says why. Clear it with all downstream"
            )
        if not self.died and len(self.failed) <= max_failed_tables:
            return None
        return "\n".join([self._headline(max_failed_tables), *self._trouble()])

    def lines(self) -> Iterator[str]:
        """For the log."""
        if not self.planned:
            return
        yield (
            f"{self.label}: {self.tables} table(s): {len(self.loaded)} loaded, {self.followed} followed, "
            f"{self.rows:,} change row(s), {len(self.waiting)} wait for the next run, "
            f"{len(self.failed)} failed"
        )
        if self.loaded:
            yield f"loaded: {listed(self.loaded)}"
        if self.waiting:
            yield f"wait for the next run: {listed(self.waiting)}"
        for name, bronze in self.untracked.items():
            yield f"{name} is no longer tracked by CDC: {bronze} stays as it is"
        yield from self._trouble()

    def to_xcom(self) -> dict[str, Any]:
        return {
            "tables": self.tables,
            "loaded": list(self.loaded),
            "followed": self.followed,
            "rows": self.rows,
            "failed": {name: failure.to_xcom() for name, failure in self.failed.items()},
            "died": {name: list(tables) for name, tables in self.died.items()},
            "waiting": list(self.waiting),
            "untracked": dict(self.untracked),
        }

    def _headline(self, max_failed_tables: int) -> str:
        parts = []
        if self.failed:
            allowed = f" (max_failed_tables={max_failed_tables})" if max_failed_tables else ""
            parts.append(f"{len(self.failed)} failure(s) among {self.tables} table(s){allowed}")
        if self.died:
            parts.append(f"{len(self.died)} task(s) ended without a result")
        return f"{self.label}: {' and '.join(parts)}; the other tables are done:"

    def _trouble(self) -> Iterator[str]:
        for name, failure in self.failed.items():
            yield f"  {name}: {failure.error}: {failure.message}"
        for task, tables in self.died.items():
            yield f"  {task} ended without a result, its log says why; its tables: {listed(tables)}"


def report_of(
    label: str,
    summary: Mapping[str, Any],
    expected: Mapping[Key, Sequence[str]],
    found: Mapping[Key, Mapping[str, Any]],
) -> RunReport:
    """Put the results of a run's tasks together.

    :param summary: what ``plan`` told of itself.
    :param expected: the tables of each item that was planned.
    :param found: results of this plan.
    """
    failed = {name: TableFailure.from_xcom(item) for name, item in summary["failures"].items()}
    loaded: list[str] = []
    followed: set[str] = set()
    rows = 0
    for key in expected:
        result = found.get(key, {})
        for name, item in result.get("failures", {}).items():
            failed[name] = TableFailure.from_xcom(item)
        for name, done in result.get("tables", {}).items():
            rows += int(done.get("changes") or 0)
            if "loaded" in done:
                loaded.append(name)
            if "until" in done:
                followed.add(name)
    died = {
        f"{task}[{number}]": tables
        for (task, number), tables in expected.items()
        if tables and (task, number) not in found
    }
    return RunReport(
        label=label,
        tables=int(summary["tables"]),
        loaded=tuple(loaded),
        followed=len(followed),
        rows=rows,
        failed=failed,
        died=died,
        waiting=tuple(summary["waiting"]),
        untracked=summary["untracked"],
    )
