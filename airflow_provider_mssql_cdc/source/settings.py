"""How to reach a server: one value, read from an Airflow connection, that never shows its password."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from airflow_provider_mssql_cdc.errors import ConfigurationError

DEFAULT_PORT = 1433
DriverName = Literal["mssql-python", "pymssql"]
Encryption = Literal["off", "request", "require", "strict"]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """A server, a login and how long to wait for either.

    :param conn_id: the Airflow connection, for messages.
    :param host: name or address, without instance and port.
    :param instance: of ``server\\instance``; looked up by the SQL Browser service when there is no port.
    :param port: None only with an instance.
    :param database: empty for the login's default database.
    :param driver: None takes mssql-python where it is installed, else pymssql.
    :param encryption: ``off``; ``request``, what the server wants: if it insists, mssql-python checks the
        certificate and pymssql does not; ``require``, checked by both; ``strict`` (TDS 8).
    :param trust_server_certificate: take any certificate, a self-signed one too.
    :param certificate_host: a name that the certificate may have as well as the host's.
    :param login_timeout_seconds: for the TCP connection and the login.
    :param query_timeout_seconds: longest silence of the server within a statement; 0 waits for ever.
    :param lock_timeout_seconds: longest wait for a lock (error 1222); 0 waits for ever.
    :param isolation: of every session that does not name one; None is READ COMMITTED.
    :param conn_properties: statements to run after the login.
    """

    conn_id: str
    host: str
    instance: str | None = None
    port: int | None = DEFAULT_PORT
    database: str = ""
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: DriverName | None = None
    authentication: str | None = None
    encryption: Encryption = "request"
    trust_server_certificate: bool = False
    certificate_host: str | None = None
    certificate_authorities: str | None = None
    read_only: bool = False
    multi_subnet_failover: bool = False
    isolation: Literal["snapshot"] | None = None
    app_name: str | None = None
    tds_version: str | None = None
    conn_properties: tuple[str, ...] = ()
    login_timeout_seconds: int = 30
    query_timeout_seconds: int = 3600
    lock_timeout_seconds: int = 300

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigurationError(
                f"connection {self.conn_id!r} has no host: enter the server's name or address"
            )
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ConfigurationError(f"connection {self.conn_id!r}: port {self.port} does not exist")
        for value in (self.host, self.instance, self.database, self.login, self.password):
            if value is not None and "\0" in value:
                raise ConfigurationError(
                    f"connection {self.conn_id!r} holds a NUL character, which no driver takes"
                )

    @property
    def server(self) -> str:
        """``host``, ``host:port`` or ``host\\instance``, for people."""
        if self.port is not None:
            return f"{self.host}:{self.port}"
        return f"{self.host}\\{self.instance}"

    @property
    def label(self) -> str:
        """What messages call this connection: its id, the server and the database."""
        return f"{self.conn_id} ({self.server}{'/' if self.database else ''}{self.database})"
