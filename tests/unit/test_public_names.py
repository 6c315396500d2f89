"""What users import, pass and configure keeps its name: golden/public.txt says what there is."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

import airflow_provider_mssql_cdc
from airflow_provider_mssql_cdc import (
    MssqlCdcDatabase,
    MssqlCdcTable,
    errors,
    mssql_cdc_bootstrap,
    mssql_cdc_pipeline,
)
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.get_provider_info import get_provider_info
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from tests.support.golden_lines import difference, read_sections

GOLDEN = Path(__file__).parent / "golden/public.txt"
PACKAGE = airflow_provider_mssql_cdc.__name__


def import_paths() -> set[str]:
    """Every class and function of a module that users are told to import, by that module."""
    info = get_provider_info()
    kinds = ("operators", "sensors", "triggers", "hooks")
    named = [name for kind in kinds for entry in info[kind] for name in entry["python-modules"]]
    exported = [PACKAGE, *(f"{PACKAGE}.{name}" for name in ("operators", "sensors", "embedded", "errors"))]
    return {f"{name}.{public}" for name in (*named, *exported) for public in public_names(name)}


def public_names(name: str) -> Iterator[str]:
    """A module's ``__all__``, or else what it defines itself."""
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, public)
        own = getattr(value, "__module__", None) == name and inspect.isclass(value)
        if not public.startswith("_") and (own or hasattr(module, "__all__")):
            yield public


def provider_info() -> set[str]:
    """Without the version and the texts that explain a field."""
    info = {name: value for name, value in get_provider_info().items() if name != "versions"}
    return {line for line in flat("", info) if ".description = " not in line}


def flat(place: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from flat(f"{place}.{name}", item)
    elif isinstance(value, list):
        for item in value:
            yield from flat(f"{place}[]", item)
    else:
        yield f"{place} = {value!r}"


def arguments() -> set[str]:
    """Of what users call, each argument with its default, and what is templated."""
    operators = importlib.import_module(f"{PACKAGE}.operators")
    sensors = importlib.import_module(f"{PACKAGE}.sensors")
    classes = [getattr(module, name) for module in (operators, sensors) for name in module.__all__]
    ours = [MssqlCdcDatabase, MssqlCdcTable, mssql_cdc_bootstrap, mssql_cdc_pipeline, MssqlCdcHook]
    called = [*ours, *classes]
    found = {
        f"{one.__name__}({parameter})"
        for one in called
        for signature in signatures(one)
        for parameter in without_annotations(signature)
    }
    templated = {f"{one.__name__}: {field} is templated" for one in classes for field in one.template_fields}
    return found | templated


def signatures(called: Any) -> Iterator[inspect.Signature]:
    """Of a class that hands arguments on, those of its bases in this package too."""
    yield inspect.signature(called)
    for base in inspect.getmro(called)[1:] if inspect.isclass(called) else ():
        if base.__module__.startswith(PACKAGE) and "__init__" in vars(base):
            yield inspect.signature(base)


def without_annotations(signature: inspect.Signature) -> Iterator[str]:
    for parameter in signature.parameters.values():
        yield str(parameter.replace(annotation=inspect.Parameter.empty))


EXTRAS = {
    "driver": "pymssql",
    "dbapi_driver": "mssql+pymssql",
    "encryption": "require",
    "encrypt": "strict",
    "trust_server_certificate": "true",
    "TrustServerCertificate": "yes",
    "certificate_authorities": "/ca.pem",
    "server_certificate": "/ca.pem",
    "certificate_host": "db.example",
    "HostNameInCertificate": "db.example",
    "authentication": "ActiveDirectoryDefault",
    "application_intent": "ReadOnly",
    "ApplicationIntent": "ReadOnly",
    "read_only": True,
    "multi_subnet_failover": True,
    "MultiSubnetFailover": "yes",
    "isolation": "snapshot",
    "login_timeout_seconds": 7,
    "login_timeout": 7,
    "connection_timeout": 7,
    "connect_timeout": 7,
    "query_timeout_seconds": 7,
    "query_timeout": 7,
    "timeout": 7,
    "lock_timeout_seconds": 7,
    "app_name": "nightly",
    "appname": "nightly",
    "app": "nightly",
    "application_name": "nightly",
    "tds_version": "7.4",
    "conn_properties": "SET DATEFIRST 1",
    "sqlalchemy_scheme": "mssql+pymssql",
    "charset": "UTF-8",
    "autocommit": True,
    "as_dict": True,
    "arraysize": 5,
    "use_datetime2": True,
    "placeholder": "?",
    "insert_statement_format": "x",
    "replace_statement_format": "x",
    "escape_word_format": "x",
    "escape_column_names": True,
    "connect_kwargs": "x",
}


def extras() -> set[str]:
    """What each extra sets, plain and under ``mssql_cdc``, and the names that a message lists."""
    plain = settings({})
    with pytest.raises(ConfigurationError) as caught:
        settings({"?": 1})
    listed = re.search(r"known: ([^)]+)", str(caught.value))
    assert listed is not None
    found = {f"listed: {name}" for name in listed[1].split(", ")}
    for name, value in EXTRAS.items():
        for shown, given in ((name, {name: value}), (f"mssql_cdc.{name}", {"mssql_cdc": {name: value}})):
            changed = {field: now for field, now in settings(given).items() if now != plain[field]}
            found.add(f"{shown}={value!r} sets {changed or 'nothing'}")
    return found


def settings(extra: dict[str, Any]) -> dict[str, Any]:
    connection = Connection(
        conn_id="erp",
        conn_type="mssql_cdc",
        host="db",
        schema="shop",
        login="reader",
        extra=json.dumps(extra),
    )
    return asdict(MssqlCdcHook("erp", connection=connection).settings)


def error_classes() -> set[str]:
    """Each class with the classes above it, and whether Airflow tries again."""
    classes = [one for one in vars(errors).values() if inspect.isclass(one)]
    return {
        f"{' < '.join(parent.__name__ for parent in one.__mro__ if parent.__module__ == errors.__name__)}: "
        f"retryable={one.retryable}"
        for one in classes
        if issubclass(one, errors.MssqlCdcError)
    }


def test_all_that_users_name_is_called_what_it_was() -> None:
    found = {
        "import paths": import_paths(),
        "provider info": provider_info(),
        "arguments": arguments(),
        "connection extras": extras(),
        "errors": error_classes(),
    }
    assert (message := difference(read_sections(GOLDEN), found)) == "", message
