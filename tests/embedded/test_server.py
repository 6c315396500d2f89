"""The server as one object: ways in, logins, restart, values."""

import datetime as dt
import json
import uuid
from decimal import Decimal

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.pytest_plugin import embedded_sql_server  # noqa: F401
from airflow_provider_mssql_cdc.embedded.seam import SqlError
from tests.embedded.drivers import DRIVERS, connected, driver_error, fetch, run

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@pytest.fixture
def server():
    with EmbeddedSqlServer() as server:
        yield server


VALUES = {
    "bit": True,
    "tinyint": 255,
    "bigint": -(2**63),
    "decimal(10, 2)": Decimal("-12345678.90"),
    "decimal(38, 10)": Decimal("1234567890123456789012345678.0123456789"),
    "money": Decimal("922337203685477.5807"),
    "real": 1.5,
    "float": -2.25e100,
    "date": dt.date(1, 1, 1),
    "time(6)": dt.time(23, 59, 59, 999999),
    "datetime": dt.datetime(2026, 5, 1, 12, 30, 0, 997000),
    "smalldatetime": dt.datetime(2026, 5, 1, 12, 30),
    "datetime2(6)": dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "datetimeoffset(3)": dt.datetime(2026, 5, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
    "nvarchar(20)": "Ω and 漢 and 😀",
    "varchar(max)": "x" * 10_000,
    "char(4)": "ab  ",
    "varbinary(16)": b"\x00\xff",
    "binary(4)": b"\x01\x00\x00\x00",
    "uniqueidentifier": uuid.UUID("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"),
}


@pytest.mark.parametrize("type_", VALUES)
def test_python_values_go_in_and_come_back_as_they_were(server, type_):
    server.execute(f"CREATE TABLE dbo.v (k int PRIMARY KEY, v {type_} NULL)")
    server.executemany("INSERT dbo.v VALUES (?, ?)", [(1, VALUES[type_]), (2, None)])
    server.execute("INSERT dbo.v VALUES (?, ?)", 3, VALUES[type_])
    rows = server.execute("SELECT v FROM dbo.v ORDER BY k")
    assert rows == [(VALUES[type_],), (None,), (VALUES[type_],)]
    assert type(rows[0][0]) is type(VALUES[type_])


@both_drivers
def test_a_driver_reads_what_was_executed_without_one_and_the_other_way_round(server, driver):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20))")
    server.executemany("INSERT INTO dbo.t VALUES (?, ?)", [(i, f"n{i}") for i in range(1000)])
    with connected(driver, server.airflow_connection()) as connection:
        assert fetch(connection, "SELECT id, name FROM dbo.t ORDER BY id")[999] == (999, "n999")
        run(connection, "INSERT dbo.t VALUES (1000, N'driver')")
    assert server.execute("SELECT name FROM dbo.t WHERE id = 1000") == [("driver",)]


@both_drivers
@pytest.mark.parametrize("tls", ["login", "required"])
def test_tls_connections_work_with_the_connection_that_the_server_gives(driver, tls):
    with (
        EmbeddedSqlServer(tls=tls) as server,
        connected(driver, server.airflow_connection()) as connection,
    ):
        assert fetch(connection, "SELECT DB_NAME()") == [("demo",)]


def test_the_connection_holds_what_a_hook_needs(server):
    connection = json.loads(
        server.airflow_connection(extra={"timeout": 5, "mssql_cdc": {"driver": "pymssql"}})
    )
    assert connection == {
        "conn_type": "mssql_cdc",
        "host": "127.0.0.1",
        "port": server.port,
        "login": "sa",
        "password": server.password_of("sa"),
        "schema": "demo",
        "extra": {"encryption": "off", "timeout": 5, "mssql_cdc": {"driver": "pymssql"}},
    }


@both_drivers
def test_a_login_reads_what_it_was_granted_and_nothing_else(server, driver):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, secret int)")
    server.execute("INSERT dbo.t VALUES (1, 2)")
    server.add_login("reader", "p@ss/word:?#%;{}'", grants=["SELECT ON dbo.t (id)"])
    with connected("pymssql", server.airflow_connection(login="reader")) as connection:
        assert fetch(connection, "SELECT id FROM dbo.t") == [(1,)]
        with driver_error() as texts:
            fetch(connection, "SELECT secret FROM dbo.t")
    assert "permission was denied" in texts[0]


@both_drivers
def test_a_wrong_password_is_refused(server, driver):
    with driver_error() as texts, connected(driver, server.airflow_connection(password="wrong")):
        pass
    # pymssql repeats what it was told when a login first failed in this process, whatever that was
    assert driver == "pymssql" or "Login failed" in texts[0]


@both_drivers
def test_a_restart_drops_connections_and_keeps_port_and_data(server, driver):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    server.execute("INSERT dbo.t VALUES (1)")
    port = server.port
    with connected(driver, server.airflow_connection()) as connection:
        assert fetch(connection, "SELECT id FROM dbo.t") == [(1,)]
        server.restart()
        with driver_error():
            fetch(connection, "SELECT id FROM dbo.t")
    assert server.port == port
    with connected(driver, server.airflow_connection()) as connection:
        assert fetch(connection, "SELECT id FROM dbo.t") == [(1,)]


@both_drivers
def test_dropped_connections_break_and_new_ones_are_accepted(server, driver):
    with connected(driver, server.airflow_connection()) as connection:
        fetch(connection, "SELECT 1 AS one")
        server.drop_connections()
        with driver_error():
            fetch(connection, "SELECT 1 AS one")
    with connected(driver, server.airflow_connection()) as connection:
        assert fetch(connection, "SELECT 1 AS one") == [(1,)]


def test_a_transaction_of_a_dropped_connection_is_rolled_back(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    with connected("pymssql", server.airflow_connection(), autocommit=False) as connection:
        run(connection, "INSERT dbo.t VALUES (1)")
        server.drop_connections()
    assert server.execute("SELECT COUNT(*) FROM dbo.t") == [(0,)]


def test_sessions_of_the_server_itself_keep_a_transaction_open(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    with server.session() as session:
        session.run("BEGIN TRAN; INSERT dbo.t VALUES (1)")
        assert session.rows("SELECT id FROM dbo.t") == [(1,)]
        session.run("ROLLBACK")
    assert server.execute("SELECT id FROM dbo.t") == []


def test_the_clock_is_what_sql_sees(server):
    server.time_zone = "Europe/Berlin"
    server.clock.freeze(dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC))
    (row,) = server.execute("SELECT GETDATE(), GETUTCDATE(), SYSDATETIMEOFFSET(), CURRENT_TIMEZONE_ID()")
    assert row[:2] == (dt.datetime(2026, 7, 1, 12), dt.datetime(2026, 7, 1, 10))
    assert row[2].utcoffset() == dt.timedelta(hours=2)
    server.time_zone = "UTC"
    assert server.execute("SELECT GETDATE()") == [(dt.datetime(2026, 7, 1, 10),)]


def test_rows_visited_are_counted(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    server.executemany("INSERT dbo.t VALUES (?)", [(i,) for i in range(1000)])
    with server.count_reads() as reads:
        server.execute("SELECT id FROM dbo.t WHERE id >= 990")
    assert [statement.tables for statement in reads.statements] == [{"dbo.t": 10}]


def test_several_databases_live_side_by_side(server):
    server.create_database("other")
    server.create_database("other")
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", database="other")
    with pytest.raises(SqlError):
        server.execute("SELECT id FROM dbo.t")
    assert json.loads(server.airflow_connection(database="other"))["schema"] == "other"


def test_the_fixture_for_users_gives_a_server(embedded_sql_server):  # noqa: F811
    assert embedded_sql_server.execute("SELECT DB_NAME()") == [("demo",)]
