"""Batches: several results, counts, messages, the database in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.seam import Message, RowCount, SqlType
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import Items, ScriptedEngine, ScriptedSession, rows_of

INT = SqlType("int")
Connect = Callable[..., Any]


def test_a_batch_gives_all_its_results_in_order(engine: ScriptedEngine, connect: Connect) -> None:
    engine.on(
        "three",
        lambda: rows_of([("a", INT)], [(1,)], [(2,)]),
        RowCount(7),
        lambda: rows_of([("b", SqlType("nvarchar", 20))], []),
        lambda: rows_of([("c", INT), ("d", INT)], [(3, None)]),
    )
    cursor = connect().cursor()
    cursor.execute("three")
    found = []
    while True:
        if cursor.description:
            names = [column[0] for column in cursor.description]
            found.append((names, [tuple(row) for row in cursor.fetchall()]))
        if not cursor.nextset():
            break
    assert found == [(["a"], [(1,), (2,)]), (["b"], []), (["c", "d"], [(3, None)])]


@pytest.mark.parametrize("rows", [0, 1, 3_000_000_000])
def test_a_statement_without_rows_has_its_count(rows: int, engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("UPDATE", RowCount(rows))
    cursor = clients.mssql_python().cursor()
    cursor.execute("UPDATE")
    assert cursor.rowcount == rows


def test_pymssql_sees_the_count_too(engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("UPDATE", RowCount(12))
    cursor = clients.pymssql().cursor()
    cursor.execute("UPDATE")
    assert cursor.rowcount == 12


def test_a_statement_without_a_count_has_none(engine: ScriptedEngine, connect: Connect) -> None:
    engine.on("CREATE TABLE", RowCount(None))
    cursor = connect().cursor()
    cursor.execute("CREATE TABLE")
    assert cursor.rowcount == -1


def test_an_empty_batch_is_done(engine: ScriptedEngine, connect: Connect) -> None:
    engine.on("-- nothing")
    connection = connect()
    connection.cursor().execute("-- nothing")
    engine.select("SELECT", [("x", INT)], [(1,)])
    assert fetch(connection, "SELECT") == [(1,)]


def test_messages_do_not_disturb_rows(engine: ScriptedEngine, connect: Connect) -> None:
    engine.on(
        "noisy",
        Message(0, "before"),
        lambda: rows_of([("x", INT)], [(1,)]),
        Message(8153, "Warning: Null value is eliminated by an aggregate or other SET operation."),
    )
    assert fetch(connect(), "noisy") == [(1,)]


def test_the_client_learns_of_another_database(engine: ScriptedEngine, connect: Connect) -> None:
    def use(session: ScriptedSession, _: Any) -> Items:
        session.database = "Ünïcode db"
        return iter([Message(5701, "Changed database context to 'Ünïcode db'."), RowCount(None)])

    engine.scripts["USE other"] = use
    engine.select("SELECT", [("x", INT)], [(1,)])
    connection = connect()
    connection.cursor().execute("USE other")
    assert fetch(connection, "SELECT") == [(1,)]


def test_a_statement_may_be_long(engine: ScriptedEngine, connect: Connect) -> None:
    statement = "SELECT '" + "é" * 200_000 + "'"
    engine.select(statement, [("x", INT)], [(1,)])
    assert fetch(connect(), statement) == [(1,)]


def test_a_thousand_columns_arrive(engine: ScriptedEngine, connect: Connect) -> None:
    columns = [(f"column {i}", INT) for i in range(1000)]
    engine.select("wide", columns, [tuple(range(1000))] * 40)
    assert fetch(connect(), "wide") == [tuple(range(1000))] * 40
