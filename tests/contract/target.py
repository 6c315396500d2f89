"""A server under contract: how it is reached, what it can do, and a separate database on it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow.sdk import Connection

from airflow_provider_mssql_cdc.errors import MssqlCdcError
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.statement import Statement, quote_identifier

VARIABLE = "MSSQL_CDC_TEST_CONN"
DRIVERS = ("mssql-python", "pymssql")


def named_connection() -> str | None:
    """The connection of the server that the environment names, JSON or URI."""
    return os.environ.get(VARIABLE) or None


def parsed(text: str) -> Connection:
    """An Airflow connection from the two forms that ``AIRFLOW_CONN_*`` variables take."""
    if text.lstrip().startswith("{"):
        fields = json.loads(text)
        extra = fields.pop("extra", None)
        fields["extra"] = extra if isinstance(extra, str) or extra is None else json.dumps(extra)
        return Connection(conn_id="contract", **fields)
    return Connection.from_uri(text, conn_id="contract")


@dataclass
class Target:
    """One server; ``name`` is for people, nothing is decided by it."""

    name: str
    connection: Connection
    database: str = field(default_factory=lambda: f"mssql_cdc_contract_{secrets.token_hex(4)}")

    @contextmanager
    def session(
        self,
        driver: str,
        *,
        database: str | None = None,
        isolation: str | None = None,
        login: tuple[str, str] | None = None,
    ) -> Iterator[SourceSession]:
        """A session as a task would have it, in the suite's own database unless another is named."""
        extra = dict(self.connection.extra_dejson)
        extra["mssql_cdc"] = {**(extra.get("mssql_cdc") or {}), "driver": driver}
        name, password = login or (self.connection.login, self.connection.password)
        connection = Connection(
            conn_id="contract",
            conn_type="mssql",
            host=self.connection.host,
            port=self.connection.port,
            login=name,
            password=password,
            schema=database or self.database,
            extra=json.dumps(extra),
        )
        with SourceSession(settings_of(connection), isolation=isolation) as session:
            yield session

    def run(self, *statements: str, driver: str = "pymssql", database: str | None = None) -> None:
        """DDL and DML, each a separate batch; percent signs are literal."""
        with self.session(driver, database=database) as session:
            for text in statements:
                session.execute(Statement(text.replace("%", "%%")))

    def rows(self, text: str, parameters: Mapping[str, str | int] | None = None) -> list[dict[str, Any]]:
        """The rows of a query, through pymssql, which every server of this suite has to speak to."""
        with self.session("pymssql") as session:
            return session.rows(
                Statement(text.replace("%", "%%") if parameters is None else text, parameters or {})
            )

    def create_database(self) -> None:
        self.run(f"CREATE DATABASE {quote_identifier(self.database)}", database="master")

    def drop_database(self) -> None:
        self.run(f"DROP DATABASE {quote_identifier(self.database)}", database="master")

    def why_not(self, *statements: str) -> str | None:
        """None when the server runs these, else its own words."""
        try:
            self.run(*statements)
        except MssqlCdcError as exc:
            return str(exc)
        return None

    @cached_property
    def no_cdc(self) -> str | None:
        """Why there is no change data capture here; None when there is, and it is on then."""
        return self.why_not("EXEC sys.sp_cdc_enable_db")

    @cached_property
    def no_snapshot_isolation(self) -> str | None:
        name = quote_identifier(self.database)
        return self.why_not(f"ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON")

    @cached_property
    def no_seventh_digit(self) -> str | None:
        """Why datetime2(7) loses its last digit here; None when it keeps it."""
        text = "SELECT CONVERT(varchar(27), CAST('2024-02-29T23:59:59.1234567' AS datetime2(7)), 121) AS t"
        try:
            kept = self.rows(text)[0]["t"]
        except MssqlCdcError as exc:
            return str(exc)
        return None if kept.endswith(".1234567") else f"datetime2(7) comes back as {kept}"

    @cached_property
    def no_utf8_collation(self) -> str | None:
        return self.why_not(
            "CREATE TABLE dbo.probe_utf8 (t varchar(10) COLLATE Latin1_General_100_CI_AS_SC_UTF8 NULL)",
            "DROP TABLE dbo.probe_utf8",
        )

    @cached_property
    def no_logins(self) -> str | None:
        name = f"probe_{secrets.token_hex(4)}"
        return self.why_not(
            f"CREATE LOGIN {name} WITH PASSWORD = 'Probe-1-{name}'",
            f"CREATE USER {name} FOR LOGIN {name}",
            f"DROP USER {name}",
            f"DROP LOGIN {name}",
        )

    @cached_property
    def no_bracket_in_names(self) -> str | None:
        return self.why_not(
            "CREATE TABLE dbo.[probe]]name] ([a]]b] int NOT NULL)", "DROP TABLE dbo.[probe]]name]"
        )

    @cached_property
    def no_names_of_indexes(self) -> str | None:
        """Why the catalog calls an index otherwise than CREATE did; None when it keeps the name."""
        problem = self.why_not(
            "CREATE TABLE dbo.probe_index (a int NOT NULL, CONSTRAINT probe_key PRIMARY KEY (a))"
        )
        if problem is not None:
            return problem
        shown = self.rows(
            "SELECT i.name FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID('dbo.probe_index')"
        )
        self.run("DROP TABLE dbo.probe_index")
        names = [row["name"] for row in shown]
        return None if names == ["probe_key"] else f"the constraint probe_key is shown as {names}"

    def cuts_without_an_error(self, declared: str, target_type: str, value: str) -> str | None:
        """Why a branch of CASE that has to fail does not fail here; None when it does."""
        failing = (
            f"CAST(CAST(N'no number: ' + CAST(DATALENGTH(p.v) AS nvarchar(20)) AS int) AS {target_type})"
        )
        problem = self.why_not(
            f"SELECT CASE WHEN DATALENGTH(p.v) > 1 THEN {failing} ELSE CAST(p.v AS {target_type}) END AS v "
            f"FROM (SELECT CAST({value} AS {declared}) AS v) AS p"
        )
        return None if problem else f"a text that is no number can be cast to int and {target_type} here"
