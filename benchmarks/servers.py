"""The server that is measured: the embedded one in a separate process, or the one that is named."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Connection

from airflow_provider_mssql_cdc.errors import MssqlCdcError
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from tests.contract.target import VARIABLE, Target, named_connection, parsed
from tests.support.server_process import server_process

DROP_WITHIN_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Server:
    """A server and a database on it that this run may fill.

    :param name: for people.
    :param no_cdc: why it has no change data capture, in its own words; None when it has.
    """

    name: str
    target: Target
    no_cdc: str | None

    @property
    def database(self) -> str:
        return self.target.database

    def connection(self, driver: str | None = None) -> Connection:
        """An Airflow connection to the database, as a task would find it."""
        given = self.target.connection
        extra: dict[str, Any] = dict(given.extra_dejson)
        if driver is not None:
            extra["mssql_cdc"] = {**(extra.get("mssql_cdc") or {}), "driver": driver}
        return Connection(
            conn_id="bench",
            conn_type="mssql",
            host=given.host,
            port=given.port,
            login=given.login,
            password=given.password,
            schema=self.database,
            extra=json.dumps(extra),
        )

    def settings(self, driver: str | None = None) -> ConnectionSettings:
        return settings_of(self.connection(driver))

    def session(self, driver: str | None = None) -> SourceSession:
        """Not open yet; a job opens it."""
        return SourceSession(self.settings(driver))

    def run(self, *statements: str) -> None:
        """DDL and DML, each a separate batch."""
        self.target.run(*statements)

    def to_json(self) -> str:
        """For a child process, through its standard input: it holds the password."""
        given = self.target.connection
        fields = {
            "conn_type": "mssql",
            "host": given.host,
            "port": given.port,
            "login": given.login,
            "password": given.password,
            "extra": given.extra,
        }
        return json.dumps(
            {
                "name": self.name,
                "database": self.database,
                "connection": json.dumps(fields),
                "no_cdc": self.no_cdc,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Server:
        fields = json.loads(text)
        target = Target(fields["name"], parsed(fields["connection"]), fields["database"])
        return cls(fields["name"], target, fields["no_cdc"])


@contextmanager
def measured_server() -> Iterator[Server]:
    """The named server when the environment names one, else the embedded one; with an empty database."""
    if (text := named_connection()) is not None:
        with with_database(Target(VARIABLE, parsed(text))) as server:
            yield server
        return
    with server_process() as connection, with_database(Target("embedded", parsed(connection))) as server:
        yield server


@contextmanager
def with_database(target: Target) -> Iterator[Server]:
    target.database = target.database.replace("contract", "bench")
    target.create_database()
    try:
        yield Server(target.name, target, target.no_cdc)
    finally:
        _drop(target)


def _drop(target: Target) -> None:
    """A server may hold a database in use for a moment after the last connection was closed."""
    deadline = time.monotonic() + DROP_WITHIN_SECONDS
    while True:
        try:
            target.drop_database()
        except MssqlCdcError as exc:
            if time.monotonic() > deadline:
                print(f"the database {target.database} is left behind: {exc}", file=sys.stderr)
                return
            time.sleep(0.5)
        else:
            return
