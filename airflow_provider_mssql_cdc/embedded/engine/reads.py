"""Counting the rows that statements visit."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from airflow_provider_mssql_cdc.embedded.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class StatementReads:
    """``tables``: rows or index entries visited, by "schema.table"."""

    sql: str
    tables: dict[str, int]


@dataclass(slots=True)
class Reads:
    """What was counted while the context was open, in the order in which statements ended."""

    engine: Engine
    statements: list[StatementReads] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Reads:
        self.engine.counters.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.counters.remove(self)

    def record(self, sql: str, tables: dict[str, int]) -> None:
        with self._guard:
            self.statements.append(StatementReads(sql, dict(tables)))

    def total(self, table: str | None = None) -> int:
        """Rows visited, in one table or in all."""
        return sum(n for s in self.statements for t, n in s.tables.items() if table in (None, t))
