"""A server that cannot be reached is told apart by its own words, before a driver spends its timeout."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConnectionBroken, MssqlCdcError, ServerUnreachable
from airflow_provider_mssql_cdc.source.driver_thread import reason_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.unit.source.conftest import settings_for

_ONE = Statement("SELECT 1 AS one")
READ_NOTHING_YET = ("what was being read", "connection is gone")


def to(host: str, port: int | None = 1433, **fields: Any) -> ConnectionSettings:
    return ConnectionSettings("erp", host, port=port, login="etl", password="secret", **fields)


def opened(settings: ConnectionSettings) -> MssqlCdcError:
    """What opening a session says."""
    with pytest.raises(MssqlCdcError) as caught:
        SourceSession(settings).open()
    assert not [words for words in READ_NOTHING_YET if words in str(caught.value)]
    assert "secret" not in str(caught.value)
    return caught.value


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture
def not_sql_server() -> Iterator[int]:
    """Something that answers every client with a line of text and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                client.sendall(b"220 mail.internal ESMTP\r\n")
                client.close()

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_a_port_that_refuses_is_named_and_tried_again_without_waiting_for_the_login_timeout(
    driver: str, closed_port: int
) -> None:
    began = time.monotonic()
    error = opened(to("127.0.0.1", closed_port, driver=driver, login_timeout_seconds=600))
    assert time.monotonic() - began < 300
    assert type(error) is ServerUnreachable
    assert error.retryable
    assert f"nothing listens on 127.0.0.1:{closed_port} (refused)" in str(error)
    assert "The task tries again" in str(error)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".invalid", "two..dots", "blank in it"])
@pytest.mark.parametrize("fields", [{}, {"port": None, "instance": "erp"}, {"multi_subnet_failover": True}])
def test_a_name_without_an_address_is_named(driver: str, host: str, fields: dict[str, Any]) -> None:
    error = opened(replace(to(host, driver=driver, login_timeout_seconds=600), **fields))
    assert type(error) is ServerUnreachable
    assert f"{host} is not known" in str(error)
    assert "Check the host" in str(error)


def test_something_else_that_listens_there_is_not_a_broken_read(driver: str, not_sql_server: int) -> None:
    error = opened(to("127.0.0.1", not_sql_server, driver=driver, login_timeout_seconds=5))
    assert "may not be a SQL Server" in str(error) or "is not a SQL Server" in str(error)
    assert f"127.0.0.1:{not_sql_server}" in str(error)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "nothing listens on db:1433 (refused)"),
        (OSError(errno.ENETUNREACH, "x"), "there is no route to db:1433"),
        (OSError(errno.EHOSTUNREACH, "x"), "there is no route to db:1433"),
        (TimeoutError("timed out"), "db:1433 did not answer within 15 s"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "db:1433 did not answer within 15 s"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "db is not known"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), "db is not known"),
        (OSError(errno.EACCES, "Permission denied"), "db:1433 cannot be reached (Permission denied)"),
    ],
)
def test_each_reason_has_its_own_words(error: OSError, said: str) -> None:
    assert reason_of(error, to("db")).startswith(said)


def test_a_short_login_timeout_is_the_longest_wait_for_a_packet() -> None:
    assert "within 3 s" in reason_of(TimeoutError(), to("db", login_timeout_seconds=3))
    assert "within 15 s" in reason_of(TimeoutError(), to("db", login_timeout_seconds=0))


def test_a_connection_that_breaks_after_it_was_made_is_told_as_before(
    server: EmbeddedSqlServer, driver: str
) -> None:
    with SourceSession(settings_for(server, driver)) as session:
        server.drop_connections()
        with pytest.raises(ConnectionBroken, match="connection is gone; what was being read") as caught:
            session.value(_ONE)
    assert not isinstance(caught.value, ServerUnreachable)
