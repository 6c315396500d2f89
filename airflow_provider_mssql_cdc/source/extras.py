"""Connection extras, read by name: pymssql's own beside ours, everything else is refused.

Airflow's ``MsSqlHook`` hands every extra to ``pymssql.connect``, so a connection that works there holds
pymssql's names. Ours live together under one key, ``mssql_cdc``, and are taken out before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError

OURS = "mssql_cdc"

Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("is a text that is not empty")
    return value


def _number(value: Any) -> int:
    """Whole seconds and the like; Airflow's form fields store numbers as text."""
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("is a whole number, zero or above")
    return value


def _flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    try:
        return words[str(value).strip().lower()]
    except KeyError:
        raise ValueError("is true or false") from None


def _one_of(*known: str) -> Reader:
    def read(value: Any) -> str:
        if value not in known:
            raise ValueError(f"is one of {', '.join(known)}")
        return str(value)

    return read


def _encrypt(value: Any) -> str:
    """ODBC's words and pymssql's for the same four things."""
    words = {"off": "off", "no": "request", "optional": "request", "request": "request", "false": "request"}
    words |= {
        "yes": "require",
        "mandatory": "require",
        "require": "require",
        "true": "require",
        "strict": "strict",
    }
    try:
        return words[str(value).strip().lower()]
    except KeyError:
        raise ValueError("is one of off, request, require, strict") from None


def _statements(value: Any) -> tuple[str, ...]:
    statements = (value,) if isinstance(value, str) else tuple(value)
    return tuple(_text(statement) for statement in statements)


def _ignored(value: Any) -> None:
    """Means something to pymssql's own cursors and nothing to a read of ours."""


# extra → (field of ConnectionSettings, or None when it does not touch a read, reader)
_PYMSSQL: dict[str, tuple[str | None, Reader]] = {
    "encryption": ("encryption", lambda value: "request" if value in (None, "default") else _encrypt(value)),
    "timeout": ("query_timeout_seconds", _number),
    "login_timeout": ("login_timeout_seconds", _number),
    "read_only": ("read_only", _flag),
    "appname": ("app_name", _text),
    "tds_version": ("tds_version", _text),
    "conn_properties": ("conn_properties", _statements),
    "sqlalchemy_scheme": (None, _one_of("mssql+pymssql")),
    "charset": (None, _ignored),
    "autocommit": (None, _ignored),
    "as_dict": (None, _ignored),
    "arraysize": (None, _ignored),
    "use_datetime2": (None, _ignored),
    # DbApiHook's own, which pymssql.connect does not know
    "placeholder": (None, _ignored),
    "insert_statement_format": (None, _ignored),
    "replace_statement_format": (None, _ignored),
    "escape_word_format": (None, _ignored),
    "escape_column_names": (None, _ignored),
}

_CONNECT_ARGUMENTS = frozenset(
    "encryption timeout login_timeout read_only appname tds_version conn_properties charset autocommit "
    "as_dict arraysize use_datetime2".split()
)

_OURS: dict[str, tuple[str, Reader]] = {
    "driver": ("driver", _one_of("mssql-python", "pymssql")),
    "encrypt": ("encryption", _encrypt),
    "trust_server_certificate": ("trust_server_certificate", _flag),
    "certificate_host": ("certificate_host", _text),
    "certificate_authorities": ("certificate_authorities", _text),
    "authentication": ("authentication", _text),
    "read_only": ("read_only", _flag),
    "multi_subnet_failover": ("multi_subnet_failover", _flag),
    "login_timeout_seconds": ("login_timeout_seconds", _number),
    "query_timeout_seconds": ("query_timeout_seconds", _number),
    "lock_timeout_seconds": ("lock_timeout_seconds", _number),
}

# what people bring along from other drivers, and where it belongs here
_INSTEAD = {
    "driver": f'the driver is chosen by {{"{OURS}": {{"driver": "mssql-python"}}}}, and needs no ODBC name',
    "encrypt": f'write {{"encryption": "require"}}, or {{"{OURS}": {{"encrypt": "require"}}}}',
    "trustservercertificate": f'write {{"{OURS}": {{"trust_server_certificate": true}}}}',
    "applicationintent": 'write {"read_only": true}',
    "multisubnetfailover": f'write {{"{OURS}": {{"multi_subnet_failover": true}}}}',
    "authentication": f'write {{"{OURS}": {{"authentication": "..."}}}}',
    "sqlalchemy_scheme": "it names another driver; take it out, no SQLAlchemy engine is used",
}


def read_extras(extras: Mapping[str, Any], *, conn_id: str) -> dict[str, Any]:
    """Fields of :class:`~.settings.ConnectionSettings`; what is set under ``mssql_cdc`` wins.

    :raises ConfigurationError: names every extra that is unknown or unusable, with what to write instead.
    """
    ours = extras.get(OURS) or {}
    problems: list[str] = []
    if not isinstance(ours, Mapping):
        problems.append(f"{OURS} is a JSON object, got {type(ours).__name__}")
        ours = {}
    fields: dict[str, Any] = {}
    rest = {name: value for name, value in extras.items() if name != OURS}
    for prefix, known, given in (("", _PYMSSQL, rest), (f"{OURS}.", _OURS, ours)):
        for name, value in given.items():
            if name not in known:
                problems.append(_unknown(prefix, name, known=known))
                continue
            target, read = known[name]
            try:
                read_value = None if value is None else read(value)
            except (ValueError, TypeError) as exc:
                instead = _INSTEAD.get(name.lower(), "") if not prefix else ""
                problems.append(f"{prefix}{name} {exc}" + (f" ({instead})" if instead else ""))
                continue
            if target is not None and read_value is not None:
                fields[target] = read_value
    if problems:
        raise ConfigurationError(f"connection {conn_id!r}, extra: " + "; ".join(problems))
    return fields


def pymssql_extras(extras: Mapping[str, Any]) -> dict[str, Any]:
    """What ``pymssql.connect`` may see: its own names, without ours and without SQLAlchemy's."""
    return {name: value for name, value in extras.items() if name in _CONNECT_ARGUMENTS}


def _unknown(prefix: str, name: str, *, known: Mapping[str, Any]) -> str:
    instead = _INSTEAD.get(name.lower())
    remedy = instead if instead and not prefix else f"known here: {', '.join(sorted(known))}"
    return f"{prefix}{name} is not known ({remedy})"
