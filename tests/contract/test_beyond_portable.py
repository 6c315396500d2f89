"""What only some servers have, found out by asking: seventh digits, UTF-8 collations, SNAPSHOT, logins,
brackets in names, names of constraints, casts that fail."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import LoginFailed, PermissionDenied, ValueDoesNotFit
from airflow_provider_mssql_cdc.model.key_range import KeyRange, ranges_between
from airflow_provider_mssql_cdc.planning.ranges import key_of
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql import catalog
from airflow_provider_mssql_cdc.tsql.snapshot import count_range, first_key, select_range
from airflow_provider_mssql_cdc.tsql.statement import Statement, qualified
from tests.contract.tables import made, named, read
from tests.contract.target import Target


def require(problem: str | None) -> None:
    """Skip with the server's own words."""
    if problem is not None:
        pytest.skip(problem)


@pytest.mark.parametrize(
    ("sql_type", "values"),
    [
        ("datetime2(7)", ("2024-05-01 12:00:00.1234567", "2024-05-01 12:00:00.1234568")),
        ("time(7)", ("12:00:00.1234567", "12:00:00.1234568")),
        ("datetimeoffset(7)", ("2024-05-01 12:00:00.1234567 +05:30", "2024-05-01 12:00:00.1234568 +05:30")),
    ],
)
def test_a_bound_keeps_the_seventh_digit(
    target: Target, session: SourceSession, sql_type: str, values: tuple[str, ...]
) -> None:
    require(target.no_seventh_digit)
    inserts = [f"INSERT INTO {{t}} VALUES ('{value}')" for value in values]
    with made(target, session, f"k {sql_type} NOT NULL PRIMARY KEY", *inserts) as table:
        bound = key_of(session.rows(first_key(table.table, table.columns, descending=True))[0], table.columns)
        assert bound[0].startswith(values[1].split(" +")[0])
        counts = [
            int(session.value(count_range(table.table, table.columns, part)))
            for part in ranges_between([bound])
        ]
        assert counts == [1, 1]


def test_a_utf8_column_is_read_and_cut_like_any_other(target: Target, session: SourceSession) -> None:
    require(target.no_utf8_collation)
    texts = ("Straße", "日本", "телевизор", "🌺", "z")
    definition = "k varchar(40) COLLATE Latin1_General_100_CI_AS_SC_UTF8 NOT NULL PRIMARY KEY"
    with made(
        target, session, definition, *(f"INSERT INTO {{t}} VALUES (N'{text}')" for text in texts)
    ) as table:
        planned = plan_columns(table.columns, {}).columns
        statement = select_range(table.table, planned, split_by=table.columns, key_range=KeyRange())
        schema = captured_schema([column.lake for column in planned])
        rows = [text for batch in session.read(statement, schema) for text in batch.column(0).to_pylist()]
        assert sorted(rows) == sorted(texts)
        bound = key_of(session.rows(first_key(table.table, table.columns, descending=True))[0], table.columns)
        assert bound[0] in texts
        counts = [
            int(session.value(count_range(table.table, table.columns, part)))
            for part in ranges_between([bound])
        ]
        assert counts == [4, 1]


def test_snapshot_isolation_sees_what_was_committed_before_its_first_read(
    target: Target, driver: str
) -> None:
    require(target.no_snapshot_isolation)
    with (
        target.session(driver, isolation="snapshot") as session,
        made(target, session, "n int NOT NULL PRIMARY KEY", "INSERT INTO {t} VALUES (1)") as table,
    ):
        insert = f"INSERT INTO dbo.{table.table.name} VALUES "
        count = Statement(f"SELECT COUNT(*) AS n FROM dbo.{table.table.name}")
        with session.transaction():
            target.run(f"{insert} (2)")
            assert session.value(count) == 2
            target.run(f"{insert} (3)")
            assert session.value(count) == 2
        assert session.value(count) == 3


def test_a_wrong_password_and_a_missing_grant_are_told_apart(target: Target, driver: str) -> None:
    require(target.no_logins)
    name, password = f"reader_{secrets.token_hex(4)}", f"Pw-1-{secrets.token_hex(6)}"
    target.run(
        f"CREATE LOGIN {name} WITH PASSWORD = '{password}'",
        f"CREATE USER {name} FOR LOGIN {name}",
        f"CREATE TABLE dbo.{name} (n int NOT NULL PRIMARY KEY)",
    )
    try:
        with (
            pytest.raises(LoginFailed),
            target.session(driver, login=(name, "wrong")),
        ):
            pass
        with target.session(driver, login=(name, password)) as session:
            select = Statement(f"SELECT n FROM dbo.{name}")
            with pytest.raises(PermissionDenied):
                session.rows(select)
            target.run(f"GRANT SELECT ON dbo.{name} TO {name}")
            assert session.rows(select) == []
    finally:
        target.run(f"DROP TABLE dbo.{name}", f"DROP USER {name}", f"DROP LOGIN {name}")


@pytest.mark.parametrize("name", ["a]b", "]", "[a]]b]"])
def test_a_name_with_a_bracket_is_quoted_wherever_it_stands(
    target: Target, session: SourceSession, name: str
) -> None:
    require(target.no_bracket_in_names)
    with named(target, session, name) as table:
        (row,) = read(session, table)
        assert list(row.values()) == [7]
        assert table.columns[0].name == name


def test_indexes_and_constraints_are_called_by_their_names(target: Target, session: SourceSession) -> None:
    require(target.no_names_of_indexes)
    definition = "a int NOT NULL, c int NOT NULL, CONSTRAINT [its key] PRIMARY KEY (a)"
    with made(target, session, definition, "CREATE UNIQUE INDEX [by c] ON {t} (c)") as table:
        rows = session.rows(catalog.unique_indexes(table.table.object_id))
        assert [(row["index_name"], row["column_name"]) for row in rows] == [("its key", "a"), ("by c", "c")]


@pytest.mark.parametrize(
    ("declared", "target_type", "fits", "value", "too_long"),
    [
        ("nvarchar(40)", "varchar(5)", "N'日本x'", "日本x", "N'123456'"),
        ("varchar(max)", "nvarchar(3)", "'abc'", "abc", "'abcd'"),
        ("varbinary(40)", "varbinary(2)", "0xFF00", b"\xff\x00", "0xFF0001"),
    ],
)
def test_a_cast_fails_where_it_would_cut(
    target: Target,
    session: SourceSession,
    declared: str,
    target_type: str,
    fits: str,
    value: Any,
    too_long: str,
) -> None:
    require(target.cuts_without_an_error(declared, target_type, too_long))
    definition = f"n int NOT NULL PRIMARY KEY, v {declared} NULL"
    inserts = [f"INSERT INTO {{t}} VALUES (1, {fits})", "INSERT INTO {t} VALUES (2, NULL)"]
    with made(target, session, definition, *inserts) as table:
        rows = {row["n"]: row["v"] for row in read(session, table, {"v": target_type})}
        assert rows == {1: value, 2: None}
        target.run(f"INSERT INTO {qualified('dbo', table.table.name)} VALUES (3, {too_long})")
        with pytest.raises(ValueDoesNotFit):
            read(session, table, {"v": target_type})
