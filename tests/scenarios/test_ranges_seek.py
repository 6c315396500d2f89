"""Ranges on every kind of key, as the jobs cut and read them: each row once, and by seeks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

ROWS, RANGES = 240, 6

# the key's columns, and the n-th row's values for them as T-SQL
KEYS = {
    "a sparse int": ("k int NOT NULL", "{n} * 1000003"),
    "a varchar of a code page that the database has not": (
        "k varchar(20) COLLATE Greek_CI_AS NOT NULL",
        "N'{letter}' + CAST({n} AS varchar(9))",
    ),
    "a varchar under a SQL collation": (
        "k varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS NOT NULL",
        "'key ' + CAST({n} AS varchar(9))",
    ),
    "a datetime2 with seven digits": (
        "k datetime2(7) NOT NULL",
        "CAST('2024-01-01T00:00:00.{n:07}' AS datetime2(7))",
    ),
    "a decimal": ("k decimal(18,4) NOT NULL", "CAST({n} AS decimal(18, 4)) / 10000"),
    "a binary": ("k varbinary(8) NOT NULL", "CAST({n} * 7919 AS varbinary(8))"),
    "two columns, the first in groups": ("g smallint NOT NULL, k nvarchar(9) NOT NULL", "{n} % 5, N'{n}'"),
}


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


def fill(server: EmbeddedSqlServer, definition: str, value: str) -> None:
    columns = ", ".join(column.split()[0] for column in definition.split(", ") if "NOT NULL" in column)
    server.execute(f"CREATE TABLE dbo.t ({definition}, n int NOT NULL, PRIMARY KEY ({columns}))")
    for n in range(ROWS):
        text = value.format(n=n, letter="αβγδεζηθ"[n % 8])
        server.execute(f"INSERT INTO dbo.t SELECT {text}, {n}")
    server.enable_cdc("dbo.t")


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
@pytest.mark.parametrize(("definition", "value"), KEYS.values(), ids=KEYS)
def test_every_row_is_read_once_and_no_range_visits_anothers_rows(
    server: EmbeddedSqlServer, tmp_path: Path, definition: str, value: str, driver: DriverName
) -> None:
    fill(server, definition, value)
    # A key in another code page than the database is read when it is allowed by name.
    allow = ("k",) if "Greek" in definition else None
    load = Load(server, tmp_path, instance="dbo_t", driver=driver, allow=allow)
    planned = load.plan(rows_per_range=ROWS // RANGES)
    with server.count_reads() as reads:
        outcomes = [load.read(item) for item in planned]
    load.complete(outcomes)

    assert len(planned) >= RANGES - 1
    assert max(outcome.rows for outcome in outcomes) <= 2 * ROWS // RANGES
    assert sorted(row["n"] for row in delta_rows(load.table.bronze)) == list(range(ROWS))
    visited = sum(statement.tables.get("dbo.t", 0) for statement in reads.statements)
    assert visited <= ROWS + 4 * len(planned), "a bound's neighbour may be looked at, no more"
