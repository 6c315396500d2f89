"""What only some servers have, found out by asking: seventh digits, UTF-8 collations, SNAPSHOT, logins."""

from __future__ import annotations

import secrets

import pytest

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import LoginFailed, PermissionDenied
from airflow_provider_mssql_cdc.model.key_range import KeyRange, ranges_between
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.keys import first_key
from airflow_provider_mssql_cdc.tsql.snapshot import count_range, select_range
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.contract.tables import made
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
        bound = (session.rows(first_key(table.table, table.columns, descending=True))[0]["k0"],)
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
        bound = (session.rows(first_key(table.table, table.columns, descending=True))[0]["k0"],)
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
