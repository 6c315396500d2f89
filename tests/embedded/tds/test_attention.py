"""A client that wants no more: timeouts, cancelled readers, cancel from another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.listener import Listener
from airflow_provider_mssql_cdc.embedded.seam import Parameter, Row, RowCount, SqlError, SqlType
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import Items, ScriptedEngine, ScriptedSession, rows_of

COLUMNS = [("id", SqlType("int")), ("name", SqlType("nvarchar", 100))]
PATIENCE_SECONDS = 20


@pytest.fixture(autouse=True)
def _answers(engine: ScriptedEngine) -> None:
    engine.select("SELECT 1", [("x", SqlType("int"))], [(1,)])


def stalls(session: ScriptedSession, _: Sequence[Parameter]) -> Items:
    """A statement that waits until it is cancelled, as an engine does, and then raises."""
    if session.cancelled.wait(PATIENCE_SECONDS):
        raise SqlError(0, "The statement was cancelled.")
    yield RowCount(0)


def stalls_after_rows(session: ScriptedSession, given: Sequence[Parameter]) -> Items:
    def batches() -> Iterator[list[Row]]:
        yield [(i, f"name {i}") for i in range(5000)]
        yield from stalls(session, given)  # type: ignore[misc]

    result = rows_of(COLUMNS)
    result.batches = batches()
    yield result


def never_ends(session: ScriptedSession, _: Sequence[Parameter]) -> Items:
    """Rows without end; the engine itself does not look at cancel."""

    def batches() -> Iterator[list[Row]]:
        while True:
            yield [(i, f"name {i}") for i in range(1000)]

    result = rows_of(COLUMNS)
    result.batches = batches()
    yield result


@pytest.mark.parametrize("script", [stalls, stalls_after_rows], ids=["before rows", "among rows"])
def test_a_query_timeout_leaves_the_connection_usable(
    script: Any, engine: ScriptedEngine, clients: Clients
) -> None:
    engine.scripts["SELECT slow"] = script
    connection = clients.mssql_python()
    connection.timeout = 1
    started = time.monotonic()
    with pytest.raises(Exception, match="(?i)timeout"):
        fetch(connection, "SELECT slow")
    assert time.monotonic() - started < 5
    connection.timeout = 0
    assert fetch(connection, "SELECT 1") == [(1,)]
    assert len(engine.sessions) == 1


def test_a_query_timeout_of_a_prepared_statement(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["SELECT slow WHERE @P1"] = stalls
    connection = clients.mssql_python()
    connection.timeout = 1
    with pytest.raises(Exception, match="(?i)timeout"):
        fetch(connection, "SELECT slow WHERE ?", 1)
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_an_engine_that_ignores_cancel_until_it_ends_is_still_answered_with_attention(
    engine: ScriptedEngine, clients: Clients
) -> None:
    def sleeps(*_: Any) -> Items:
        time.sleep(1.5)
        yield rows_of([("x", SqlType("int"))], [(5,)])

    engine.scripts["SELECT slow"] = sleeps
    connection = clients.mssql_python()
    connection.timeout = 1
    with pytest.raises(Exception, match="(?i)timeout"):
        fetch(connection, "SELECT slow")
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_an_arrow_reader_that_is_closed_early_ends_the_statement(
    engine: ScriptedEngine, clients: Clients
) -> None:
    engine.scripts["SELECT endless"] = never_ends
    connection = clients.mssql_python()
    cursor = connection.cursor()
    cursor.execute("SELECT endless")
    reader = cursor.arrow_reader(4096)
    assert reader.read_next_batch().num_rows == 4096
    reader.close()
    cursor.close()
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_a_cursor_that_is_closed_early_ends_the_statement(engine: ScriptedEngine, connect: Any) -> None:
    engine.scripts["SELECT endless"] = never_ends
    connection = connect()
    cursor = connection.cursor()
    cursor.execute("SELECT endless")
    assert len(cursor.fetchmany(100)) == 100
    cursor.close()
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_another_thread_may_cancel(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["SELECT slow"] = stalls
    connection = clients.mssql_python()
    cursor = connection.cursor()
    timer = threading.Timer(0.5, lambda: cursor.hstmt._cancel())  # noqa: PLW0108 - execute replaces it
    timer.start()
    with pytest.raises(Exception, match="(?i)cancel"):
        cursor.execute("SELECT slow")
    timer.join()
    assert fetch(connection, "SELECT 1") == [(1,)]


def test_many_timeouts_in_a_row_keep_one_connection_in_step(engine: ScriptedEngine, clients: Clients) -> None:
    """Cancelled at random moments, the next statement always gets its own answer."""
    engine.scripts["SELECT endless"] = never_ends
    connection = clients.mssql_python()
    for attempt in range(30):
        cursor = connection.cursor()
        cursor.execute("SELECT endless")
        cursor.fetchmany(1 + attempt * 97)
        cursor.close()
        assert fetch(connection, "SELECT 1") == [(1,)]
    assert len(engine.sessions) == 1


def test_pymssql_gives_up_and_the_session_is_closed(
    engine: ScriptedEngine, listener: Listener, clients: Clients
) -> None:
    engine.scripts["SELECT slow"] = stalls
    connection = clients.pymssql(timeout=1)
    with pytest.raises(Exception, match="(?i)timed out|20003"):
        fetch(connection, "SELECT slow")
    connection.close()
    clients.pymssql(timeout=0)  # the timeout is the whole process's
    until = time.monotonic() + 10
    while not engine.sessions[0].closed:
        assert time.monotonic() < until
        time.sleep(0.01)
