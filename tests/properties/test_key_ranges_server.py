"""Ranges on a server, by both drivers: every key type, NTILE's bounds, and how many rows are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange
from airflow_provider_mssql_cdc.planning.keys import KeyChoice, choose_keys
from airflow_provider_mssql_cdc.planning.ranges import RangePlan, drive, plan_ranges
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, describe
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings, DriverName
from airflow_provider_mssql_cdc.tsql.snapshot import count_range, select_range
from tests.support.key_values import KEY_VALUES

DRIVERS: tuple[DriverName, ...] = ("mssql-python", "pymssql")
_NUMBERS = count(1)


def connect(server: EmbeddedSqlServer, driver: DriverName) -> SourceSession:
    return SourceSession(
        ConnectionSettings(
            conn_id="shop",
            host=server.host,
            port=server.port,
            database=server.database,
            login="sa",
            password=server.password_of("sa"),
            driver=driver,
        )
    )


@dataclass(frozen=True)
class Cut:
    """A plan, what each range's rows were, and what the server read for it."""

    plan: RangePlan
    rows: list[list[int]]
    keys_read: int
    rows_read: list[int]


class Table:
    """A table on the embedded server: ``columns`` make the key or the split, ``v`` numbers the rows."""

    def __init__(
        self, server: EmbeddedSqlServer, columns: str, rows: Sequence[Sequence[Any]], tail: str
    ) -> None:
        self.server, self.name = server, f"t{next(_NUMBERS)}"
        server.execute(f"CREATE TABLE dbo.{self.name} (v int NOT NULL, {columns}{tail})")
        marks = ", ".join("?" * (1 + len(rows[0]))) if rows else ""
        numbered = [(number, *row) for number, row in enumerate(rows)]
        if rows:
            server.executemany(f"INSERT dbo.{self.name} VALUES ({marks})", numbered)
        server.enable_cdc(f"dbo.{self.name}")

    def cut(self, driver: DriverName, *, split_by: tuple[str, ...] | None = None, **limits: int) -> Cut:
        with connect(self.server, driver) as session:
            described = describe(session, capture_instance=f"dbo_{self.name}")
            keys = choose_keys(described, split_by=split_by)
            assert keys.problems == ()
            with self.server.count_reads() as reads:
                plan = drive(plan_ranges(described.table, keys, **limits), session.rows)
            keys_read = reads.total(f"dbo.{self.name}")
            return Cut(
                plan, *_read(session, described, keys, plan=plan, server=self.server, keys_read=keys_read)
            )


def _read(
    session: SourceSession,
    described: SourceDescription,
    keys: KeyChoice,
    *,
    plan: RangePlan,
    server: EmbeddedSqlServer,
    keys_read: int,
) -> tuple[list[list[int]], int, list[int]]:
    rows: list[list[int]] = []
    read: list[int] = []
    columns = plan_columns(described.columns, {}).columns
    for index, planned in enumerate(plan.ranges):
        item = PlannedRange(PlanId(Lsn(1), "0" * 8, "0" * 8), index, len(plan.ranges), planned)
        key_range = PlannedRange.from_xcom(json.loads(json.dumps(item.to_xcom()))).key_range
        split_by = keys.split_by or ()
        with server.count_reads() as reads:
            found = session.rows(select_range(described.table, columns, split_by, key_range))
        rows.append([row["v"] for row in found])
        read.append(reads.total(described.table.label))
        counted = session.value(count_range(described.table, split_by, key_range))
        assert counted == len(found)
    return rows, keys_read, read


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def tiled(total: int, ranges: int) -> list[int]:
    """NTILE's sizes."""
    return [total // ranges + (index < total % ranges) for index in range(ranges)]


@both_drivers
@pytest.mark.parametrize("declared", KEY_VALUES)
def test_a_key_of_any_type_is_cut_as_ntile_cuts_it(
    server: EmbeddedSqlServer, driver: DriverName, declared: str
) -> None:
    values = KEY_VALUES[declared][::-2] + KEY_VALUES[declared][-2::-2]
    table = Table(server, f"k {declared} NOT NULL PRIMARY KEY", [(value,) for value in values], "")
    cut = table.cut(driver, rows_per_range=7, max_ranges=256)
    assert cut.plan.method == "keyset"
    sizes = [len(rows) for rows in cut.rows]
    assert sizes == tiled(len(values), len(sizes))
    assert len(sizes) == -(-len(values) // 7)
    ntile = f"SELECT v, NTILE({len(sizes)}) OVER (ORDER BY k) FROM dbo.{table.name}"
    tiles = {number: tile - 1 for number, tile in server.execute(ntile)}
    assert tiles == {number: index for index, rows in enumerate(cut.rows) for number in rows}
    assert cut.keys_read <= len(values) + 4 * len(sizes)
    assert max(read - len(rows) for read, rows in zip(cut.rows_read, cut.rows, strict=True)) <= 2


def leading_values(leading: int, rows: int) -> list[tuple[Any, ...]]:
    """Many rows under few leading values, whose spelling differs from row to row."""
    spelled = (str.lower, str.upper, str.title)
    return [
        (spelled[number % 3](f"company {number % leading:02d}"), number % 2, f"{number // 20:05d}", number)
        for number in range(rows)
    ]


@both_drivers
@pytest.mark.parametrize("leading", [1, 3, 20])
def test_a_composite_key_is_read_once_in_planning_and_once_in_reading(
    server: EmbeddedSqlServer, driver: DriverName, leading: int
) -> None:
    columns = "a varchar(20) NOT NULL, b bit NOT NULL, c nvarchar(10) NOT NULL, d int NOT NULL"
    rows = leading_values(leading, 4000)
    table = Table(server, columns, rows, ", PRIMARY KEY (a, b, c, d)")
    cut = table.cut(driver, rows_per_range=500, max_ranges=256)
    assert [len(found) for found in cut.rows] == [500] * 8
    assert cut.keys_read <= 4000 + 8 * 12
    assert max(cut.rows_read) <= 500 + 12


@both_drivers
def test_a_key_may_have_sixteen_columns(server: EmbeddedSqlServer, driver: DriverName) -> None:
    names = [f"k{number}" for number in range(16)]
    columns = ", ".join(f"{name} varchar(9) NOT NULL" for name in names)
    rows = [tuple("ab"[number >> bit & 1] for bit in range(15, -1, -1)) for number in range(300)]
    table = Table(server, columns, rows, f", PRIMARY KEY ({', '.join(names)})")
    cut = table.cut(driver, rows_per_range=40, max_ranges=256)
    assert [len(found) for found in cut.rows] == tiled(300, 8)


@both_drivers
def test_a_heap_is_cut_on_columns_that_repeat_and_hold_null(
    server: EmbeddedSqlServer, driver: DriverName
) -> None:
    rows = [
        (
            None if number % 5 == 0 else f"{'Nn'[number % 2]}{number % 7}",
            None if number % 3 == 0 else number % 4,
        )
        for number in range(200)
    ]
    table = Table(server, "s nvarchar(20) NULL, n tinyint NULL", rows, "")
    cut = table.cut(driver, split_by=("s", "n"), rows_per_range=20, max_ranges=256)
    assert sorted(number for found in cut.rows for number in found) == list(range(200))
    groups = {}
    for index, found in enumerate(cut.rows):
        for number in found:
            text, value = rows[number]
            groups.setdefault((text and text.lower(), value), set()).add(index)
    assert all(len(ranges) == 1 for ranges in groups.values()), "a value is never split between ranges"
    assert len(cut.plan.ranges) > 5
    assert cut.plan.ranges[1].lower is not None


@both_drivers
def test_a_rowversion_column_can_cut_a_table(server: EmbeddedSqlServer, driver: DriverName) -> None:
    table = Table(server, "x int NOT NULL", [(number,) for number in range(50)], ", stamp rowversion")
    cut = table.cut(driver, split_by=("stamp",), rows_per_range=10, max_ranges=256)
    assert cut.rows == [list(range(first, first + 10)) for first in range(0, 50, 10)]


@both_drivers
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_the_smallest_tables_have_one_range(server: EmbeddedSqlServer, driver: DriverName, rows: int) -> None:
    values = [(number,) for number in range(rows)]
    table = Table(server, "k varchar(9) NOT NULL PRIMARY KEY", values, "")
    cut = table.cut(driver, rows_per_range=2, max_ranges=256)
    assert [len(found) for found in cut.rows] == [rows]


@both_drivers
def test_a_million_wide_key_with_a_sentinel_is_balanced(
    server: EmbeddedSqlServer, driver: DriverName
) -> None:
    values = [(20240101000001 + number * 500,) for number in range(999)] + [(2**63 - 1,)]
    table = Table(server, "k bigint NOT NULL PRIMARY KEY", values, "")
    cut = table.cut(driver, rows_per_range=125, max_ranges=8)
    assert [len(found) for found in cut.rows] == [125] * 8


@both_drivers
def test_dense_keys_are_cut_without_reading_them(server: EmbeddedSqlServer, driver: DriverName) -> None:
    table = Table(server, "k int NOT NULL PRIMARY KEY", [(number,) for number in range(-500, 500)], "")
    cut = table.cut(driver, rows_per_range=100, max_ranges=256)
    assert cut.plan.method == "arithmetic"
    assert [len(found) for found in cut.rows] == [100] * 10
    assert cut.keys_read <= 4
