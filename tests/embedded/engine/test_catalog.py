"""DDL, names, and the catalog views that describe them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session

NAMES = [
    "my table",
    "a.b",
    'q"uote',
    "brack]et",
    "dollar$",
    "comma,",
    "back`tick",
    "emoji😀",
    "select",
    "1st",
    "it's",
    "semi;colon--",
    "Ünïcode",
    "tab\tname",
]


def bracket(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


@pytest.mark.parametrize("name", NAMES)
def test_any_name_works_for_schemas_tables_and_columns(session: Session, name: str) -> None:
    quoted = bracket(name)
    if name.lower() != "dbo":
        session.run(f"CREATE SCHEMA {quoted}")
    session.run(f"CREATE TABLE {quoted}.{quoted} ({quoted} int NOT NULL PRIMARY KEY, v int)")
    session.run(f"INSERT INTO {quoted}.{quoted} ({quoted}, v) VALUES (1, 2)")
    session.run(f"UPDATE {quoted}.{quoted} SET v = v + {quoted}.{quoted}.{quoted}")
    assert session.rows(f"SELECT x.{quoted}, v AS {quoted} FROM {quoted}.{quoted} AS x") == [(1, 3)]
    shown = "SELECT s.name, t.name FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id"
    assert session.rows(shown) == [(name, name)]
    session.run(f"CREATE INDEX {quoted} ON {quoted}.{quoted} (v); ALTER TABLE {quoted}.{quoted} ADD w int")
    assert session.rows(f"SELECT * FROM {quoted}.{quoted}") == [(1, 3, None)]


def test_names_are_found_ignoring_case_and_shown_as_they_were_made(session: Session) -> None:
    session.run("CREATE TABLE dbo.OrderItems (OrderId int)")
    assert session.rows("SELECT orderid FROM DBO.ORDERITEMS") == []
    assert session.rows("SELECT name FROM sys.tables WHERE name = 'orderitems'") == [("OrderItems",)]
    result = next(iter(session.execute("SELECT * FROM orderitems")))
    assert result.columns[0].name == "OrderId"


def test_a_case_sensitive_database_holds_names_that_differ_by_case(engine: Engine) -> None:
    engine.create_database("cased", "Latin1_General_CS_AS")
    session = engine.login("sa", "secret", "cased")
    session.run("CREATE TABLE T (a int, A varchar(5)); CREATE TABLE t (b int)")
    session.run("INSERT INTO T (A, a) VALUES ('x', 1); INSERT INTO t VALUES (7)")
    assert session.rows("SELECT a, A FROM T") == [(1, "x")]
    assert session.rows("SELECT b FROM t") == [(7,)]


def test_two_schemas_hold_tables_of_one_name(session: Session) -> None:
    session.run("CREATE SCHEMA sales")
    session.run("CREATE TABLE sales.t (a int); CREATE TABLE dbo.t (a int)")
    session.run("INSERT INTO sales.t VALUES (1); INSERT INTO t VALUES (2)")
    assert session.rows("SELECT s.a, d.a FROM sales.t AS s CROSS JOIN dbo.t AS d") == [(1, 2)]
    assert session.rows("SELECT sales.t.a, shop.dbo.t.a FROM sales.t CROSS JOIN shop.dbo.t") == [(1, 2)]


def test_columns_show_types_and_kinds(session: Session) -> None:
    session.run("CREATE TYPE dbo.Phone FROM varchar(20) NOT NULL")
    session.run(
        "CREATE TABLE t (id int IDENTITY(10, 5) NOT NULL PRIMARY KEY, n nvarchar(50) COLLATE Greek_CS_AS, "
        "d decimal(10, 2) NULL, f float(24), s sysname, p dbo.Phone, sp int SPARSE NULL, "
        "m varchar(9) MASKED WITH (FUNCTION = 'default()') NULL, c AS id * 2 PERSISTED, x xml COLUMN_SET FOR "
        "ALL_SPARSE_COLUMNS, dt datetime2(3), rv rowversion)"
    )
    found = session.rows(
        "SELECT c.name, t.name, c.max_length, c.[precision], c.scale, c.is_nullable, "
        "c.is_identity, c.is_computed, "
        "c.is_sparse, c.is_column_set, c.is_masked FROM sys.columns AS c JOIN sys.types AS t "
        "ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(N'dbo.t') ORDER BY c.column_id"
    )
    no = (False,) * 5
    assert found == [
        ("id", "int", 4, 10, 0, False, True, False, False, False, False),
        ("n", "nvarchar", 100, 0, 0, True, *no),
        ("d", "decimal", 9, 10, 2, True, *no),
        ("f", "real", 4, 24, 0, True, *no),
        ("s", "sysname", 256, 0, 0, False, *no),
        ("p", "Phone", 20, 0, 0, False, *no),
        ("sp", "int", 4, 10, 0, True, False, False, True, False, False),
        ("m", "varchar", 9, 0, 0, True, False, False, False, False, True),
        ("c", "int", 4, 10, 0, False, False, True, False, False, False),
        ("x", "xml", -1, 0, 0, True, False, False, False, True, False),
        ("dt", "datetime2", 7, 23, 3, True, *no),
        ("rv", "timestamp", 8, 0, 0, False, *no),
    ]
    assert session.rows("SELECT collation_name FROM sys.columns WHERE name = 'n'") == [("Greek_CS_AS",)]
    assert session.rows(
        "SELECT base.name FROM sys.types t JOIN sys.types base ON "
        "base.user_type_id = t.system_type_id "
        "WHERE t.is_user_defined = 1"
    ) == [("varchar",)]


def test_indexes_show_keys_order_and_filters(session: Session) -> None:
    session.run(
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int NULL, CONSTRAINT pk PRIMARY KEY "
        "CLUSTERED (b ASC, a DESC),"
        " CONSTRAINT uq UNIQUE NONCLUSTERED (c)); CREATE UNIQUE INDEX ix ON t (a) INCLUDE (c) "
        "WHERE c IS NOT NULL"
    )
    found = session.rows(
        "SELECT i.name, i.type_desc, i.is_unique, i.is_primary_key, i.has_filter, c.name, ic.key_ordinal, "
        "ic.is_descending_key, ic.is_included_column FROM sys.indexes i JOIN sys.index_columns ic "
        "ON ic.object_id = i.object_id AND ic.index_id = i.index_id JOIN sys.columns c ON "
        "c.object_id = ic.object_id "
        "AND c.column_id = ic.column_id ORDER BY i.index_id, ic.index_column_id"
    )
    assert found == [
        ("pk", "CLUSTERED", True, True, False, "b", 1, False, False),
        ("pk", "CLUSTERED", True, True, False, "a", 2, True, False),
        ("uq", "NONCLUSTERED", True, False, False, "c", 1, False, False),
        ("ix", "NONCLUSTERED", True, False, True, "a", 1, False, False),
        ("ix", "NONCLUSTERED", True, False, True, "c", 0, False, True),
    ]


def test_databases_show_their_settings(session: Session) -> None:
    asked = (
        "SELECT snapshot_isolation_state, is_read_committed_snapshot_on, is_cdc_enabled, "
        "collation_name FROM sys.databases WHERE name = DB_NAME()"
    )
    assert session.rows(asked) == [(0, False, False, "SQL_Latin1_General_CP1_CI_AS")]
    session.run(
        "ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON; ALTER DATABASE shop SET "
        "READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE"
    )
    assert session.rows(asked)[0][:2] == (1, True)


def test_row_counts_come_from_metadata(session: Session) -> None:
    session.run("CREATE TABLE t (a int PRIMARY KEY, b int); CREATE INDEX ix ON t (b)")
    session.executemany("INSERT INTO t VALUES (?, 0)", [(i,) for i in range(5)])
    (row,) = session.rows("EXEC sys.sp_spaceused @objname = N'[dbo].[t]'")
    assert (row[0], row[1].strip()) == ("t", "5")


ALTERED: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("ALTER TABLE t ADD c int NULL", [(1, "x", None), (2, "y", None)]),
    ("ALTER TABLE t ADD c int NOT NULL DEFAULT 7", [(1, "x", 7), (2, "y", 7)]),
    ("ALTER TABLE t ADD c int NULL, d varchar(5) DEFAULT 'd'", [(1, "x", None, None), (2, "y", None, None)]),
    ("ALTER TABLE t ADD c AS a * 2", [(1, "x", 2), (2, "y", 4)]),
    ("ALTER TABLE t DROP COLUMN b", [(1,), (2,)]),
    ("ALTER TABLE t ALTER COLUMN a bigint NOT NULL", [(1, "x"), (2, "y")]),
    ("ALTER TABLE t ALTER COLUMN b nvarchar(50) COLLATE Greek_CS_AS NOT NULL", [(1, "x"), (2, "y")]),
    ("ALTER TABLE t ADD CONSTRAINT u UNIQUE (b)", [(1, "x"), (2, "y")]),
]


@pytest.mark.parametrize(("sql", "rows"), ALTERED)
def test_altering_a_table_keeps_its_rows(session: Session, sql: str, rows: list[tuple[Any, ...]]) -> None:
    session.run(
        "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(20)); INSERT INTO t VALUES (1, 'x'), (2, 'y')"
    )
    session.run(sql)
    assert session.rows("SELECT * FROM t ORDER BY a") == rows


def test_a_heap_gets_a_primary_key(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (a int NOT NULL, b int); INSERT INTO t VALUES (2, 0), (1, 0)")
    session.run("ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a)")
    assert error_of(session, "INSERT INTO t VALUES (1, 1)") == 2627
    assert session.plan("SELECT b FROM t WHERE a > 1").startswith("SEARCH")


def test_identity_and_rowversion_are_filled_and_kept(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (id int IDENTITY(10, 5) PRIMARY KEY, v int, rv rowversion)")
    session.run("INSERT INTO t (v) VALUES (1), (2); INSERT INTO t VALUES (3)")
    assert session.rows("SELECT id, v FROM t ORDER BY id") == [(10, 1), (15, 2), (20, 3)]
    ((before,),) = session.rows("SELECT MAX(rv) FROM t")
    session.run("UPDATE t SET v = 0 WHERE id = 10")
    ((after,),) = session.rows("SELECT rv FROM t WHERE id = 10")
    assert after > before
    assert error_of(session, "INSERT INTO t (id, v) VALUES (1, 1)") == 544


def test_dropping_a_database_needs_it_unused(engine: Engine, session: Session, error_of) -> None:
    master = engine.login("sa", "secret", "master")
    assert error_of(master, "DROP DATABASE shop") == 3702
    session.close()
    master.run("DROP DATABASE shop; DROP DATABASE IF EXISTS shop")
    assert master.rows("SELECT name FROM sys.databases WHERE name = 'shop'") == []
    master.run("CREATE DATABASE shop COLLATE Greek_CI_AS; USE shop; CREATE TABLE t (a varchar(5))")
    assert master.rows("SELECT DATABASEPROPERTYEX(DB_NAME(), 'Collation')") == [("Greek_CI_AS",)]
