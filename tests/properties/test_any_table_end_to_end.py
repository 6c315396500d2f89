"""Random tables from the source to Delta: schemas, keys, rows, range counts, and changes in between.

One driver plans, each range is read by either, everything passes through XCom as JSON, commits happen between
any two steps; then changes are read, and the latest row of each key is the source's.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.planning.columns import lake_name
from airflow_provider_mssql_cdc.source.settings import DriverName
from airflow_provider_mssql_cdc.tsql.statement import shown
from tests.support.delta_rows import delta_rows
from tests.support.key_values import KEY_VALUES
from tests.support.load import Load
from tests.support.type_values import TYPE_VALUES

DRIVERS: tuple[DriverName, ...] = ("mssql-python", "pymssql")
EXAMPLES = int(os.environ.get("MSSQL_CDC_EXAMPLES", "24"))
_NUMBERS = count(1)
NAMES = ["id", "Order No_", "a.b", "x]y", "{k}", "select", "100%", "Größe", "🌺", "c,d", " e", "_x0020_"]
# equal up to case, accents and blanks; the ends of types; many rows under one leading value
NASTY: dict[str, list[Any]] = {
    "varchar(20)": [
        "n",
        "N",
        "n ",
        " n",
        "",
        "nn",
        "nN",
        "é",
        "e",
        "ß",
        "common-prefix-1",
        "common-prefix-2",
    ],
    "nvarchar(20)": ["n", "N", "ñ", "\0", "a\0b", "back\\\nslash", "🌺", "%(lo0)s'", "{{ 1/0 }}", "K", "K "],
    "varchar(20) COLLATE Latin1_General_CI_AI": ["e", "é", "E", "É ", "f"],
    "bigint": [-(2**63), -1, 0, 1, 2, 2**63 - 1],
    "float": [-0.0, 0.0, 5e-324, -1.7976931348623157e308, 0.1, 0.30000000000000004],
    "datetime2(7)": ["2024-01-01 00:00:00.0000001", "2024-01-01 00:00:00.0000002", "0001-01-01 00:00:00"],
    "datetimeoffset(7)": [
        "2024-01-01 10:00:00 +00:00",
        "2024-01-01 12:00:00 +02:00",
        "2024-01-01 13:00:00 +02:00",
    ],
    "varbinary(8)": [b"", b"\0", b"\0\0", b"a", b"A"],
}
KEY_TYPES = st.one_of(st.sampled_from(sorted(NASTY)), st.sampled_from(sorted(KEY_VALUES)))
LOB = {"varchar(max)", "nvarchar(max)", "varbinary(max)", "xml", "text", "ntext", "image"}


@dataclass(frozen=True)
class Case:
    """``split`` are columns that repeat and may hold NULL; ``id`` identifies a row."""

    split: tuple[tuple[str, str, bool], ...]
    data: tuple[tuple[str, str], ...]
    rows: list[tuple[Any, ...]]
    later: list[tuple[Any, ...]]
    gone: set[int]
    per_range: int
    most: int
    picks: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.permutations(NAMES))
    split = tuple(
        (names[index], draw(KEY_TYPES), draw(st.booleans())) for index in range(draw(st.integers(1, 4)))
    )
    data = tuple(
        (f"d{index} {names[-1]}", draw(st.sampled_from(sorted(TYPE_VALUES))))
        for index in range(draw(st.integers(0, 3)))
    )
    values = [
        *(_key_values(declared, nullable) for _, declared, nullable in split),
        *(st.sampled_from(list(TYPE_VALUES[declared][0])) for _, declared in data),
    ]
    return Case(
        split,
        data,
        rows=draw(st.lists(st.tuples(*values), max_size=40)),
        later=draw(st.lists(st.tuples(*values), max_size=6)),
        gone=draw(st.sets(st.integers(0, 39), max_size=6)),
        per_range=draw(st.integers(1, 15)),
        most=draw(st.integers(1, 9)),
        picks=draw(st.lists(st.integers(0, 1), min_size=10, max_size=10)),
    )


def _key_values(declared: str, nullable: bool) -> st.SearchStrategy[Any]:
    pool = NASTY.get(declared) or KEY_VALUES[declared][:8]
    first = st.just(pool[0])
    values = st.one_of(first, st.sampled_from(pool))
    return st.one_of(st.none(), values) if nullable else values


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="any") as running:
        running.enable_cdc()
        yield running


class Example:
    """One random table on the server and the loads of it."""

    def __init__(self, server: EmbeddedSqlServer, case: Case, folder: Path) -> None:
        self.server, self.case, self.name = server, case, f"t{next(_NUMBERS)}"
        split = ", ".join(
            f"{shown(name)} {declared} {'NULL' if nullable else 'NOT NULL'}"
            for name, declared, nullable in case.split
        )
        data = "".join(f", {shown(name)} {declared} NULL" for name, declared in case.data)
        server.execute(f"CREATE TABLE dbo.{self.name} (__id int NOT NULL PRIMARY KEY, {split}{data})")
        index = ", ".join(shown(name) for name, _, _ in case.split)
        if not any(declared in LOB for _, declared, _ in case.split):
            server.execute(f"CREATE INDEX ix ON dbo.{self.name} ({index})")
        self.insert(list(enumerate(case.rows)))
        server.enable_cdc(f"dbo.{self.name}")
        self.loads = {
            driver: Load(
                server,
                folder,
                instance=f"dbo_{self.name}",
                driver=driver,
                split_by=tuple(name for name, _, _ in case.split),
            )
            for driver in DRIVERS
        }

    def insert(self, numbered: list[tuple[int, tuple[Any, ...]]]) -> None:
        width = 1 + len(self.case.split) + len(self.case.data)
        rows = [(number, *row) for number, row in numbered]
        self.server.executemany(f"INSERT INTO dbo.{self.name} VALUES ({', '.join('?' * width)})", rows)

    def by(self, turn: int) -> Load:
        return self.loads[DRIVERS[self.case.picks[turn % len(self.case.picks)]]]

    def load(self) -> tuple[int, Counter[int]]:
        """Plan, change, read, change, complete; the number of ranges and the snapshot's rows."""
        planned = self.by(0).plan(rows_per_range=self.case.per_range, max_ranges=self.case.most)
        self.insert([(100 + number, row) for number, row in enumerate(self.case.later)])
        staged = [self.by(index).read(item) for index, item in enumerate(planned)]
        for number in self.case.gone:
            self.server.execute(f"DELETE FROM dbo.{self.name} WHERE __id = {number}")
        self.by(1).complete(staged)
        bronze = self.by(0).table.bronze
        rows = delta_rows(bronze, "_operation = 0", columns='"__id"')
        return len(planned), Counter(row["__id"] for row in rows)

    def latest(self) -> dict[int, dict[str, Any]]:
        """The state as of the position, by the rule, with ``__id`` as the key."""
        self.by(2).changes()
        rows = delta_rows(self.by(0).table.bronze)
        order = ("_start_lsn", "_command_id", "_seqval", "_operation")
        rows.sort(key=lambda row: tuple((row[name] is not None, row[name] or 0) for name in order))
        last = {row["__id"]: row for row in rows}
        return {key: row for key, row in last.items() if row["_operation"] not in (1, 3)}


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_a_random_table_arrives_as_it_is(server: EmbeddedSqlServer, case: Case) -> None:
    _arrives(server, case)


@pytest.mark.soak
@settings(deadline=None, max_examples=600, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_many_random_tables_arrive_as_they_are(server: EmbeddedSqlServer, case: Case) -> None:
    _arrives(server, case)


def _arrives(server: EmbeddedSqlServer, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        example = Example(server, case, Path(folder))
        try:
            ranges, found = example.load()
            assert ranges <= case.most
            assert max(found.values(), default=1) == 1, "a row is in one range"
            assert set(range(len(case.rows))) <= set(found), "a row that was there is read"
            latest = example.latest()
            expected = {number: row for number, row in enumerate(case.rows) if number not in case.gone}
            expected |= {100 + number: row for number, row in enumerate(case.later)}
            assert set(latest) == set(expected)
            _check_data(case, latest, expected)
        finally:
            server.execute(f"EXEC sys.sp_cdc_disable_table 'dbo', '{example.name}', 'all'")
            server.execute(f"DROP TABLE dbo.{example.name}")


def _check_data(case: Case, latest: dict[int, dict[str, Any]], expected: dict[int, tuple[Any, ...]]) -> None:
    for place, (name, declared) in enumerate(case.data, start=len(case.split)):
        inserted, in_lake = TYPE_VALUES[declared]
        for number, row in expected.items():
            wanted = in_lake[list(map(repr, inserted)).index(repr(row[place]))]
            assert latest[number][lake_name(name)] == wanted, (name, declared)
