"""Batches: variables, conditions, options, DML in all its shapes, bulk rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session
from airflow_provider_mssql_cdc.embedded.seam import Message, Parameter, ResultSet, RowCount, SqlType

SCRIPTS: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("DECLARE @x int = 5, @y nvarchar(3); SET @x = @x + 1; SELECT @x, @y", [(6, None)]),
    ("DECLARE @n int = (SELECT COUNT(*) FROM t); SELECT @n", [(3,)]),
    ("DECLARE @n decimal(5,2) = '1.239'; SELECT @n", [(Decimal("1.24"),)]),
    ("IF EXISTS (SELECT * FROM t WHERE id = 9) SELECT 'yes' ELSE SELECT 'no'", [("no",)]),
    ("IF 1 = 1 BEGIN SELECT 1; SELECT 2 END", [(2,)]),
    ("DECLARE @i int = 0; WHILE @i < 3 BEGIN SET @i = @i + 1 END SELECT @i", [(3,)]),
    ("SET NOCOUNT ON SET XACT_ABORT ON SET ANSI_NULLS, QUOTED_IDENTIFIER ON SELECT 1", [(1,)]),
    ("SET TEXTSIZE 1000; SELECT @@TEXTSIZE", [(1000,)]),
    ("SET ROWCOUNT 2; SELECT id FROM t ORDER BY id", [(1,), (2,)]),
    ("SET ROWCOUNT 2; SELECT id FROM t; SELECT @@ROWCOUNT, ROWCOUNT_BIG()", [(2, 2)]),
    ("SET ROWCOUNT 1; SET ROWCOUNT 0; SELECT COUNT(*) FROM t; SELECT id FROM t", [(1,), (2,), (3,)]),
    ("SET ANSI_NULLS, ARITHABORT OFF; SELECT @@OPTIONS", [(5496 - 32 - 64,)]),
    ("SET IMPLICIT_TRANSACTIONS ON; SELECT id FROM t WHERE id = 1; SELECT @@TRANCOUNT", [(1,)]),
    ("SET LOCK_TIMEOUT 500; SELECT @@LOCK_TIMEOUT", [(500,)]),
    ("/* a /* nested */ comment */ SELECT 1 -- the end", [(1,)]),
    ("UPDATE t SET v = v * 2 WHERE id IN (1, 2); SELECT v FROM t ORDER BY id", [(20,), (40,), (30,)]),
    ("UPDATE t SET id = id + 10 WHERE id = 3; SELECT MAX(id) FROM t", [(13,)]),
    ("INSERT INTO t (id, v) SELECT id + 10, v FROM t WHERE v > 10; SELECT COUNT(*) FROM t", [(5,)]),
    ("SELECT TOP (2) id FROM t ORDER BY id DESC", [(3,), (2,)]),
    ("SELECT DISTINCT v / 20 AS half FROM t ORDER BY half", [(0,), (1,)]),
    ("SELECT COUNT(*) FROM (SELECT id FROM t EXCEPT SELECT id FROM t WHERE id = 2) AS q", [(2,)]),
    (
        "SELECT n, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY id) AS n FROM t) AS q GROUP BY n ORDER BY n",
        [(1, 2), (2, 1)],
    ),
    ("SELECT ROW_NUMBER() OVER (ORDER BY id DESC) FROM t ORDER BY id", [(3,), (2,), (1,)]),
    ("SELECT a.id FROM t AS a LEFT JOIN t AS b ON b.id = a.id + 1 WHERE b.id IS NULL", [(3,)]),
    (
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.id > t.id) AND id NOT IN (SELECT 2)",
        [(1,)],
    ),
    (
        "SELECT CASE id WHEN 1 THEN 'one' ELSE 'more' END FROM t WHERE id <= 2 ORDER BY id",
        [("one",), ("more",)],
    ),
    ("SELECT t.* FROM t WHERE id = 1", [(1, 10)]),
    (
        "SELECT SUM(CASE WHEN v > 10 THEN 1 ELSE 0 END), COUNT(DISTINCT v % 20) FROM t",
        [(2, 2)],
    ),
    ("SELECT v FROM t WHERE id BETWEEN 2 AND 3 AND NOT (v = 20 OR v IS NULL)", [(30,)]),
]


@pytest.fixture
def table(session: Session) -> None:
    session.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int DEFAULT 99)")
    session.run("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("sql", "rows"), SCRIPTS)
def test_a_script_does_what_it_does_on_sql_server(
    session: Session, sql: str, rows: list[tuple[Any, ...]]
) -> None:
    assert session.rows(sql) == rows


@pytest.mark.usefixtures("table")
def test_a_batch_yields_its_outcomes_in_order(session: Session) -> None:
    shown: list[Any] = []
    for outcome in session.execute("USE shop; SELECT 1; UPDATE t SET v = 0; SET NOCOUNT ON; DELETE t"):
        if isinstance(outcome, ResultSet):
            shown.append([row for batch in outcome.batches for row in batch])
        else:
            shown.append(outcome)
    assert shown == [
        Message(5701, "Changed database context to 'shop'."),
        RowCount(None),
        [(1,)],
        RowCount(3),
        RowCount(None),
        RowCount(None),
    ]


def test_parameters_keep_their_declared_types(session: Session) -> None:
    parameters = [
        Parameter("@P1", SqlType("decimal", precision=10, scale=2), 1234),
        Parameter("@P2", SqlType("datetime2", scale=7), 637_134_336_000_000_001),
        Parameter("@P3", SqlType("nvarchar", 10), None),
    ]
    outcomes = session.execute("SELECT @p1, CAST(@P2 AS varchar(40)), @P3", parameters)
    result = next(outcomes)
    assert isinstance(result, ResultSet)
    assert [row for batch in result.batches for row in batch] == [(1234, "2020-01-01 00:00:00.0000001", None)]
    assert result.columns[0].type.precision == 10


def test_bulk_rows_take_defaults_identities_and_conversions(session: Session, error_of) -> None:
    session.run(
        "CREATE TABLE t (id int IDENTITY PRIMARY KEY, a decimal(5,2), d date, s char(3), e int DEFAULT 5)"
    )
    count = session.executemany(
        "INSERT INTO t (a, d, s) VALUES (%s, %s, %s)",
        [("1.5", "2020-01-01", "x"), (2, None, "abc"), (1.25, None, None)],
    )
    assert count == 3
    assert [row[1] for row in session.rows("SELECT * FROM t ORDER BY id")] == [
        Decimal("1.5"),
        2,
        Decimal("1.25"),
    ]
    assert session.rows("SELECT DISTINCT e FROM t") == [(5,)]
    assert session.executemany("UPDATE t SET e = ? WHERE id = ?", [(1, 1), (2, 2)]) == 2
    assert session.rows("SELECT SUM(e) FROM t") == [(8,)]


def test_a_large_result_comes_in_batches(session: Session) -> None:
    session.run("CREATE TABLE t (a int)")
    session.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(25_000)])
    sizes = []
    for outcome in session.execute("SELECT a FROM t"):
        assert isinstance(outcome, ResultSet)
        sizes = [len(batch) for batch in outcome.batches]
    assert sizes == [1000, 10_000, 10_000, 4000]
    assert session.rows("SELECT @@ROWCOUNT") == [(25_000,)]


def test_functions_of_the_clock_stand_still_within_a_statement(engine: Engine, session: Session) -> None:
    assert session.rows("SELECT 1 WHERE SYSUTCDATETIME() = SYSUTCDATETIME()") == [(1,)]
    engine.utc_units = lambda: 637_134_768_000_000_000
    engine.time_zone = "Europe/Berlin"
    shown = (
        "SELECT CONVERT(varchar(30), GETUTCDATE(), 126), CAST(SYSDATETIMEOFFSET() AS "
        "varchar(40)), CURRENT_TIMEZONE_ID()"
    )
    assert session.rows(shown) == [
        ("2020-01-01T12:00:00", "2020-01-01 13:00:00.0000000 +01:00", "W. Europe Standard Time")
    ]
