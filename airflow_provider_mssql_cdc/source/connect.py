"""Convert settings to each driver's arguments: certificates, and the session options set after login."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from airflow_provider_mssql_cdc.errors import ConfigurationError, PermanentError
from airflow_provider_mssql_cdc.source.settings import (
    DEFAULT_PORT,
    ConnectionSettings,
    DriverName,
    read_extras,
)
from airflow_provider_mssql_cdc.tsql import session as statements
from airflow_provider_mssql_cdc.tsql.session import SessionState
from airflow_provider_mssql_cdc.tsql.statement import Statement

log = logging.getLogger(__name__)


@contextlib.contextmanager
def trusted_by_odbc(settings: ConnectionSettings) -> Iterator[None]:
    """Return the certificate authorities that the connection names, in place of the system's."""
    if settings.certificate_authorities is None:
        yield
        return
    with _environment("SSL_CERT_FILE", _readable(settings.certificate_authorities, settings)):
        yield


@contextlib.contextmanager
def trusted_by_freetds(settings: ConnectionSettings) -> Iterator[None]:
    """Check certificate and host name when encryption is required; by default FreeTDS checks neither.

    With ``request`` nothing is checked, and the server's offer to encrypt is not verified either.
    """
    if settings.encryption != "require" or settings.trust_server_certificate:
        yield
        return
    authorities = settings.certificate_authorities or ssl.get_default_verify_paths().cafile
    if authorities is None:
        raise ConfigurationError(
            f"connection {settings.conn_id!r} requires encryption and this machine has no list of "
            "authorities: name one in certificate_authorities"
        )
    with tempfile.TemporaryDirectory(prefix="mssql-cdc-") as folder:
        file = Path(folder) / "freetds.conf"
        checks = f"ca file = {_readable(authorities, settings)}\ncheck certificate hostname = yes"
        file.write_text(f"[global]\n{checks}\n")
        with _environment("FREETDSCONF", str(file)):
            yield


def _readable(path: str, settings: ConnectionSettings) -> str:
    if not Path(path).is_file() or "\n" in path:
        raise ConfigurationError(
            f"connection {settings.conn_id!r}: certificate_authorities names {path!r}: there is no such file"
        )
    return path


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


CONNECTION_TYPE = "mssql_cdc"
CONNECTION_TYPES = (CONNECTION_TYPE, "mssql")
_FASTER = 'pip install "airflow-provider-mssql-cdc[mssql-python]"'
_said_once = threading.Event()


class AirflowConnection(Protocol):
    """The fields of ``airflow.sdk.Connection`` that describe a SQL Server."""

    conn_id: str
    conn_type: str | None
    host: str | None
    login: str | None
    password: str | None
    schema: str | None
    port: int | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


def settings_of(connection: AirflowConnection, *, database: str | None = None) -> ConnectionSettings:
    """Read an Airflow connection of type ``mssql_cdc`` or ``mssql``; the default port is 1433.

    :param database: overrides the connection's "Database" field.
    :raises ConfigurationError: the connection has another type, or unusable fields; names them.
    """
    refuse_other_types(connection)
    host, _, instance = (connection.host or "").strip().partition("\\")
    port = connection.port or (None if instance else DEFAULT_PORT)
    return ConnectionSettings(
        conn_id=connection.conn_id,
        host={".": "localhost", "(local)": "localhost"}.get(host, host),
        instance=instance or None,
        port=port,
        database=database or connection.schema or "",
        login=connection.login or None,
        password=connection.password or None,
        **read_extras(connection.extra_dejson, conn_id=connection.conn_id),
    )


def refuse_other_types(connection: AirflowConnection) -> None:
    """Raise ConfigurationError unless the connection is to a SQL Server.

    A mistyped connection id would otherwise send a login to the host of another database.
    """
    if connection.conn_type not in CONNECTION_TYPES:
        raise ConfigurationError(
            f"connection {connection.conn_id!r} must be of type mssql_cdc (or mssql), got "
            f"{connection.conn_type or 'no type'}: check mssql_conn_id, or change the connection's type"
        )


def odbc_connection_string(settings: ConnectionSettings) -> str:
    """Return the connection string of ODBC Driver 18; values are braced and ``}`` doubled ([MS-ODBCSTR])."""
    encrypt = {"off": "no", "request": "no", "require": "yes", "strict": "strict"}[settings.encryption]
    keywords = {
        "Server": _odbc_server(settings),
        "Database": settings.database,
        "UID": settings.login,
        "PWD": settings.password,
        "Authentication": settings.authentication,
        "Encrypt": encrypt,
        "TrustServerCertificate": "yes" if settings.trust_server_certificate else "no",
        "HostnameInCertificate": settings.certificate_host,
        "ApplicationIntent": "ReadOnly" if settings.read_only else None,
        "MultiSubnetFailover": "yes" if settings.multi_subnet_failover else None,
        # A read that continues over a second connection would no longer be the one that asked now().
        "ConnectRetryCount": "0",
    }
    return ";".join(f"{name}={_braced(value)}" for name, value in keywords.items() if value)


def _odbc_server(settings: ConnectionSettings) -> str:
    if settings.port is None:
        return f"{settings.host}\\{settings.instance}"
    return f"tcp:{settings.host},{settings.port}"


def _braced(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


def pymssql_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the arguments of ``pymssql.connect`` for a read: autocommit, UTF-8.

    :raises ConfigurationError: a setting that only mssql-python supports.
    """
    if settings.encryption == "strict":
        raise ConfigurationError(_only_mssql_python(settings, "encryption: strict"))
    if settings.certificate_host is not None:
        raise ConfigurationError(_only_mssql_python(settings, "certificate_host"))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    arguments: dict[str, Any] = {
        "server": host if settings.port is not None else f"{host}\\{settings.instance}",
        "port": str(settings.port or DEFAULT_PORT),
        "user": settings.login,
        "password": settings.password,
        "database": settings.database,
        "autocommit": True,
        "charset": "UTF-8",
        "login_timeout": settings.login_timeout_seconds,
        "timeout": settings.query_timeout_seconds,
        "encryption": settings.encryption,
        "read_only": settings.read_only,
        "appname": settings.app_name,
        "tds_version": settings.tds_version,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _only_mssql_python(settings: ConnectionSettings, what: str) -> str:
    return f"connection {settings.conn_id!r} sets {what}, which pymssql has not: {_FASTER}, or take it out"


def choose_driver(settings: ConnectionSettings) -> DriverName:
    """Return the driver for a session: the requested one, else the fastest that is installed.

    :raises ConfigurationError: the connection requires mssql-python and it cannot be used.
    """
    if settings.driver == "pymssql":
        return "pymssql"
    problem = _problem_with_mssql_python()
    if problem is None:
        return "mssql-python"
    if settings.driver == "mssql-python" or settings.authentication:
        asked = "driver mssql-python" if settings.driver else "authentication, which only mssql-python has,"
        raise ConfigurationError(f"connection {settings.conn_id!r} asks for {asked} but {problem}")
    if not _said_once.is_set():
        _said_once.set()
        log.info("Reading with pymssql; mssql-python uses about a tenth of its CPU per cell: %s", _FASTER)
        if "not installed" not in problem:
            log.warning("mssql-python is installed and not used: %s", problem)
    return "pymssql"


def _problem_with_mssql_python() -> str | None:
    try:
        importlib.import_module("mssql_python")
    except ModuleNotFoundError:
        return f"it is not installed: {_FASTER}"
    except (ImportError, OSError, RuntimeError) as exc:
        return (
            f"it cannot be loaded ({exc}); its ODBC driver needs libltdl7, libkrb5-3 and libgssapi-krb5-2 "
            "from the system's packages"
        )
    return None


_SETTING = "setting the session up"


class Session(Protocol):
    """The part of :class:`~.session.SourceSession` that this module needs."""

    @property
    def settings(self) -> ConnectionSettings: ...

    def rows(self, statement: Statement, *, doing: str = ...) -> list[dict[str, Any]]: ...

    def execute(self, statement: Statement, *, doing: str = ...) -> None: ...


def state_session(session: Session) -> SessionState:
    """Set the session options in one round trip; one by one on an engine that does not know all of them.

    Returns the session's state after checking it.

    :raises ConfigurationError: an option that results depend on is not in effect although it was set.
    :raises StatementFailed: the server does not support an option that results depend on.
    """
    seconds = session.settings.lock_timeout_seconds
    milliseconds = seconds * 1000 if seconds else -1
    try:
        (row,) = session.rows(statements.set_up(milliseconds), doing=_SETTING)
    except PermanentError as exc:
        row = _one_by_one(session, milliseconds, why=exc)
    state = SessionState.of(row)
    _judge(session, state)
    return state


def _one_by_one(session: Session, lock_timeout_ms: int, *, why: PermanentError) -> dict[str, Any]:
    """Set options one by one: required ones must succeed; missing others are logged.

    Engines report a missing feature by different errors, for instance a refused cast.
    """
    missing = [
        text
        for text in (*statements.STATED, statements.set_lock_timeout(lock_timeout_ms).text)
        if not _taken(session, Statement(text))
    ]
    session.execute(statements.needed_settings(), doing=_SETTING)
    row: dict[str, Any] = {}
    for question in (
        statements.globals_in_effect(),
        statements.options_in_effect(),
        statements.levels_in_effect(),
        statements.texts_in_effect(),
    ):
        try:
            row.update(*session.rows(question, doing=_SETTING)[:1])
        except PermanentError:
            missing.append(question.text)
    log.warning(
        "%s: this server does not support all session options (%s). Missing: %s",
        session.settings.label,
        why,
        "; ".join(missing) or "nothing when asked one by one",
    )
    return row


def _taken(session: Session, statement: Statement) -> bool:
    try:
        session.execute(statement, doing=_SETTING)
    except PermanentError:
        return False
    return True


def _judge(session: Session, state: SessionState) -> None:
    if wrong := state.wrong():
        raise ConfigurationError(
            f"{session.settings.label}: the session was set up, and then {'; '.join(wrong)}: take the "
            "opposite out of conn_properties, or ask who limits it on the server (a logon trigger, a proxy)"
        )
    if other := state.other():
        log.warning(
            "%s: the server accepted these settings but does not report them as set: %s",
            session.settings.label,
            ", ".join(other),
        )
    if state.utf16 != 1:
        log.warning(
            "%s: this server does not cast texts to their UTF-16 units, so they are read as it and the "
            "driver give them: half of a surrogate pair would not be noticed",
            session.settings.label,
        )
