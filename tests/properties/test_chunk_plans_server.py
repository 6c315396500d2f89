"""Chunks on a server: keys of every type and shape, whatever the table's metadata says of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.model.chunks import StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.chunks import begin_chunks, find_bounds
from airflow_provider_mssql_cdc.planning.keys import choose_keys
from airflow_provider_mssql_cdc.planning.ranges import drive
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.settings import DriverName
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.properties.test_key_ranges_server import DRIVERS, connect
from tests.support.key_values import KEY_VALUES

CHUNK_ROWS = 7
BIGINT = 2**63
_NUMBERS = count(1)


@dataclass(frozen=True)
class Planned:
    """How a table was cut, and which rows each chunk holds."""

    method: str
    chunks: list[list[int]]
    keys_read: int

    @property
    def sizes(self) -> list[int]:
        return [len(chunk) for chunk in self.chunks]


class Table:
    """A table whose rows are numbered by ``v``."""

    def __init__(self, server: EmbeddedSqlServer, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        self.server, self.name = server, f"c{next(_NUMBERS)}"
        server.execute(f"CREATE TABLE dbo.{self.name} (v int NOT NULL, {columns})")
        if rows:
            marks = ", ".join("?" * (1 + len(rows[0])))
            numbered = [(number, *row) for number, row in enumerate(rows)]
            server.executemany(f"INSERT dbo.{self.name} VALUES ({marks})", numbered)
        server.enable_cdc(f"dbo.{self.name}")

    def planned(
        self,
        driver: DriverName = "mssql-python",
        *,
        estimate: int | None = None,
        split_by: tuple[str, ...] | None = None,
    ) -> Planned:
        """:param estimate: what ``sp_spaceused`` is to have said."""
        with connect(self.server, driver) as session:
            described = describe(session, capture_instance=f"dbo_{self.name}")
            keys = choose_keys(described, split_by=split_by)

            def run(statement: Statement) -> list[dict[str, Any]]:
                if estimate is not None and "sp_spaceused" in statement.text:
                    return [{"rows": str(estimate)}]
                return session.rows(statement)

            bounds: list[Bound] = []
            with self.server.count_reads() as reads:
                steps = begin_chunks(
                    described.table, keys, snapshot=Lsn(1), chunk_rows=CHUNK_ROWS, split="split"
                )
                start = drive(steps, run)
                begun = StoredPlan(start)
                columns = keys.split_by or ()
                drive(find_bounds(described.table, columns, begun, found=bounds.append), run)
            plan = StoredPlan(start, tuple(bounds), chunks_per_wave=1)
            selected = plan_columns(described.columns, {}).columns
            chunks = [
                [row["v"] for row in session.rows(select_range(described.table, selected, columns, one))]
                for one in (chunk.key_range for wave in range(plan.waves) for chunk in plan.chunks_of(wave))
            ]
            return Planned(start.method, chunks, reads.total(f"dbo.{self.name}"))


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


def assert_tiles(planned: Planned, rows: int) -> None:
    assert sorted(row for chunk in planned.chunks for row in chunk) == list(range(rows))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("declared", KEY_VALUES)
def test_no_chunk_of_a_key_of_any_type_has_more_rows_than_asked_for(
    server: EmbeddedSqlServer, driver: DriverName, declared: str
) -> None:
    values = KEY_VALUES[declared][::-2] + KEY_VALUES[declared][-2::-2]
    table = Table(server, f"k {declared} NOT NULL PRIMARY KEY", [(value,) for value in values])
    planned = table.planned(driver)
    assert_tiles(planned, len(values))
    assert max(planned.sizes) <= CHUNK_ROWS
    assert len(planned.sizes) >= len(values) / CHUNK_ROWS


SHAPES = {
    "dense": list(range(-100, 100)),
    "sparse": [number * 1_000_003 for number in range(200)],
    "a sentinel": [*range(199), 10**15],
    "both ends": [-BIGINT, *range(198), BIGINT - 1],
    "two clusters": [*range(100), *range(10**17, 10**17 + 100)],
    "one row": [5],
    "none": [],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_estimate_changes_nothing_in_correctness(server: EmbeddedSqlServer, shape: str) -> None:
    keys = SHAPES[shape]
    table = Table(server, "k bigint NOT NULL PRIMARY KEY", [(key,) for key in keys])
    for estimate in (None, 0, -3, 20, 2000):
        planned = table.planned(estimate=estimate)
        assert_tiles(planned, len(keys))
        assert max(planned.sizes) <= CHUNK_ROWS, estimate


@pytest.mark.parametrize(
    ("shape", "method", "passes"),
    [("dense", "arithmetic", 0.1), ("sparse", "grid", 2.2), ("a sentinel", "grid", 2.2)],
)
def test_planning_a_number_costs_a_pass_over_the_key_or_nothing(
    server: EmbeddedSqlServer, shape: str, method: str, passes: float
) -> None:
    keys = SHAPES[shape]
    planned = Table(server, "k bigint NOT NULL PRIMARY KEY", [(key,) for key in keys]).planned()
    assert planned.method == method
    assert planned.keys_read <= passes * len(keys) + 8


@pytest.mark.parametrize("leading", [1, 3, 20])
def test_a_composite_key_is_read_once(server: EmbeddedSqlServer, leading: int) -> None:
    rows = [(number % leading, number) for number in range(200)]
    planned = Table(server, "a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)", rows).planned()
    assert planned.method == "keyset"
    assert_tiles(planned, 200)
    assert set(planned.sizes[:-1]) == {CHUNK_ROWS}
    assert planned.keys_read <= 200 + 6 * len(planned.sizes)


def test_columns_that_repeat_and_hold_null_are_cut_where_they_can_be(server: EmbeddedSqlServer) -> None:
    values = [None] * 20 + [1] * 30 + [2, 3, 4, 5, 6, 7, 8, 9] + [10] * 5
    table = Table(server, "k int NULL, INDEX by_k (k)", [(value,) for value in values])
    planned = table.planned(split_by=("k",))
    assert_tiles(planned, len(values))
    assert all(
        size <= CHUNK_ROWS or len({values[row] for row in chunk}) == 1
        for size, chunk in zip(planned.sizes, planned.chunks, strict=True)
    )


def test_a_table_without_a_key_is_one_chunk(server: EmbeddedSqlServer) -> None:
    planned = Table(server, "t nvarchar(20) NULL", [("x",)] * 30).planned()
    assert (planned.method, planned.sizes) == ("whole", [30])
