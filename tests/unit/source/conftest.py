"""Real drivers against the embedded server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from tests.support.server_process import server_process as process_of_server

DRIVERS = ("mssql-python", "pymssql")
Settings = Callable[..., ConnectionSettings]


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


@dataclass(frozen=True)
class ServerProcess:
    """A server in a separate process, as a task meets one."""

    connection: str

    def settings(self, driver: str, **ours: Any) -> ConnectionSettings:
        return settings_from(self.connection, driver, **ours)


@contextlib.contextmanager
def server_process(folder: Path, script: str) -> Iterator[ServerProcess]:
    """Start one, run a T-SQL script in it, and end it."""
    init = folder / "init.sql"
    init.write_text(script, encoding="utf-8")
    with process_of_server("--init", str(init)) as connection:
        yield ServerProcess(connection)


def settings_from(connection: str, driver: str, **ours: Any) -> ConnectionSettings:
    """The settings that a task has of a connection's JSON; ``ours`` goes under ``mssql_cdc``."""
    fields = json.loads(connection)
    fields["extra"] = json.dumps(fields["extra"] | {"mssql_cdc": {"driver": driver, **ours}})
    return settings_of(Connection(conn_id="erp", **fields))


def settings_for(
    server: EmbeddedSqlServer, driver: str, *, login: str = "sa", password: str | None = None, **ours: Any
) -> ConnectionSettings:
    return settings_from(server.airflow_connection(login=login, password=password), driver, **ours)


@pytest.fixture
def session(server: EmbeddedSqlServer, driver: str) -> Iterator[SourceSession]:
    with SourceSession(settings_for(server, driver)) as opened:
        yield opened
