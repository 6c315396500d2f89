"""Planning on ten key shapes: keys that the server visits, seconds, and how even the ranges are."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.planning.keys import KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import RangePlan, drive, plan_ranges
from airflow_provider_mssql_cdc.source.measure import count_rows
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.statement import Statement
from benchmarks.keys import SHAPES, KeyShape
from benchmarks.report import Row
from benchmarks.servers import Server, with_database
from benchmarks.tables import fill, make_numbers
from tests.contract.tables import Made, described
from tests.contract.target import Target, parsed

RANGES, ROWS_PER_RANGE = 64, 1000
MAX_IMBALANCE = 1.5  # of the average, in the largest range
_TABLE = "keyed"


@dataclass
class Planned:
    """A plan and what it took.

    :param cpu_seconds: of this process, in which the embedded server runs as well.
    :param keys_read: rows or index entries; what the server counted, or what its answers say.
    """

    plan: RangePlan
    seconds: float
    cpu_seconds: float
    statements: int
    keys_read: int


@dataclass
class _Counted:
    """Runs a planner's statements, and adds up what the answers say they read."""

    session: SourceSession
    statements: int = 0
    keys_read: int = 0

    def __call__(self, statement: Statement) -> list[dict[str, Any]]:
        rows = self.session.rows(statement)
        self.statements += 1
        self.keys_read += sum(int(row.get("keys_read") or 0) for row in rows)
        return rows


def run(server: Server, *, rows: int) -> Iterator[Row]:
    """On an embedded server in this process, which counts visited keys; else on the server itself."""
    if server.name != "embedded":
        yield from _shapes(server, None, rows=rows)
        return
    with EmbeddedSqlServer("keys") as embedded:
        target = Target("embedded", parsed(embedded.airflow_connection()))
        with with_database(target) as own:
            make_numbers(own, rows)
            yield from _shapes(own, embedded, rows=rows)


def _shapes(server: Server, embedded: EmbeddedSqlServer | None, *, rows: int) -> Iterator[Row]:
    for name, shape in SHAPES.items():
        server.run(f"CREATE TABLE dbo.{_TABLE} ({shape.ddl})")
        fill(server, _TABLE, [value.format(rows=rows) for value in shape.values], rows=rows)
        try:
            yield from _shape(server, embedded, name, shape, rows=rows)
        finally:
            server.run(f"DROP TABLE dbo.{_TABLE}")


def _shape(
    server: Server, embedded: EmbeddedSqlServer | None, name: str, shape: KeyShape, *, rows: int
) -> Iterator[Row]:
    with server.session() as session:
        table = described(session, "dbo", _TABLE)
        columns = tuple(table.column(column) for column in shape.columns)
        keys = KeyChoice(key=columns, split_by=columns, split_is_unique=True)
        planned = _planned(session, table, keys, embedded=embedded, rows=rows)
        counts = [count_rows(session, table.table, columns, part) for part in planned.plan.ranges]
    assert sum(counts) == rows, f"{name}: the ranges hold {sum(counts)} of {rows} rows"
    told = (
        f"{len(counts)} ranges, {planned.plan.method}, {planned.statements} statements, "
        f"{planned.cpu_seconds:.2g} s CPU"
    )
    yield Row("planning", f"{name}: seconds", planned.seconds, "s", note=told)
    yield Row("planning", f"{name}: keys read", planned.keys_read / rows, "per row")
    yield Row(
        "planning",
        f"{name}: largest range",
        max(counts) / (rows / len(counts)),
        "of average",
        MAX_IMBALANCE,
        better="lower",
    )


def _planned(
    session: SourceSession, table: Made, keys: KeyChoice, *, embedded: EmbeddedSqlServer | None, rows: int
) -> Planned:
    counted = _Counted(session)
    ranges = max(2, min(RANGES, rows // ROWS_PER_RANGE))
    steps = plan_ranges(table.table, keys, rows_per_range=-(-rows // ranges), max_ranges=ranges)
    with contextlib.nullcontext() if embedded is None else embedded.count_reads() as reads:
        started, cpu = time.perf_counter(), time.process_time()
        plan = drive(steps, counted)
        taken = time.perf_counter() - started, time.process_time() - cpu
    visited = counted.keys_read if reads is None else reads.total(f"dbo.{_TABLE}")
    return Planned(plan, *taken, counted.statements, visited)
