"""Which tables are behind, by their facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from airflow_provider_mssql_cdc.planning.overview import TableOverview


@dataclass(frozen=True, slots=True)
class Freshness:
    """Say how fresh tables have to be.

    :param max_lag: seconds that a position's commit time may be behind; None for any.
    :param max_age: seconds since a task last wrote a facts row of the table; None for any.
    :param sources: names or patterns of source tables, as facts have them; empty for all.
    """

    max_lag: float | None = None
    max_age: float | None = None
    sources: tuple[str, ...] = ()

    def problems(self, tables: Sequence[TableOverview], at: datetime) -> list[str]:
        """One sentence for each table that is not fresh, and for each name without a table."""
        wanted = [table for table in tables if self._is_wanted(table.source)]
        found = [
            f"{name} has no facts: no task has loaded it, or the name is not spelled as facts have it"
            for name in self.sources
            if not any(_matches(table.source, name) for table in tables)
        ]
        return found + [sentence for table in wanted for sentence in self._of(table, at)]

    def _is_wanted(self, source: str) -> bool:
        return not self.sources or any(_matches(source, pattern) for pattern in self.sources)

    def _of(self, table: TableOverview, at: datetime) -> Iterable[str]:
        if table.state == "gap":
            yield (
                f"{table.source}: changes were lost and no snapshot was taken since: "
                "mssql_cdc_bootstrap(resnapshot=True)"
            )
        elif table.snapshot is None:
            yield f"{table.source}: it is not loaded yet; look at its load"
        lag = table.lag_seconds(at)
        if self.max_lag is not None and table.snapshot is not None and (lag is None or lag > self.max_lag):
            behind = "its position has no commit time" if lag is None else f"it is {_period(lag)} behind"
            allowed = f"at most {_period(self.max_lag)} are allowed"
            yield f"{table.source}: {behind}, {allowed}; look at the task that reads its changes"
        if self.max_age is not None and table.looked_at is not None:
            age = (at - table.looked_at).total_seconds()
            if age > self.max_age:
                yield (
                    f"{table.source}: no task has written facts of it for {_period(age)}, at most "
                    f"{_period(self.max_age)} are allowed; see whether its DAG runs"
                )


def _matches(source: str, pattern: str) -> bool:
    return source == pattern or fnmatchcase(source, pattern)


def _period(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
