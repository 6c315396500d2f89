"""The life of connections: pools, clients that vanish, a listener that closes, strangers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mssql_python
import pytest

from airflow_provider_mssql_cdc.embedded.listener import Listener
from airflow_provider_mssql_cdc.embedded.seam import DropConnection, Parameter, RowCount, SqlError, SqlType
from tests.embedded.tds.clients import PASSWORD, USER, Clients, fetch
from tests.embedded.tds.scripted import Items, ScriptedEngine, ScriptedSession, rows_of
from tests.embedded.tds.test_attention import never_ends, stalls


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, "it did not come true within ten seconds"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _answers(engine: ScriptedEngine) -> None:
    engine.select("SELECT 1", [("x", SqlType("int"))], [(1,)])


@pytest.fixture
def pooled() -> Iterator[None]:
    """Pooling is a switch of the whole process, which other tests turn off."""
    mssql_python.pooling(enabled=True)
    yield
    mssql_python.pooling(enabled=False)


@pytest.mark.usefixtures("pooled")
def test_a_pooled_connection_is_reset_before_its_next_life(engine: ScriptedEngine, clients: Clients) -> None:
    first = clients.mssql_python()
    assert fetch(first, "SELECT 1") == [(1,)]
    first.close()
    second = clients.mssql_python()
    assert fetch(second, "SELECT 1") == [(1,)]
    assert len(engine.sessions) == 1
    texts = engine.texts()
    assert "<reset>" in texts[texts.index("SELECT 1") :]


def test_a_session_ends_with_its_connection(
    engine: ScriptedEngine, listener: Listener, clients: Clients
) -> None:
    connection = clients.pymssql()
    fetch(connection, "SELECT 1")
    assert (listener.connections, engine.sessions[0].closed) == (1, False)
    connection.close()
    wait_for(lambda: listener.connections == 0)
    assert engine.sessions[0].closed


def test_fifty_clients_at_once_have_fifty_sessions(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["SELECT @@SPID"] = lambda session, _: iter(
        [rows_of([("x", SqlType("int"))], [(session.session_id,)])]
    )
    found: list[int] = []
    connections = [clients.pymssql() for _ in range(50)]

    def ask(connection: Any) -> None:
        found.extend(fetch(connection, "SELECT @@SPID")[0])

    threads = [threading.Thread(target=ask, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 50


@pytest.mark.parametrize("script", [stalls, never_ends], ids=["while it runs", "while it sends"])
def test_closing_the_listener_ends_running_statements(script: Any, engine: ScriptedEngine) -> None:
    engine.scripts["SELECT slow"] = script
    listener = Listener(engine)
    with Clients(listener.port) as clients:
        connection = clients.pymssql()
        failures: list[Exception] = []

        def ask() -> None:
            try:
                fetch(connection, "SELECT slow")
            except Exception as exc:  # noqa: BLE001 - each driver has its own
                failures.append(exc)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(lambda: "SELECT slow" in engine.texts())
        started = time.monotonic()
        listener.close()
        assert time.monotonic() - started < 3
        thread.join()
    assert failures
    assert (listener.connections, engine.sessions[0].closed) == (0, True)


def test_a_closed_listener_accepts_nobody(engine: ScriptedEngine) -> None:
    listener = Listener(engine)
    listener.close()
    listener.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", listener.port), 2)


def test_a_replica_is_a_second_listener_that_says_its_name() -> None:
    names: list[str | None] = []

    class Naming(ScriptedEngine):
        def login(
            self, user: str, password: str, database: str, *, replica: str | None = None
        ) -> ScriptedSession:
            names.append(replica)
            return super().login(user, password, database)

    engine = Naming()
    with Listener(engine) as primary, Listener(engine, replica="behind") as replica:
        for listener in (primary, replica):
            with Clients(listener.port) as clients:
                clients.pymssql()
    assert names == [None, "behind"]


# -- strangers and clients that vanish, by hand ------------------------------------------------------------


def packet(kind: int, body: bytes, status: int = 1) -> bytes:
    return bytes([kind, status]) + (len(body) + 8).to_bytes(2, "big") + bytes(4) + body


PRELOGIN = packet(0x12, b"\x01\x00\x06\x00\x01\xff\x02")


def login7(*, version: int = 0x74000004, type_flags: int = 0, flags2: int = 0) -> bytes:
    """A LOGIN7 message as section 2.2.6.4 lays it out, without extensions."""
    scrambled = bytes(((b << 4 | b >> 4) & 0xFF) ^ 0xA5 for b in PASSWORD.encode("utf-16-le"))
    values = [b"", USER.encode("utf-16-le"), scrambled, *[b""] * 5, "db".encode("utf-16-le")]
    pairs, data = b"", b""
    for value in values:
        pairs += (94 + len(data)).to_bytes(2, "little") + (len(value) // 2).to_bytes(2, "little")
        data += value
    head = version.to_bytes(4, "little") + bytes(16) + bytes([0, flags2, type_flags, 0]) + bytes(8)
    rest = head + pairs + bytes(94 - 4 - len(head) - len(pairs)) + data
    return (len(rest) + 4).to_bytes(4, "little") + rest


@pytest.fixture
def raw(listener: Listener) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", listener.port), 5) as sock:
        yield sock


def logged_in(sock: socket.socket) -> socket.socket:
    sock.sendall(PRELOGIN)
    assert sock.recv(4096)
    sock.sendall(packet(0x10, login7()))
    assert b"\xad" in sock.recv(4096)
    return sock


def batch(sql: str) -> bytes:
    return packet(1, b"\x04\x00\x00\x00" + sql.encode("utf-16-le"))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x12\x01\x00\x03\x00\x00\x00\x00",
        packet(0x10, b"\x00" * 20),
        PRELOGIN + packet(0x10, b"\x00" * 20),
        PRELOGIN + packet(0x01, b""),
        packet(0x12, b"\x01\x00"),
        b"\x12",
    ],
)
def test_a_stranger_is_shown_the_door(data: bytes, raw: socket.socket, listener: Listener) -> None:
    raw.sendall(data)
    raw.shutdown(socket.SHUT_WR)
    while raw.recv(4096):
        pass
    wait_for(lambda: listener.connections == 0)


def test_a_client_without_tls_is_not_let_in_where_it_is_required(engine: ScriptedEngine) -> None:
    with Listener(engine, tls="required") as listener:
        with socket.create_connection(("127.0.0.1", listener.port), 5) as sock:
            sock.sendall(PRELOGIN)
            assert sock.recv(4096)[-3:-1]
            sock.sendall(packet(0x10, login7()))
            assert sock.recv(4096) == b""
        assert engine.sessions == []


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (login7(version=0x71000001), "TDS 7.4 only"),
        (login7(flags2=0x80), "SQL Server logins only"),
    ],
)
def test_a_login_that_cannot_be_served_is_told_why(login: bytes, words: str, raw: socket.socket) -> None:
    raw.sendall(PRELOGIN)
    raw.recv(4096)
    raw.sendall(packet(0x10, login))
    assert words.encode("utf-16-le") in raw.recv(4096)
    assert raw.recv(4096) == b""


def test_a_client_that_vanishes_while_rows_are_sent_leaves_nothing_behind(
    engine: ScriptedEngine, listener: Listener, raw: socket.socket
) -> None:
    engine.scripts["SELECT endless"] = never_ends
    logged_in(raw).sendall(batch("SELECT endless"))
    assert raw.recv(100_000)
    raw.close()
    wait_for(lambda: listener.connections == 0)
    assert engine.sessions[0].closed
    assert not [t for t in threading.enumerate() if t.name in ("tds-connection", "tds-inbox")]


def test_a_client_that_vanishes_while_a_statement_runs_cancels_it(
    engine: ScriptedEngine, listener: Listener, raw: socket.socket
) -> None:
    engine.scripts["SELECT slow"] = stalls
    logged_in(raw).sendall(batch("SELECT slow"))
    wait_for(lambda: "SELECT slow" in engine.texts())
    raw.close()
    wait_for(lambda: listener.connections == 0)
    assert engine.sessions[0].closed


def test_a_client_that_does_not_read_is_waited_for_until_the_listener_closes(
    engine: ScriptedEngine,
) -> None:
    engine.scripts["SELECT endless"] = never_ends
    listener = Listener(engine)
    with socket.create_connection(("127.0.0.1", listener.port), 5) as sock:
        logged_in(sock).sendall(batch("SELECT endless"))
        time.sleep(0.3)
        started = time.monotonic()
        listener.close()
        assert time.monotonic() - started < 3
    assert engine.sessions[0].closed


def test_an_attention_without_a_statement_is_answered(raw: socket.socket) -> None:
    logged_in(raw).sendall(packet(6, b""))
    assert raw.recv(4096)[8:] == b"\xfd\x20\x00" + bytes(10)


def test_an_attention_right_behind_its_statement_ends_it(engine: ScriptedEngine, raw: socket.socket) -> None:
    engine.scripts["SELECT slow"] = stalls
    sock = logged_in(raw)
    started = time.monotonic()
    for _ in range(20):
        sock.sendall(batch("SELECT slow") + packet(6, b""))
        assert b"\xfd\x20\x00" in sock.recv(4096)
        sock.sendall(batch("SELECT 1"))
        assert sock.recv(4096)[8] == 0x81
    assert time.monotonic() - started < 5


def test_a_request_that_the_client_takes_back_is_not_run(engine: ScriptedEngine, raw: socket.socket) -> None:
    taken_back = bytearray(batch("DELETE"))
    taken_back[1] = 3
    logged_in(raw).sendall(bytes(taken_back))
    assert raw.recv(4096)[8:10] == b"\xfd\x02"
    assert "DELETE" not in engine.texts()


def test_a_kind_of_request_that_is_not_spoken_ends_the_connection(
    listener: Listener, raw: socket.socket
) -> None:
    logged_in(raw).sendall(packet(7, b"bulk load"))
    assert raw.recv(4096) == b""
    wait_for(lambda: listener.connections == 0)


def test_requests_in_small_packets_are_put_together(engine: ScriptedEngine, raw: socket.socket) -> None:
    body = b"\x04\x00\x00\x00" + "SELECT 1".encode("utf-16-le")
    sock = logged_in(raw)
    for at in range(0, len(body), 3):
        last = at + 3 >= len(body)
        sock.sendall(packet(1, body[at : at + 3], status=int(last)))
    assert sock.recv(4096)[8] == 0x81
    assert engine.texts() == ["SELECT 1"]


def test_an_error_while_logging_in_does_not_stop_the_listener(engine: ScriptedEngine) -> None:
    class Broken(ScriptedEngine):
        def login(self, *_: Any, **__: Any) -> ScriptedSession:
            raise SqlError(4060, 'Cannot open database "db" requested by the login.', 11)

    with Listener(Broken()) as listener, Clients(listener.port) as clients:
        for _ in range(2):
            assert "4060" in clients.pymssql_refusal()
        with pytest.raises(Exception, match="Cannot open database"):
            clients.mssql_python()


def test_dropping_before_any_row_closes_the_socket(engine: ScriptedEngine, raw: socket.socket) -> None:
    def drop(_: ScriptedSession, __: Sequence[Parameter]) -> Items:
        yield RowCount(1)
        raise DropConnection

    engine.scripts["UPDATE"] = drop
    logged_in(raw).sendall(batch("UPDATE"))
    assert raw.recv(4096) == b""
