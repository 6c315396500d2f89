"""Connection settings, and the extras they are read from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_mssql_cdc.errors import ConfigurationError

DEFAULT_PORT = 1433
DriverName = Literal["mssql-python", "pymssql"]
Encryption = Literal["off", "request", "require", "strict"]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """A server, a login and the timeouts.

    :param conn_id: the Airflow connection, for messages.
    :param host: name or address, without instance and port.
    :param instance: the instance of ``server\\instance``; without a port the SQL Browser service resolves it.
    :param port: None only with an instance.
    :param database: empty for the login's default database.
    :param driver: None for mssql-python if installed, else pymssql.
    :param encryption: ``off``; ``request``, as the server decides: if it requires encryption, mssql-python
        checks the certificate and pymssql does not; ``require``, checked by both; ``strict`` (TDS 8).
    :param trust_server_certificate: accept any certificate, including self-signed ones.
    :param certificate_host: alternative name to the host's that the certificate may have.
    :param login_timeout_seconds: for the TCP connection and the login.
    :param query_timeout_seconds: longest silence of the server within a statement; 0 for no limit.
    :param lock_timeout_seconds: longest wait for a lock (error 1222); 0 for no limit.
    :param isolation: default for sessions that name none; None for READ COMMITTED.
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
        """Return the connection's name for messages: its id, the server and the database."""
        return f"{self.conn_id} ({self.server}{'/' if self.database else ''}{self.database})"


NESTED = "mssql_cdc"
"""Nested extra that held the settings of an ``mssql`` connection before the type ``mssql_cdc`` existed."""

Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, got {type(value).__name__}")
    return value


def _number(value: Any) -> int:
    """Return whole seconds; forms and URIs may store a number as a string."""
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be an integer >= 0, got {value!r}")
    return value


def _flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    try:
        return words[str(value).strip().lower()]
    except KeyError:
        raise ValueError(f"must be true or false, got {value!r}") from None


def _word(meanings: Mapping[str, Any], shown: str) -> Reader:
    """Return one of a fixed set of words, ignoring case, underscores and hyphens.

    :param shown: the allowed words, for the message.
    """

    def read(value: Any) -> Any:
        try:
            return meanings[_key(str(value).strip())]
        except KeyError:
            raise ValueError(f"must be one of {shown}, got {value!r}") from None

    return read


_DRIVERS = {"mssqlpython": "mssql-python", "pymssql": "pymssql", "mssql+pymssql": "pymssql"}
_ODBC_DRIVER = re.compile(
    r"\{?\s*(ODBC Driver \d+|SQL Server|SQL Server Native Client|FreeTDS)\b", re.IGNORECASE
)


def _driver(value: Any) -> str | None:
    """Return None for the name of an ODBC driver: it selects a driver for pyodbc, not for this package."""
    text = _text(value).strip()
    if _ODBC_DRIVER.match(text):
        return None
    if (name := _DRIVERS.get(_key(text))) is None:
        raise ValueError(f"must be one of {', '.join(sorted(set(_DRIVERS.values())))}, got {value!r}")
    return name


# ODBC's words, with the meaning that Driver 18 gives them, and FreeTDS' (docs: "encryption" in freetds.conf)
_ENCRYPTION = {
    "off": "off",
    **dict.fromkeys(("no", "optional", "request", "false", "default"), "request"),
    **dict.fromkeys(("yes", "mandatory", "require", "true"), "require"),
    "strict": "strict",
}


def _statements(value: Any) -> tuple[str, ...]:
    statements = (value,) if isinstance(value, str) else tuple(value)
    return tuple(_text(statement) for statement in statements)


# name → (field of ConnectionSettings, reader); the names are those of the connection form
_SETTINGS: dict[str, tuple[str, Reader]] = {
    "driver": ("driver", _driver),
    "encryption": ("encryption", _word(_ENCRYPTION, "off, request, require, strict")),
    "trust_server_certificate": ("trust_server_certificate", _flag),
    "certificate_authorities": ("certificate_authorities", _text),
    "certificate_host": ("certificate_host", _text),
    "authentication": ("authentication", _text),
    "application_intent": (
        "read_only",
        _word({"readonly": True, "readwrite": False}, "ReadOnly, ReadWrite"),
    ),
    "multi_subnet_failover": ("multi_subnet_failover", _flag),
    "isolation": (
        "isolation",
        _word({"snapshot": "snapshot", "readcommitted": None}, "snapshot, read committed"),
    ),
    "login_timeout_seconds": ("login_timeout_seconds", _number),
    "query_timeout_seconds": ("query_timeout_seconds", _number),
    "lock_timeout_seconds": ("lock_timeout_seconds", _number),
    "app_name": ("app_name", _text),
    "tds_version": ("tds_version", _text),
    "conn_properties": ("conn_properties", _statements),
}

# other spellings of the same, as pymssql, ODBC and Airflow's mssql provider (its pull request 74539) have
# them; those that differ by case and underscores alone need no line
_SPELLINGS: dict[str, tuple[str, Reader]] = {
    "dbapi_driver": _SETTINGS["driver"],
    "encrypt": _SETTINGS["encryption"],
    "host_name_in_certificate": _SETTINGS["certificate_host"],
    "server_certificate": _SETTINGS["certificate_authorities"],
    "read_only": ("read_only", _flag),
    "timeout": _SETTINGS["query_timeout_seconds"],
    "query_timeout": _SETTINGS["query_timeout_seconds"],
    "login_timeout": _SETTINGS["login_timeout_seconds"],
    "connection_timeout": _SETTINGS["login_timeout_seconds"],
    "connect_timeout": _SETTINGS["login_timeout_seconds"],
    "appname": _SETTINGS["app_name"],
    "app": _SETTINGS["app_name"],
    "application_name": _SETTINGS["app_name"],
}

# what other hooks and drivers read, and a read of ours does not
_PASSED_OVER = frozenset(
    "sqlalchemy_scheme charset autocommit as_dict arraysize use_datetime2 placeholder "
    "insert_statement_format replace_statement_format escape_word_format escape_column_names "
    "connect_kwargs mars_connection connect_retry_count connect_retry_interval".split()
)

_CONNECT_ARGUMENTS = frozenset(
    "encryption timeout login_timeout read_only appname tds_version conn_properties charset autocommit "
    "as_dict arraysize use_datetime2".split()
)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


_BY_KEY = {_key(name): setting for name, setting in (_SETTINGS | _SPELLINGS).items()}
_PASSED_OVER_KEYS = frozenset(map(_key, _PASSED_OVER))


def read_extras(extras: Mapping[str, Any], *, conn_id: str) -> dict[str, Any]:
    """Return fields of :class:`~.settings.ConnectionSettings`; values under ``mssql_cdc`` take precedence.

    :raises ConfigurationError: names every extra that is unknown, unusable, or given twice with different
        values; never shows the value of an unknown one.
    """
    nested = extras.get(NESTED) or {}
    problems: list[str] = []
    if not isinstance(nested, Mapping):
        problems.append(f"{NESTED} must be a JSON object, got {type(nested).__name__}")
        nested = {}
    flat = {name: value for name, value in extras.items() if name != NESTED}
    fields = _fields(flat, problems, prefix="") | _fields(nested, problems, prefix=f"{NESTED}.")
    if problems:
        raise ConfigurationError(f"connection {conn_id!r}, extra: " + "; ".join(problems))
    return fields


def pymssql_extras(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras that are ``pymssql.connect`` arguments; ours and SQLAlchemy's are removed."""
    return {name: value for name, value in extras.items() if name in _CONNECT_ARGUMENTS}


def foreign_to_mssql_hook(extras: Mapping[str, Any]) -> list[str]:
    """Return extras that ``MsSqlHook`` would pass to ``pymssql.connect``, which does not accept them."""
    return sorted(set(extras) - _CONNECT_ARGUMENTS - {"sqlalchemy_scheme"})


def _fields(given: Mapping[str, Any], problems: list[str], *, prefix: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    named: dict[str, str] = {}
    for name, setting, value in _read(given, problems, prefix=prefix):
        if setting in fields and fields[setting] != value:
            problems.append(f"{prefix}{named[setting]} and {name} name one setting and differ: keep one")
        fields[setting] = value
        named[setting] = name
    return fields


def _read(given: Mapping[str, Any], problems: list[str], *, prefix: str) -> Iterator[tuple[str, str, Any]]:
    for name, value in given.items():
        setting = _BY_KEY.get(_key(name))
        if setting is None:
            if _key(name) not in _PASSED_OVER_KEYS:
                problems.append(f"{prefix}{name} is not known (known: {', '.join(sorted(_SETTINGS))})")
            continue
        if value is None or value == "":  # a form field that was left empty
            continue
        field, read = setting
        try:
            read_value = read(value)
        except (ValueError, TypeError) as exc:
            problems.append(f"{prefix}{name} {exc}")
            continue
        if read_value is not None:
            yield name, field, read_value
