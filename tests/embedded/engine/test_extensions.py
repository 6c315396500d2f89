"""What extensions of the engine (change data capture) build on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session, create_system_table, drop_table
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run.results import result_set
from airflow_provider_mssql_cdc.embedded.seam import DropConnection, Parameter, SqlError, SqlType

INT, LSN = SqlType("int"), SqlType("binary", 10)


def test_a_registered_procedure_is_called_by_any_of_its_names(engine: Engine, session: Session) -> None:
    def double(caller: Session, arguments: dict[str, Parameter]) -> Iterator[Any]:
        yield result_set(
            [("twice", INT), ("by", SqlType("nvarchar", 256))],
            [(arguments["n"].value * 2, caller.login_name)],
        )

    engine.register_procedure("sys.sp_double", double, parameters=("n",))
    for sql in (
        "EXEC sys.sp_double 4",
        "EXEC sp_double @n = 4",
        "EXECUTE shop.sys.SP_DOUBLE @N = 4",
    ):
        assert session.rows(sql) == [(8, "sa")]
    (result,) = session.call("sp_double", [Parameter("@n", INT, 5)])
    assert list(result.batches) == [[(10, "sa")]]


def test_a_registered_function_reads_in_the_statements_snapshot(
    engine: Engine, session: Session, other: Session
) -> None:
    with session.write() as write:
        table = create_system_table(write, "cdc", "marks", [("lsn", LSN)], primary_key=("lsn",))
        write.connection.execute(f"INSERT INTO {quote(table.storage)} VALUES (?)", (b"\1" * 10,))

    def newest(caller: Session) -> bytes | None:
        row = caller.active_connection.execute(f"SELECT max(lsn) FROM {quote(table.storage)}").fetchone()
        return None if row is None else row[0]

    engine.register_scalar("sys.fn_newest", newest, returns=LSN)
    assert session.rows("SELECT sys.fn_newest(), CONVERT(varchar(22), sys.fn_newest(), 1)") == [
        (b"\1" * 10, "0x" + "01" * 10)
    ]
    session.run(
        "ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON; SET TRANSACTION ISOLATION LEVEL "
        "SNAPSHOT; BEGIN TRAN"
    )
    session.rows("SELECT sys.fn_newest()")
    with other.write() as write:
        write.connection.execute(f"INSERT INTO {quote(table.storage)} VALUES (?)", (b"\2" * 10,))
    assert session.rows("SELECT sys.fn_newest(), MAX(lsn) FROM cdc.marks") == [(b"\1" * 10, b"\1" * 10)]
    session.commit()
    assert session.rows("SELECT sys.fn_newest()") == [(b"\2" * 10,)]


def test_triggers_see_transactions_in_commit_order(session: Session, other: Session) -> None:
    session.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    with session.write() as write:
        log = create_system_table(write, "cdc", "log", [("tran", INT), ("cmd", INT), ("id", INT)])
        stored = write.catalog().require(("t",)).storage
        write.connection.execute(
            f"CREATE TRIGGER tr AFTER INSERT ON {quote(stored)} BEGIN INSERT INTO {quote(log.storage)} "
            "VALUES (session_transaction(), session_statement(), NEW.id); END"
        )
    session.run("BEGIN TRAN; INSERT INTO t VALUES (1, 0), (2, 0); INSERT INTO t VALUES (3, 0); COMMIT")
    other.run("INSERT INTO t VALUES (4, 0)")
    session.executemany("INSERT INTO t VALUES (?, ?)", [(5, 0), (6, 0)])
    rows = session.rows("SELECT [tran], cmd, id FROM cdc.log")
    assert [(cmd, id_) for _, cmd, id_ in rows] == [(1, 1), (1, 2), (2, 3), (1, 4), (1, 5), (1, 6)]
    numbers = [tran for tran, _, _ in rows]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 3
    assert session.rows("SELECT is_ms_shipped FROM sys.tables WHERE name = 'log'") == [(True,)]
    with session.write() as write:
        drop_table(write, "cdc", "log")


def test_commit_hooks_write_in_the_same_transaction_and_can_refuse(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (id int); CREATE TABLE commits (n int)")
    refuse = False

    def hook(caller: Session, write: Any) -> None:
        if refuse:
            raise SqlError(9002, "The transaction log is full.")
        write.connection.execute('INSERT INTO "dbo.commits" VALUES (?)', (caller.transaction_number,))

    engine.hooks.commit.append(hook)
    session.run("INSERT INTO t VALUES (1)")
    session.run("BEGIN TRAN; INSERT INTO t VALUES (2); ROLLBACK; SELECT * FROM t")
    assert session.rows("SELECT COUNT(*) FROM commits") == [(1,)]
    refuse = True
    with pytest.raises(SqlError, match="9002"):
        session.run("INSERT INTO t VALUES (3)")
    assert session.rows("SELECT COUNT(*) FROM t") == [(1,)]


def test_ddl_hooks_hear_of_changes(engine: Engine, session: Session) -> None:
    heard: list[tuple[str, str, str]] = []
    engine.hooks.ddl.append(lambda caller, write, kind, table, text: heard.append((kind, table.name, text)))
    session.run("CREATE TABLE t (a int); ALTER TABLE t ADD b int; DROP TABLE t")
    assert heard == [
        ("create table", "t", "CREATE TABLE t (a int)"),
        ("alter table", "t", "ALTER TABLE t ADD b int"),
        ("drop table", "t", "DROP TABLE t"),
    ]


def test_statement_hooks_can_fail_drop_and_run_other_sql(
    engine: Engine, session: Session, other: Session
) -> None:
    session.run("CREATE TABLE t (a int)")

    def before(caller: Session, text: str) -> None:
        if caller is session and "deadlock" in text:
            raise SqlError(1205, "Deadlock victim.", 13)
        if caller is session and "drop" in text:
            raise DropConnection
        if caller is session and text.startswith("SELECT"):
            other.run("INSERT INTO t VALUES (1)")

    engine.hooks.before_statement.append(before)
    assert session.rows("SELECT COUNT(*) FROM t") == [(1,)]
    with pytest.raises(SqlError, match="1205"):
        session.rows("SELECT 1 AS deadlock")
    with pytest.raises(DropConnection):
        session.rows("SELECT 1 AS [drop]")


def test_batches_can_be_wrapped(engine: Engine, session: Session) -> None:
    session.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)")

    def wrap(caller: Session, text: str, batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
        for batch in batches:
            yield batch[:1]
            raise DropConnection

    engine.hooks.wrap_batches.append(wrap)
    with pytest.raises(DropConnection):
        session.rows("SELECT a FROM t")


def test_a_replica_stays_where_its_last_redo_was(engine: Engine, session: Session, error_of) -> None:
    session.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    engine.add_replica("secondary")
    reader = engine.login("sa", "secret", "shop", replica="secondary")
    session.run("INSERT INTO t VALUES (2); ALTER TABLE t ADD b int; CREATE TABLE u (x int)")
    assert reader.rows("SELECT * FROM t") == [(1,)]
    assert error_of(reader, "SELECT * FROM u") == 208
    assert error_of(reader, "INSERT INTO t VALUES (3)") == 3906
    engine.redo("secondary")
    assert reader.rows("SELECT * FROM t") == [(1, None), (2, None)]
    assert reader.rows("SELECT * FROM u") == []
    assert reader.rows("SELECT DATABASEPROPERTYEX(DB_NAME(), 'Updateability')") == [("READ_ONLY",)]
