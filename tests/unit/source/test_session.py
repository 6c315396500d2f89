"""One session, one connection: what breaks is said, nothing is read twice or half, nothing hangs."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    DeadlockVictim,
    IsolationRefused,
    LockTimeout,
    LoginFailed,
    MssqlCdcError,
    SchemaDrift,
    ServerBusy,
    SourceObjectMissing,
    StatementFailed,
)
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.unit.source.conftest import settings_for

ROWS = 30_000
HANGS_SECONDS = 120
"""Nothing that is to end by itself takes as long, on a busy machine either."""
PASSWORD = "p@ss:w/rd?#%;{}'"
NUMBERS = Statement("SELECT id, name FROM dbo.numbers")
SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])


@pytest.fixture(scope="module", autouse=True)
def numbers(server: EmbeddedSqlServer) -> None:
    server.execute("CREATE TABLE dbo.numbers (id int NOT NULL PRIMARY KEY, name nvarchar(40))")
    server.executemany("INSERT INTO dbo.numbers VALUES (?, ?)", [(i, f"name {i}") for i in range(ROWS)])


@pytest.fixture(autouse=True)
def no_faults_and_no_threads_are_left(server: EmbeddedSqlServer) -> Iterator[None]:
    yield
    server.faults.clear()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("mssql-cdc")] == []


@pytest.fixture
def settings(server: EmbeddedSqlServer, driver: str) -> Callable[..., ConnectionSettings]:
    return lambda **ours: settings_for(server, driver, **ours)


def read_all(session: SourceSession, **options: Any) -> int:
    return sum(batch.num_rows for batch in session.read(NUMBERS, SCHEMA, **options))


def statements_of(server: EmbeddedSqlServer) -> list[str]:
    return [statement.sql for statement in server.faults.log()]


# -- connecting


def test_any_password_works_and_is_never_logged(
    server: EmbeddedSqlServer, driver: str, caplog: pytest.LogCaptureFixture
) -> None:
    login = f"odd]; {driver}"
    server.add_login(login, PASSWORD)
    caplog.set_level(logging.DEBUG)
    with SourceSession(settings_for(server, driver, login=login)) as session:
        assert session.value(Statement("SELECT SUSER_SNAME() AS login")) == login
        assert PASSWORD not in repr(session.settings)
    assert PASSWORD not in caplog.text
    assert session.driver in caplog.text


def test_a_wrong_password_is_a_failed_login_that_does_not_show_it(
    server: EmbeddedSqlServer, driver: str
) -> None:
    # pymssql repeats what it was told when a login first failed in this process, whatever that was
    said = "Login failed" if driver == "mssql-python" else ""
    with pytest.raises(LoginFailed, match=rf"erp \(127.0.0.1:\d+/shop\): connecting: {said}") as caught:
        SourceSession(settings_for(server, driver, password=PASSWORD)).open()
    assert PASSWORD not in str(caught.value)


def test_a_database_that_is_not_there_or_not_open_to_the_login_is_a_failed_login(
    server: EmbeddedSqlServer, driver: str
) -> None:
    server.create_database("closed")
    server.add_login(f"stranger {driver}")
    there = settings_for(server, driver)
    for database, login in (("nosuch", "sa"), ("closed", f"stranger {driver}")):
        wrong = replace(there, database=database, login=login, password=server.password_of(login))
        with pytest.raises(LoginFailed, match=f"/{database}"):
            SourceSession(wrong).open()


def test_a_database_that_cannot_be_opened_for_a_moment_is_tried_again(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    server.faults.fail_login(
        4060, text='Cannot open database "shop" requested by the login. The login failed.'
    )
    with pytest.raises(ServerBusy, match="it is being recovered or fails over"):
        SourceSession(settings()).open()


def test_a_server_that_is_gone_is_a_broken_connection(driver: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    gone = ConnectionSettings(
        "erp", "127.0.0.1", port=port, login="sa", driver=driver, login_timeout_seconds=2
    )  # type: ignore[arg-type]
    with pytest.raises(ConnectionBroken, match="connecting"):
        SourceSession(gone).open()


def test_a_server_that_never_answers_the_login_is_left_in_time(driver: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        silent = ConnectionSettings(
            "erp", "127.0.0.1", port=port, login="sa", driver=driver, login_timeout_seconds=1
        )  # type: ignore[arg-type]
        started = time.monotonic()
        with pytest.raises(ConnectionBroken):
            SourceSession(silent).open()
        assert time.monotonic() - started < HANGS_SECONDS


def test_a_session_sets_itself_up_before_anything_else(server: EmbeddedSqlServer, driver: str) -> None:
    server.faults.clear_log()
    with SourceSession(settings_for(server, driver, lock_timeout_seconds=7)) as session:
        assert session.value(Statement("SELECT @@TEXTSIZE AS size")) == 2_147_483_647
        assert session.value(Statement("SELECT @@LOCK_TIMEOUT AS t")) == 7000
        assert session.value(Statement("SELECT @@TRANCOUNT AS n")) == 0
    sent = statements_of(server)
    (stated,) = (at for at, text in enumerate(sent) if "SET ROWCOUNT 0" in text)
    assert stated < next(at for at, text in enumerate(sent) if text.startswith("SELECT @@TEXTSIZE AS size"))
    assert not [text for text in sent if "BEGIN TRAN" in text.upper()]


def test_a_transaction_under_snapshot_begins_after_the_level_is_set(
    server: EmbeddedSqlServer, driver: str
) -> None:
    server.execute("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    server.faults.clear_log()
    with SourceSession(settings_for(server, driver), isolation="snapshot") as session, session.transaction():
        first = session.value(Statement("SELECT COUNT(*) AS n FROM dbo.numbers"))
        server.execute("INSERT INTO dbo.numbers VALUES (-1, N'later')")
        try:
            assert session.value(Statement("SELECT COUNT(*) AS n FROM dbo.numbers")) == first == ROWS
            assert read_all(session) == ROWS
        finally:
            server.execute("DELETE dbo.numbers WHERE id = -1")
    sent = statements_of(server)
    level, begin = sent.index("SET TRANSACTION ISOLATION LEVEL SNAPSHOT"), sent.index("BEGIN TRANSACTION")
    assert level < begin < sent.index("COMMIT TRANSACTION")


def test_under_read_committed_there_is_no_transaction(
    server: EmbeddedSqlServer, session: SourceSession
) -> None:
    with session.transaction():
        assert session.value(Statement("SELECT @@TRANCOUNT AS n")) == 0


def test_snapshot_that_the_database_does_not_allow_says_how_to_allow_it(driver: str) -> None:
    with (
        EmbeddedSqlServer(database="shop") as other,
        SourceSession(settings_for(other, driver), isolation="snapshot") as session,
    ):
        other.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
        with (
            pytest.raises(IsolationRefused, match="SET ALLOW_SNAPSHOT_ISOLATION ON"),
            session.transaction(),
        ):
            session.rows(Statement("SELECT id FROM dbo.t"))


def test_an_unknown_isolation_is_refused(server: EmbeddedSqlServer, driver: str) -> None:
    with pytest.raises(ConfigurationError, match="isolation must be None"):
        SourceSession(settings_for(server, driver), isolation="nolock")


# -- encryption


def test_a_self_signed_certificate_is_refused_unless_it_is_trusted_on_purpose(
    driver: str, tmp_path: Any
) -> None:
    from airflow_provider_mssql_cdc.embedded.connection import self_signed
    from airflow_provider_mssql_cdc.embedded.listener import Listener

    files = self_signed(tmp_path)
    with EmbeddedSqlServer(database="shop") as engine:

        def settings(listener: Listener, **ours: Any) -> ConnectionSettings:
            known = {"host": "localhost", "port": listener.port, "database": "shop", "login": "sa"}
            password = engine.password_of("sa")
            return ConnectionSettings("erp", driver=driver, password=password, **known, **ours)  # type: ignore[arg-type]

        with Listener(engine.front, tls="required", certificate=files) as listener:
            with pytest.raises((ConfigurationError, ConnectionBroken)):
                SourceSession(settings(listener, encryption="require")).open()
            for ours in (
                {"trust_server_certificate": True},
                {"certificate_authorities": str(files.certificate)},
            ):
                with SourceSession(settings(listener, encryption="require", **ours)) as session:
                    assert session.value(Statement("SELECT 1 AS one")) == 1


def test_encryption_that_the_server_has_not_is_an_error(server: EmbeddedSqlServer, driver: str) -> None:
    with pytest.raises((ConfigurationError, ConnectionBroken)):
        SourceSession(settings_for(server, driver, encrypt="require", trust_server_certificate=True)).open()


# -- reading


def test_rows_come_once_and_whole_in_batches_of_the_planned_schema(session: SourceSession) -> None:
    batches = list(session.read(NUMBERS, SCHEMA, batch_rows=4096))
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    assert max(batch.num_rows for batch in batches) <= 4096
    ids = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert sorted(ids) == list(range(ROWS))


def test_an_empty_result_is_no_batch(session: SourceSession) -> None:
    assert list(session.read(Statement("SELECT id, name FROM dbo.numbers WHERE 1 = 0"), SCHEMA)) == []


def test_parameters_and_names_reach_the_server_as_they_are(
    server: EmbeddedSqlServer, session: SourceSession, driver: str
) -> None:
    name = f"100%(lo0)s ? ]]{driver}"
    server.execute(f"CREATE TABLE dbo.[{name}] (id int, [%(lo0)s] nvarchar(40))")
    server.executemany(f"INSERT INTO dbo.[{name}] VALUES (?, ?)", [(1, "it's %s"), (2, "other")])
    quoted = name.replace("%", "%%")
    statement = Statement(
        f"SELECT id, [%%(lo0)s] AS name FROM dbo.[{quoted}] WHERE [%%(lo0)s] = %(lo0)s", {"lo0": "it's %s"}
    )
    assert session.rows(statement) == [{"id": 1, "name": "it's %s"}]
    assert [batch.to_pylist() for batch in session.read(statement, SCHEMA)] == [
        [{"id": 1, "name": "it's %s"}]
    ]


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (pa.schema([("name", pa.string()), ("id", pa.int32())]), SchemaDrift),
        (pa.schema([("id", pa.int32())]), SchemaDrift),
        (pa.schema([("id", pa.int32()), ("NAME", pa.string())]), SchemaDrift),
    ],
)
def test_columns_are_matched_by_name_and_number(
    session: SourceSession, schema: pa.Schema, error: type[MssqlCdcError]
) -> None:
    with pytest.raises(error, match=r"dbo\.numbers: the server sent columns"):
        list(session.read(NUMBERS, schema, table="dbo.numbers"))
    assert read_all(session) == ROWS


@pytest.mark.parametrize("after_rows", [0, 1, 1024, 5000, 12_345, ROWS - 1, ROWS])
def test_a_connection_that_drops_while_rows_come_is_never_the_end_of_the_rows(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings], after_rows: int
) -> None:
    server.faults.drop("FROM dbo.numbers", after_rows=after_rows)
    with SourceSession(settings()) as session:
        with pytest.raises(ConnectionBroken, match="reading dbo.numbers|dbo.numbers: the rows ended"):
            read_all(session, table="dbo.numbers")
        with pytest.raises(ConnectionBroken, match="this session is over"):
            session.value(Statement("SELECT 1 AS one"))


def test_rows_that_end_early_without_any_error_are_noticed_by_the_server_s_count(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    server.faults.truncate("FROM dbo.numbers", after_rows=20_000)
    with SourceSession(settings()) as session, pytest.raises(ConnectionBroken, match=r"ended after 20,000"):
        read_all(session, table="dbo.numbers")


@pytest.mark.parametrize("after_rows", [None, 20_000])
@pytest.mark.parametrize(
    ("number", "severity", "error"),
    [
        (1205, 13, DeadlockVictim),
        (1222, 16, LockTimeout),
        (3960, 16, ServerBusy),
        (40501, 16, ServerBusy),
        (50001, 16, StatementFailed),
    ],
)
def test_an_error_of_the_server_before_or_among_the_rows_keeps_its_class(
    server: EmbeddedSqlServer,
    settings: Callable[..., ConnectionSettings],
    after_rows: int | None,
    number: int,
    severity: int,
    error: type[MssqlCdcError],
) -> None:
    texts = {
        1205: "Transaction (Process ID 52) was deadlocked on lock resources with another process and has "
        "been chosen as the deadlock victim. Rerun the transaction.",
        1222: "Lock request time out period exceeded.",
        3960: "Snapshot isolation transaction aborted due to update conflict.",
        40501: "The service is currently busy. Retry the request after 10 seconds.",
    }
    text = texts.get(number, "Something.")
    server.faults.fail("FROM dbo.numbers", number, text=text, severity=severity, after_rows=after_rows)
    with SourceSession(settings()) as session:
        with pytest.raises(error, match=r"erp \(.*\): reading dbo\.numbers"):
            read_all(session, table="dbo.numbers")
        assert read_all(session) == ROWS


def test_a_read_that_is_closed_early_ends_on_the_server_and_leaves_the_session_usable(
    session: SourceSession,
) -> None:
    reading = session.read(NUMBERS, SCHEMA, batch_rows=1024)
    assert next(reading).num_rows <= 1024
    reading.close()  # type: ignore[attr-defined]
    assert session.value(Statement("SELECT COUNT(*) AS n FROM dbo.numbers")) == ROWS


def test_a_second_statement_during_a_read_is_a_mistake_and_said(session: SourceSession) -> None:
    reading = session.read(NUMBERS, SCHEMA, batch_rows=1024)
    next(reading)
    with pytest.raises(RuntimeError, match="the session is reading"):
        session.value(Statement("SELECT 1 AS one"))
    reading.close()  # type: ignore[attr-defined]


def test_a_slow_consumer_loses_nothing(settings: Callable[..., ConnectionSettings]) -> None:
    rows = 0
    with SourceSession(settings(query_timeout_seconds=5)) as session:
        for batch in session.read(NUMBERS, SCHEMA, batch_rows=5000):
            rows += batch.num_rows
            time.sleep(0.7)
    assert rows == ROWS


# -- timeouts, cancelling, closing


def test_a_statement_that_gets_no_answer_ends_by_the_query_timeout(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    server.faults.stall("FROM dbo.numbers", seconds=10 * HANGS_SECONDS)
    started = time.monotonic()
    with SourceSession(settings(query_timeout_seconds=1)) as session, pytest.raises(ConnectionBroken):
        read_all(session)
    assert time.monotonic() - started < HANGS_SECONDS


def test_rows_that_stop_coming_end_by_the_query_timeout(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    server.faults.stall("FROM dbo.numbers", seconds=10 * HANGS_SECONDS, after_rows=20_000)
    started = time.monotonic()
    with SourceSession(settings(query_timeout_seconds=1)) as session, pytest.raises(ConnectionBroken):
        read_all(session)
    assert time.monotonic() - started < HANGS_SECONDS


def test_two_sessions_keep_their_own_query_timeouts(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    with SourceSession(settings(query_timeout_seconds=4)) as short, SourceSession(settings()) as long:
        server.faults.stall("SELECT 2", seconds=5)
        assert long.value(Statement("SELECT 2 AS two")) == 2
        server.faults.stall("SELECT 3", seconds=HANGS_SECONDS)
        with pytest.raises(ConnectionBroken):
            short.value(Statement("SELECT 3 AS three"))


@pytest.mark.parametrize("after_rows", [None, 20_000])
def test_cancelling_from_another_thread_ends_the_read_and_the_statement(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings], after_rows: int | None
) -> None:
    fault = server.faults.stall("FROM dbo.numbers", seconds=10 * HANGS_SECONDS, after_rows=after_rows)
    with SourceSession(settings()) as session:
        stopper = threading.Thread(target=lambda: (fault.reached.wait(10), session.cancel()))
        stopper.start()
        started = time.monotonic()
        with pytest.raises(ConnectionBroken, match="it was cancelled"):
            read_all(session)
        stopper.join(10)
        assert time.monotonic() - started < HANGS_SECONDS
        with pytest.raises(ConnectionBroken, match="this session is over, it was cancelled"):
            session.value(Statement("SELECT 1 AS one"))


def test_a_signal_interrupts_the_wait_for_the_server(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    """What Airflow does for execution_timeout and for "mark failed": a signal on the task's main thread."""
    server.faults.stall("FROM dbo.numbers", seconds=10 * HANGS_SECONDS)

    class Stopped(BaseException):
        pass

    with SourceSession(settings()) as session:

        def stop(number: int, frame: object) -> None:
            session.cancel()
            raise Stopped

        before = signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1)
            started = time.monotonic()
            with pytest.raises(Stopped):
                read_all(session)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < HANGS_SECONDS


def test_cancelling_when_nothing_runs_ends_the_session(session: SourceSession) -> None:
    session.cancel()
    with pytest.raises(ConnectionBroken, match="it was cancelled"):
        session.value(Statement("SELECT 1 AS one"))


def test_a_session_never_reconnects(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings]
) -> None:
    with SourceSession(settings()) as session:
        session.value(Statement("SELECT 1 AS one"))
        server.drop_connections()
        for _ in range(2):
            with pytest.raises(ConnectionBroken):
                session.value(Statement("SELECT 4 AS four"))
    assert "SELECT 4 AS four" not in statements_of(server)


def test_closing_is_idempotent_and_final(settings: Callable[..., ConnectionSettings]) -> None:
    session = SourceSession(settings())
    session.close()
    with pytest.raises(ConnectionBroken, match="it was closed"):
        session.open()
    session = SourceSession(settings())
    session.open()
    session.open()
    session.close()
    session.close()
    with pytest.raises(ConnectionBroken, match="it was closed"):
        session.rows(Statement("SELECT 1 AS one"))


def test_closing_leaves_no_connection_on_the_server(server: EmbeddedSqlServer, driver: str) -> None:
    with SourceSession(settings_for(server, driver)) as session:
        assert read_all(session) == ROWS
        assert server._listener.connections >= 1
    deadline = time.monotonic() + 5
    while server._listener.connections and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server._listener.connections == 0


# -- several answers in one round trip


def asked(*texts: str) -> list[Statement]:
    return [Statement(text) for text in texts]


def test_several_statements_are_answered_in_one_round_trip_each_by_its_first_result(
    server: EmbeddedSqlServer, session: SourceSession
) -> None:
    session.open()
    before = len(statements_of(server))
    answers = session.results(
        [
            Statement("SELECT id FROM dbo.numbers WHERE name = %(name)s", {"name": "name 7"}),
            Statement("SELECT id FROM dbo.numbers WHERE name = %(name)s", {"name": "100% %(no)s"}),
            *asked("SELECT 1 AS a; SELECT 2 AS b", "SET ROWCOUNT 0", "SELECT 1 AS [__$end], '%%' AS mark"),
        ]
    )
    assert answers == [[{"id": 7}], [], [{"a": 1}], [], [{"__$end": 1, "mark": "%"}]]
    assert len(statements_of(server)) == before + 1


@pytest.mark.parametrize("after_rows", [None, 0, 1, 2, 3])
def test_answers_that_end_early_are_never_taken_for_empty_ones(
    server: EmbeddedSqlServer, settings: Callable[..., ConnectionSettings], after_rows: int | None
) -> None:
    fault = server.faults.drop("FROM dbo.numbers", after_rows=after_rows)
    statements = asked("SELECT TOP (3) id FROM dbo.numbers ORDER BY id", "SELECT 5 AS five WHERE 1 = 0")
    with SourceSession(settings()) as session, pytest.raises(ConnectionBroken):
        session.results(statements)
    assert fault.acted == 1


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("text", ["SELECT 1 AS n FROM dbo.no_such_table", "EXEC dbo.no_such_procedure"])
def test_where_one_of_several_fails_the_others_are_answered_all_the_same(
    session: SourceSession, text: str, failing: int
) -> None:
    statements = asked("SELECT 10 AS n", "SELECT 11 AS n", "SELECT 12 AS n")
    statements[failing] = Statement(text)
    answers = session.answers(statements)
    assert [answer.optional for answer in answers] == [
        None if number == failing else {"n": 10 + number} for number in range(3)
    ]
    with pytest.raises((SourceObjectMissing, StatementFailed)):
        _ = answers[failing].rows
