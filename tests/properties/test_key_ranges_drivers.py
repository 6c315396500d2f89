"""Random keys on the embedded server: one driver plans, both read, rows change in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange
from airflow_provider_mssql_cdc.planning.keys import choose_keys
from airflow_provider_mssql_cdc.planning.ranges import drive, plan_ranges
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from tests.properties.test_key_ranges_server import connect
from tests.support.key_values import KEY_VALUES

TYPES = st.sampled_from(sorted(KEY_VALUES))
CONFUSABLE = {
    "varchar(20)": ["n", "N", "n ", " n", "", "nn", "nN", "o"],
    "varchar(20) COLLATE Latin1_General_BIN2": ["n", "N", "n ", "O", "o", "nn", "nN"],
    "varchar(20) COLLATE Latin1_General_CS_AS": ["n", "N", "n ", "O", "o", "nn", "nN"],
    "nvarchar(20)": ["n", "N", "n ", "\0", "a\0b", "back\\\nslash", "🌺", "%(lo0)s'"],
    "bigint": [-(2**63), -1, 0, 1, 2, 2**63 - 1],
    "datetime2(7)": ["2024-01-01 00:00:00.0000001", "2024-01-01 00:00:00.0000002", "0001-01-01 00:00:00"],
    "datetimeoffset(7)": [
        "2024-01-01 10:00:00 +00:00",
        "2024-01-01 12:00:00 +02:00",
        "2024-01-01 12:00:01 +02:00",
    ],
}


@dataclass(frozen=True)
class Example:
    """A split key, rows before the plan, and what happens between the plan and the reads."""

    declared: tuple[str, ...]
    nullable: tuple[bool, ...]
    rows: list[tuple[Any, ...]]
    later: list[tuple[Any, ...]]
    deleted: set[int]
    rows_per_range: int
    max_ranges: int


@st.composite
def examples(draw: st.DrawFn) -> Example:
    count = draw(st.integers(1, 3))
    declared = [draw(st.one_of(st.sampled_from(sorted(CONFUSABLE)), TYPES)) for _ in range(count)]
    nullable = [draw(st.booleans()) for _ in range(count)]
    values = [_values(*described) for described in zip(declared, nullable, strict=True)]
    rows = draw(st.lists(st.tuples(*values), max_size=60))
    return Example(
        tuple(declared),
        tuple(nullable),
        rows,
        later=draw(st.lists(st.tuples(*values), max_size=5)),
        deleted=draw(st.sets(st.integers(0, 59), max_size=5)),
        rows_per_range=draw(st.integers(1, 20)),
        max_ranges=draw(st.integers(2, 12)),
    )


def _values(declared: str, nullable: bool) -> st.SearchStrategy[Any]:
    values = st.sampled_from(CONFUSABLE.get(declared, KEY_VALUES[declared][:12]))
    return st.one_of(st.none(), values) if nullable else values


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.enable_cdc()
        yield running


@pytest.fixture(scope="module")
def sessions(server: EmbeddedSqlServer) -> Iterator[tuple[SourceSession, SourceSession]]:
    with connect(server, "mssql-python") as first, connect(server, "pymssql") as second:
        yield first, second


@settings(deadline=None, max_examples=60)
@given(example=examples())
def test_every_row_is_read_once_by_either_driver_whatever_changes_in_between(
    server: EmbeddedSqlServer, sessions: tuple[SourceSession, SourceSession], example: Example
) -> None:
    names = [f"k{number}" for number in range(len(example.declared))]
    _create(server, example, names)
    described = describe(sessions[0], capture_instance="dbo_t")
    keys = choose_keys(described, split_by=names)
    limits = {"rows_per_range": example.rows_per_range, "max_ranges": example.max_ranges}
    plans = [drive(plan_ranges(described.table, keys, **limits), session.rows) for session in sessions]
    assert plans[0] == plans[1]
    assert len(plans[0].ranges) <= example.max_ranges
    _change(server, example)
    columns = plan_columns(described.columns, {}).columns
    expected = sorted(row[0] for row in server.execute("SELECT v FROM dbo.t"))
    for session in sessions:
        found = [
            row["v"]
            for key_range in _through_xcom(plans[0].ranges)
            for row in session.rows(select_range(described.table, columns, keys.split_by or (), key_range))
        ]
        assert sorted(found) == expected
    server.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = 'dbo', @source_name = 't', @capture_instance = 'all'"
    )
    server.execute("DROP TABLE dbo.t")


def _create(server: EmbeddedSqlServer, example: Example, names: list[str]) -> None:
    server.execute("IF OBJECT_ID('dbo.t') IS NOT NULL DROP TABLE dbo.t")
    columns = ", ".join(
        f"{name} {declared} {'NULL' if accepts else 'NOT NULL'}"
        for name, declared, accepts in zip(names, example.declared, example.nullable, strict=True)
    )
    server.execute(f"CREATE TABLE dbo.t (v int NOT NULL PRIMARY KEY, {columns})")
    _insert(server, example.rows, first=0)
    server.enable_cdc("dbo.t")


def _insert(server: EmbeddedSqlServer, rows: list[tuple[Any, ...]], first: int) -> None:
    if rows:
        marks = ", ".join("?" * (1 + len(rows[0])))
        numbered = [(first + number, *row) for number, row in enumerate(rows)]
        server.executemany(f"INSERT dbo.t VALUES ({marks})", numbered)


def _change(server: EmbeddedSqlServer, example: Example) -> None:
    _insert(server, example.later, first=1000)
    for number in example.deleted:
        server.execute("DELETE dbo.t WHERE v = ?", number)


def _through_xcom(ranges: tuple[KeyRange, ...]) -> Iterator[KeyRange]:
    plan = PlanId(Lsn(1), "0" * 8, "0" * 8)
    for index, key_range in enumerate(ranges):
        item = PlannedRange(plan, index, len(ranges), key_range).to_xcom()
        yield PlannedRange.from_xcom(json.loads(json.dumps(item))).key_range
