"""A database of 40 tables in four shapes, three of them large, that is written to while it is loaded."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.scenarios import writer
from tests.scenarios.conftest import Server

LARGE = ("large_0", "large_1", "large_2")
SMALL = tuple(f"small_{number:02}" for number in range(37))
TABLES = (*LARGE, *SMALL)
LARGE_ROWS, SMALL_ROWS = 6000, 60
ROWS_PER_RANGE = 1000
ROWS_PER_STATEMENT = 500
FRESH = 1_000_000
"""Numbers of rows that come while the tables are loaded begin here."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns after ``id``, the key, and how their values are written for the row of a number."""

    columns: str
    key: str
    values: str


SHAPES = (
    Shape("name nvarchar(40) NULL", "id", "N'row {0}'"),
    Shape(
        "region int NOT NULL, name nvarchar(40) NULL, amount decimal(18, 4) NULL",
        "region, id",
        "{1}, N'é{0}', {0}.25",
    ),
    Shape("name nvarchar(200) NULL, day date NULL", "id", "N'{0}', '2024-02-29'"),
    Shape("name nvarchar(40) NULL, big bigint NULL, real_one float NULL", "id", "NULL, {0}000000000, {0}.5"),
)


def shape_of(table: str) -> Shape:
    return SHAPES[TABLES.index(table) % len(SHAPES)]


def create(server: Server, table: str) -> None:
    """The table and its rows, then CDC."""
    shape, rows = shape_of(table), LARGE_ROWS if table in LARGE else SMALL_ROWS
    server.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL, {shape.columns}, PRIMARY KEY ({shape.key}))")
    for start in range(0, rows, ROWS_PER_STATEMENT):
        numbers = range(start, min(start + ROWS_PER_STATEMENT, rows))
        server.execute(f"INSERT INTO dbo.{table} VALUES " + ", ".join(row_of(table, n) for n in numbers))
    server.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL", (table,)
    )


def row_of(table: str, number: int) -> str:
    return f"({number}, {shape_of(table).values.format(number, number % 7)})"


def rows(server: Server, table: str) -> list[tuple[Any, ...]]:
    return sorted(server.execute(f"SELECT * FROM dbo.{table}"), key=lambda row: row[0])


def somebody_writing(server: Server, seed: int) -> AbstractContextManager[None]:
    """Changes of all kinds in any table."""

    def choose(rng: random.Random) -> tuple[str, int]:
        table = rng.choice(TABLES)
        return table, rng.randrange(LARGE_ROWS if table in LARGE else SMALL_ROWS)

    return writer.somebody_writing(
        server, seed, choose=choose, row_of=row_of, fresh_from=FRESH, pauses=(0.1, 0.5)
    )
