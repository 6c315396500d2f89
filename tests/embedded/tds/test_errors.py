"""Errors reach both drivers with their numbers: before rows, after some of them, at login."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.seam import (
    MAX,
    DropConnection,
    ResultSet,
    Row,
    RowCount,
    SqlError,
    SqlType,
)
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine, rows_of

Connect = Callable[..., Any]
COLUMNS = [("id", SqlType("int")), ("name", SqlType("nvarchar", 100))]


LARGE = [("id", SqlType("int")), ("name", SqlType("nvarchar", MAX))]


def failing(
    error: Exception, batches: int, columns: Sequence[tuple[str, SqlType]] = COLUMNS
) -> Callable[[], ResultSet]:
    """A result that breaks after some batches of a thousand rows."""

    def rows() -> Iterator[list[Row]]:
        for batch in range(batches):
            yield [(batch * 1000 + i, f"name {i}") for i in range(1000)]
        raise error

    def result() -> ResultSet:
        made = rows_of(columns)
        made.batches = rows()
        return made

    return result


@pytest.fixture
def invalid_object(engine: ScriptedEngine) -> None:
    def raises(*_: Any) -> Any:
        raise SqlError(208, "Invalid object name 'dbo.nothing'.")

    engine.scripts["SELECT nothing"] = raises
    engine.select("SELECT 1", [("x", SqlType("int"))], [(1,)])


@pytest.mark.usefixtures("invalid_object")
def test_pymssql_sees_the_number(clients: Clients) -> None:
    connection = clients.pymssql()
    with pytest.raises(Exception, match=r"Invalid object name 'dbo.nothing'") as raised:
        fetch(connection, "SELECT nothing")
    assert raised.value.args[0] == 208
    assert fetch(connection, "SELECT 1") == [(1,)]


@pytest.mark.usefixtures("invalid_object")
def test_mssql_python_sees_the_text_and_goes_on(clients: Clients) -> None:
    connection = clients.mssql_python()
    with pytest.raises(Exception, match=r"Invalid object name 'dbo.nothing'"):
        fetch(connection, "SELECT nothing")
    assert fetch(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("batches", [0, 1, 20])
def test_an_error_among_the_rows_raises(batches: int, engine: ScriptedEngine, connect: Connect) -> None:
    engine.on("SELECT rows", failing(SqlError(8134, "Divide by zero error encountered."), batches))
    engine.select("SELECT 1", [("x", SqlType("int"))], [(1,)])
    connection = connect()
    with pytest.raises(Exception, match="Divide by zero"):
        fetch(connection, "SELECT rows")
    assert fetch(connection, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("batches", [0, 1, 20])
def test_an_error_among_the_rows_raises_in_arrow(
    batches: int, engine: ScriptedEngine, clients: Clients
) -> None:
    engine.on("SELECT rows", failing(SqlError(1204, "No more locks."), batches))
    cursor = clients.mssql_python().cursor()
    with pytest.raises(Exception, match="No more locks"):  # noqa: PT012 - either call may be the one
        cursor.execute("SELECT rows")
        for _ in cursor.arrow_reader(512):
            pass


def test_an_error_among_the_rows_of_a_prepared_statement_raises(
    engine: ScriptedEngine, clients: Clients
) -> None:
    engine.on("SELECT rows WHERE @P1", failing(SqlError(8134, "Divide by zero error encountered."), 5))
    with pytest.raises(Exception, match="Divide by zero"):
        fetch(clients.mssql_python(), "SELECT rows WHERE ?", 1)


def test_an_error_after_another_statement_raises(engine: ScriptedEngine, connect: Connect) -> None:
    def script(*_: Any) -> Any:
        yield RowCount(5)
        raise SqlError(547, "The INSERT statement conflicted with the CHECK constraint.")

    engine.scripts["two"] = script
    cursor = connect().cursor()
    with pytest.raises(Exception, match="CHECK constraint"):  # noqa: PT012 - either call may be the one
        cursor.execute("two")
        while cursor.nextset():
            pass


@pytest.mark.parametrize("batches", [0, 1, 30])
def test_a_dropped_connection_raises(batches: int, engine: ScriptedEngine, connect: Connect) -> None:
    engine.on("SELECT rows", failing(DropConnection(), batches))
    connection = connect()
    with pytest.raises(Exception):  # noqa: B017 - each driver has its own words
        fetch(connection, "SELECT rows")


def test_a_drop_between_rows_looks_like_the_end_to_mssql_python(
    engine: ScriptedEngine, clients: Clients
) -> None:
    """Why a read must ask the same session something after its last row: this driver tells nobody."""
    engine.on("SELECT rows", failing(DropConnection(between_rows=True), 3))
    connection = clients.mssql_python()
    cursor = connection.cursor()
    cursor.execute("SELECT rows")
    assert sum(batch.num_rows for batch in cursor.arrow_reader(512)) == 3000
    with pytest.raises(Exception, match="Communication link failure"):
        fetch(connection, "SELECT 1")


def test_a_drop_between_rows_raises_in_pymssql(engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("SELECT rows", failing(DropConnection(between_rows=True), 3))
    with pytest.raises(Exception, match="DBPROCESS is dead|closed|EOF|connection"):
        fetch(clients.pymssql(), "SELECT rows")


@pytest.mark.parametrize("between_rows", [False, True])
@pytest.mark.parametrize("batches", [0, 1, 30])
def test_a_drop_among_large_values_raises_in_both(
    batches: int, between_rows: bool, engine: ScriptedEngine, clients: Clients
) -> None:
    engine.on("SELECT rows", failing(DropConnection(between_rows=between_rows), batches, LARGE))
    with pytest.raises(Exception, match="DBPROCESS is dead|closed|EOF|connection"):
        fetch(clients.pymssql(), "SELECT rows")
    cursor = clients.mssql_python().cursor()
    with pytest.raises(Exception, match="Communication link failure"):  # noqa: PT012 - either may be the one
        cursor.execute("SELECT rows")
        for _ in cursor.arrow_reader(512):
            pass


def test_rows_before_a_drop_do_arrive(engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("SELECT rows", failing(DropConnection(), 3))
    cursor = clients.pymssql().cursor()
    cursor.execute("SELECT rows")
    assert len(cursor.fetchmany(2900)) == 2900


def test_a_fatal_error_ends_the_connection(engine: ScriptedEngine, connect: Connect) -> None:
    def raises(*_: Any) -> Any:
        raise SqlError(596, "Cannot continue the execution because the session is in the kill state.", 21)

    engine.scripts["SELECT kill"] = raises
    connection = connect()
    with pytest.raises(Exception, match="kill state|596"):
        fetch(connection, "SELECT kill")
    with pytest.raises(Exception):  # noqa: B017 - each driver has its own words
        fetch(connection, "SELECT 1")


def test_an_engine_that_fails_is_an_error_and_not_a_hang(engine: ScriptedEngine, connect: Connect) -> None:
    def breaks(*_: Any) -> Any:
        raise KeyError("no such thing")

    engine.scripts["SELECT broken"] = breaks
    engine.select("SELECT 1", [("x", SqlType("int"))], [(1,)])
    connection = connect()
    with pytest.raises(Exception, match="The embedded server failed: KeyError"):
        fetch(connection, "SELECT broken")
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_a_type_that_is_not_spoken_is_an_error(engine: ScriptedEngine, connect: Connect) -> None:
    engine.select("SELECT shape", [("x", SqlType("geography"))], [(b"",)])
    with pytest.raises(Exception, match="'geography' is not spoken"):
        fetch(connect(), "SELECT shape")


def test_a_wrong_password_has_its_number(clients: Clients) -> None:
    refusal = clients.pymssql_refusal(password="wrong")
    assert "18456" in refusal
    assert "wrong" not in refusal
    with pytest.raises(Exception, match="Login failed for user 'sa'"):
        clients.mssql_python(password="wrong")
