"""Each fault, through both real drivers."""

import threading
import time

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.embedded.drivers import DRIVERS, connected, driver_error, fetch, run

ROWS = 20_000
SELECT = "SELECT id, name FROM dbo.t ORDER BY id"


@pytest.fixture(scope="module")
def module_server():
    with EmbeddedSqlServer() as server:
        server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(40))")
        server.execute("CREATE TABLE dbo.log (id int IDENTITY PRIMARY KEY, text nvarchar(40))")
        server.executemany("INSERT dbo.t VALUES (?, ?)", [(i, f"name {i}") for i in range(ROWS)])
        yield server


@pytest.fixture
def server(module_server):
    yield module_server
    module_server.faults.clear()
    module_server.faults.clear_log()
    module_server.execute("DELETE FROM dbo.log")


@pytest.fixture(params=DRIVERS)
def connection(request, server):
    with connected(request.param, server.airflow_connection()) as opened:
        yield opened


def test_a_connection_is_dropped_before_a_statement(server, connection):
    server.faults.drop(r"FROM dbo\.t")
    assert fetch(connection, "SELECT 1 AS one") == [(1,)]
    with driver_error():
        fetch(connection, SELECT)


@pytest.mark.parametrize("after_rows", [0, 1, 4_999, 5_000, 12_345])
def test_a_connection_is_dropped_after_n_rows(server, connection, after_rows):
    fault = server.faults.drop(r"FROM dbo\.t", after_rows=after_rows)
    with driver_error():
        fetch(connection, SELECT)
    assert fault.reached.is_set()
    (statement,) = [s for s in server.faults.log() if "dbo.t" in s.sql]
    assert statement.rows == after_rows


def test_a_fault_past_the_last_row_does_nothing(server, connection):
    fault = server.faults.drop(r"FROM dbo\.t", after_rows=ROWS + 1)
    assert len(fetch(connection, SELECT)) == ROWS
    assert not fault.reached.is_set()


@pytest.mark.parametrize("number", [1205, 1222, 3960])
def test_an_error_number_is_raised_at_the_kth_matching_statement(server, connection, number):
    server.faults.fail("one", number, occurrence=2)
    assert fetch(connection, "SELECT 1 AS one") == [(1,)]
    assert fetch(connection, "SELECT 2 AS two") == [(2,)]
    with driver_error() as texts:
        fetch(connection, "SELECT 1 AS one")
    assert "told to fail" in texts[0]
    assert fetch(connection, "SELECT 1 AS one") == [(1,)]
    assert server.faults.log()[-2].error.startswith(f"Msg {number}")


def test_an_error_comes_in_the_middle_of_the_rows(server, connection):
    server.faults.fail(r"FROM dbo\.t", 1205, after_rows=7_000)
    with driver_error() as texts:
        fetch(connection, SELECT)
    assert "told to fail" in texts[0]
    assert len(fetch(connection, SELECT)) == ROWS


@pytest.mark.parametrize("after_rows", [None, 3_000])
@pytest.mark.parametrize(("number", "kept"), [(1205, 0), (1222, 1)])
def test_a_deadlock_takes_the_transaction_along_and_a_lock_timeout_does_not(
    server, connection, after_rows, number, kept
):
    run(connection, "BEGIN TRANSACTION")
    run(connection, "INSERT dbo.log VALUES (N'in doubt')")
    server.faults.fail(r"FROM dbo\.t", number, after_rows=after_rows)
    with driver_error():
        fetch(connection, SELECT)
    run(connection, "IF @@TRANCOUNT > 0 COMMIT")
    assert server.execute("SELECT COUNT(*) FROM dbo.log") == [(kept,)]
    (failed,) = [s for s in server.faults.log() if s.error]
    assert (failed.sql, failed.rows) == (SELECT, after_rows or 0)


def test_rows_end_early_without_an_error(server, connection):
    server.faults.truncate(r"FROM dbo\.t", after_rows=6_001)
    assert fetch(connection, SELECT)[-1] == (6_000, "name 6000")
    assert len(fetch(connection, SELECT)) == ROWS


def test_a_statement_stalls_for_some_seconds(server, connection):
    server.faults.stall("one", seconds=0.4)
    started = time.monotonic()
    assert fetch(connection, "SELECT 1 AS one") == [(1,)]
    assert time.monotonic() - started >= 0.4


@pytest.mark.parametrize("after_rows", [None, 5_500])
def test_a_statement_stalls_until_it_is_released(server, connection, after_rows):
    fault = server.faults.stall(r"FROM dbo\.t", after_rows=after_rows)
    rows = []
    reader = threading.Thread(target=lambda: rows.extend(fetch(connection, SELECT)))
    reader.start()
    assert fault.reached.wait(10)
    time.sleep(0.1)
    assert reader.is_alive()
    fault.release()
    reader.join(20)
    assert len(rows) == ROWS


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_clients_timeout_ends_a_stall(server, driver):
    server.faults.stall(r"FROM dbo\.t")
    with connected(driver, server.airflow_connection(), timeout=1) as connection:
        started = time.monotonic()
        with driver_error():
            fetch(connection, SELECT)
        assert time.monotonic() - started < 10


def test_a_change_is_committed_before_a_statement_and_seen_by_it(server, connection):
    server.faults.run("FROM dbo.log", lambda: server.execute("INSERT dbo.log VALUES (N'before')"))
    assert fetch(connection, "SELECT text FROM dbo.log") == [("before",)]


def test_a_change_is_committed_after_a_statement_and_not_seen_by_it(server, connection):
    server.faults.run("FROM dbo.log", lambda: server.execute("INSERT dbo.log VALUES (N'after')"), at_end=True)
    assert fetch(connection, "SELECT text FROM dbo.log") == []
    assert fetch(connection, "SELECT text FROM dbo.log") == [("after",)]


def test_a_change_is_committed_in_the_middle_of_the_rows_and_not_seen_by_them(server, connection):
    server.faults.run(
        r"FROM dbo\.t",
        lambda: server.execute("UPDATE dbo.t SET name = N'changed' WHERE id = 19999"),
        after_rows=5_000,
    )
    try:
        assert fetch(connection, SELECT)[-1] == (19_999, "name 19999")
        assert fetch(connection, SELECT)[-1] == (19_999, "changed")
    finally:
        server.execute("UPDATE dbo.t SET name = N'name 19999' WHERE id = 19999")


def test_a_fault_acts_as_often_as_it_was_told(server, connection):
    fault = server.faults.fail("one", 50001, times=2)
    for _ in range(2):
        with driver_error():
            fetch(connection, "SELECT 1 AS one")
    assert fetch(connection, "SELECT 1 AS one") == [(1,)]
    assert fault.acted == 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_logins_fail_while_a_failover_goes_on(server, driver):
    server.faults.fail_login(4060, times=1)
    with driver_error(), connected(driver, server.airflow_connection()):
        pass
    with connected(driver, server.airflow_connection()) as connection:
        assert fetch(connection, "SELECT 1 AS one") == [(1,)]


def test_statements_are_logged_by_session(server, connection):
    (session_id,) = fetch(connection, "SELECT @@SPID")[0]
    run(connection, "INSERT dbo.log VALUES (N'x')")
    logged = [statement for statement in server.faults.log(session_id) if "dbo.log" in statement.sql]
    assert [(s.login, s.database, s.rows, s.error) for s in logged] == [("sa", "demo", 0, None)]


def test_faults_match_procedures_by_name(server, connection):
    server.faults.fail("sp_spaceused", 1222)
    with driver_error():
        fetch(connection, "EXEC sys.sp_spaceused N'dbo.t'")
