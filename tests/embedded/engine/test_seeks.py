"""A predicate with a typed bound uses the index, and visits its own rows only."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session

TYPED = [
    ("tinyint", "7", "CAST(@p1 AS tinyint)"),
    ("int", "7", "CAST(@p1 AS int)"),
    ("bigint", "7", "CAST(@p1 AS bigint)"),
    ("decimal(18,2)", "7.50", "CAST(@p1 AS decimal(18,2))"),
    ("decimal(38,0)", "7", "CAST(@p1 AS decimal(38,0))"),
    ("money", "7.5", "CAST(@p1 AS money)"),
    ("float", "7.5", "CAST(@p1 AS float)"),
    ("real", "7.5", "CAST(@p1 AS real)"),
    ("date", "2020-01-02", "CAST(@p1 AS date)"),
    ("datetime", "2020-01-02T03:04:05.997", "CAST(@p1 AS datetime)"),
    ("smalldatetime", "2020-01-02T03:04:00", "CAST(@p1 AS smalldatetime)"),
    ("datetime2(7)", "2020-01-02T03:04:05.1234567", "CAST(@p1 AS datetime2(7))"),
    ("datetimeoffset(7)", "2020-01-02T03:04:05.1234567+02:00", "CAST(@p1 AS datetimeoffset(7))"),
    ("time(7)", "03:04:05.1234567", "CAST(@p1 AS time(7))"),
    ("varchar(20)", "abc", "CAST(@p1 COLLATE SQL_Latin1_General_CP1_CI_AS AS varchar(20))"),
    ("nvarchar(20)", "abc", "CAST(@p1 COLLATE SQL_Latin1_General_CP1_CI_AS AS nvarchar(20))"),
    ("char(10)", "abc", "CAST(@p1 COLLATE SQL_Latin1_General_CP1_CI_AS AS char(10))"),
    ("nchar(10) COLLATE Latin1_General_BIN2", "abc", "CAST(@p1 COLLATE Latin1_General_BIN2 AS nchar(10))"),
    ("varchar(9) COLLATE Greek_CS_AS", "Αθήνα", "CAST(@p1 COLLATE Greek_CS_AS AS varchar(9))"),
    ("uniqueidentifier", "0E984725-C51C-4BF4-9960-E1C80E27ABA0", "CAST(@p1 AS uniqueidentifier)"),
    ("binary(8)", "0x0000000000000007", "CONVERT(binary(8), @p1, 1)"),
    ("varbinary(8)", "0x07", "CONVERT(varbinary(8), @p1, 1)"),
]


@pytest.mark.parametrize(("declared", "text", "bound"), TYPED)
def test_a_typed_bound_seeks_on_every_key_type(
    session: Session, declared: str, text: str, bound: str
) -> None:
    session.run(f"CREATE TABLE t (k {declared} NOT NULL PRIMARY KEY, v int)")
    for operator in (">=", ">", "<", "<=", "="):
        plan = session.plan(f"SELECT v FROM t WHERE k {operator} {bound}", text)
        assert plan.startswith("SEARCH"), plan


LITERALS = [
    ("decimal(10,2)", "5"),
    ("decimal(10,2)", "5.25"),
    ("decimal(10,2)", "99999999999999999999"),
    ("bigint", "2147483648"),
    ("money", "5"),
    ("datetime", "'2020-01-01'"),
    ("date", "'2020-01-01'"),
    ("uniqueidentifier", "'0E984725-C51C-4BF4-9960-E1C80E27ABA0'"),
    ("char(5)", "'a'"),
    ("nvarchar(5)", "'a'"),
    ("varchar(5) COLLATE Latin1_General_CI_AS", "N'a'"),
    ("binary(10)", "0x01"),
]


@pytest.mark.parametrize(("declared", "literal"), LITERALS)
def test_a_literal_of_another_type_is_converted_and_not_the_column(
    session: Session, declared: str, literal: str
) -> None:
    session.run(f"CREATE TABLE t (k {declared} NOT NULL PRIMARY KEY)")
    assert session.plan(f"SELECT k FROM t WHERE k >= {literal}").startswith("SEARCH")


def test_a_unicode_parameter_loses_the_seek_on_a_varchar_column_under_an_sql_collation(
    session: Session,
) -> None:
    session.run("CREATE TABLE t (k varchar(20) NOT NULL PRIMARY KEY)")
    assert session.plan("SELECT k FROM t WHERE k >= @p1", "a").startswith("SCAN")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(a) FROM t",
        "SELECT MAX(a) FROM t",
        "SELECT (SELECT MIN(a) FROM t), (SELECT MAX(a) FROM t)",
        "SELECT TOP (1) a, b FROM t ORDER BY a DESC, b DESC",
        "SELECT TOP (1) a, b FROM t ORDER BY a, b",
        "SELECT TOP (1) a, b FROM t WHERE a = 5 AND b >= 3 ORDER BY a, b",
        "SELECT MIN(s) FROM t",
        "SELECT MAX(s) FROM t",
    ],
)
def test_ends_of_an_index_read_a_row_or_two(engine: Engine, session: Session, sql: str) -> None:
    session.run("CREATE TABLE t (a int NOT NULL, b int NOT NULL, s varchar(9) NOT NULL, PRIMARY KEY (a, b))")
    session.run("CREATE INDEX by_s ON t (s)")
    session.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i // 10, i % 10, f"s{i}") for i in range(1000)])
    with engine.count_reads() as reads:
        session.rows(sql)
    assert 1 <= reads.total("dbo.t") <= 2


def test_pieces_of_a_composite_range_read_their_own_rows(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (a int NOT NULL, b int NOT NULL, v int, PRIMARY KEY (a, b))")
    session.executemany("INSERT INTO t VALUES (?, ?, 0)", [(i // 100, i % 100) for i in range(10_000)])
    sql = (
        "SELECT v FROM t WHERE a = CAST(@p1 AS int) AND b >= CAST(@p2 AS int) UNION ALL "
        "SELECT v FROM t WHERE a > CAST(@p1 AS int) AND a < CAST(@p3 AS int) UNION ALL "
        "SELECT v FROM t WHERE a = CAST(@p3 AS int) AND b < CAST(@p4 AS int)"
    )
    with engine.count_reads() as reads:
        rows = session.rows(sql, "10", "50", "20", "30")
    assert len(rows) == reads.total() == 50 + 900 + 30
    assert reads.statements[0].tables == {"dbo.t": 980}


def test_the_next_bound_reads_k_plus_one_keys_of_each_piece(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (a int NOT NULL, b varchar(9) NOT NULL, PRIMARY KEY (a, b))")
    session.executemany("INSERT INTO t VALUES (?, ?)", [(i // 50, f"k{i % 50:03d}") for i in range(5000)])
    piece = "SELECT TOP (101) a, b FROM t WHERE {} ORDER BY a, b"
    sql = (
        "SELECT TOP (1) a, b FROM (SELECT TOP (101) a, b FROM (SELECT a, b FROM "
        f"({piece.format('a = 7 AND b > CAST(@p1 AS varchar(9))')}) AS p1 "
        f"UNION ALL SELECT a, b FROM ({piece.format('a > 7')}) AS p2) AS u ORDER BY a, b) AS k "
        "ORDER BY a DESC, b DESC"
    )
    with engine.count_reads() as reads:
        rows = session.rows(sql, "k010")
    assert rows == [(9, "k011")]
    assert reads.total() == 39 + 101


def test_counting_is_off_outside_its_context(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (a int)")
    with engine.count_reads() as reads:
        session.rows("SELECT * FROM t")
    session.rows("SELECT * FROM t")
    assert [s.sql for s in reads.statements] == ["SELECT * FROM t"]


def test_a_secondary_index_serves_a_nullable_column(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (id int PRIMARY KEY, c decimal(9,2) NULL)")
    session.run("CREATE INDEX by_c ON t (c)")
    session.executemany("INSERT INTO t VALUES (?, ?)", [(i, Decimal(i)) for i in range(100)] + [(200, None)])
    with engine.count_reads() as reads:
        assert session.rows("SELECT COUNT(*) FROM t WHERE (c < CAST('10' AS decimal(9,2)) OR c IS NULL)") == [
            (11,)
        ]
    assert reads.total() <= 12


@pytest.mark.parametrize("key", ["a int NOT NULL", "a varchar(20) NOT NULL", "a datetimeoffset(7) NOT NULL"])
def test_the_last_of_k_numbered_keys_reads_k_keys(engine: Engine, session: Session, key: str) -> None:
    session.run(f"CREATE TABLE t ({key} PRIMARY KEY, v int)")
    value = "2020-01-01T{:02d}:{:02d}:{:02d}" if "date" in key else "{:02d}{:02d}{:02d}"
    texts = [value.format(i // 3600, i // 60 % 60, i % 60) for i in range(4000)]
    session.executemany("INSERT INTO t (a) VALUES (?)", [(t,) for t in texts])
    sql = (
        "SELECT TOP (1) d.k, d.n FROM (SELECT TOP (101) a AS k, ROW_NUMBER() OVER (ORDER BY a) AS n "
        f"FROM t WHERE a >= CAST(@p1 AS {key.split()[1]}) ORDER BY a) AS d ORDER BY d.n DESC"
    )
    with engine.count_reads() as reads:
        assert session.rows(sql, texts[500])[0][1] == 101
    assert reads.total() <= 102
