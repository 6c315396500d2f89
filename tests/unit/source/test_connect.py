"""Settings become the arguments of a driver."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.source.connect import (
    choose_driver,
    odbc_connection_string,
    pymssql_arguments,
)
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings

SETTINGS = ConnectionSettings("erp", "db", database="shop", login="etl", password="secret")


def changed(**fields: Any) -> ConnectionSettings:
    return dataclasses.replace(SETTINGS, **fields)


def parsed(settings: ConnectionSettings) -> dict[str, str]:
    """The connection string as mssql-python itself takes it apart."""
    from mssql_python.connection_string_parser import _ConnectionStringParser

    found: dict[str, str] = _ConnectionStringParser(validate_keywords=True)._parse(
        odbc_connection_string(settings)
    )
    return found


@pytest.mark.parametrize(
    "text",
    [
        "p@ss:w/rd?#%;{}'",
        "}",
        "{",
        "a}}b",
        ";PWD=x;",
        "  blanks  ",
        'quo"te',
        "=",
        "naïve€",
        "{x};Encrypt=no",
    ],
)
@pytest.mark.parametrize("field", ["password", "login", "database"])
def test_any_credential_survives_the_connection_string(field: str, text: str) -> None:
    found = parsed(changed(**{field: text}))
    assert found[{"password": "pwd", "login": "uid", "database": "database"}[field]] == text
    assert found["encrypt"] == "no"


@pytest.mark.parametrize(
    ("fields", "keyword", "value"),
    [
        ({}, "server", "tcp:db,1433"),
        ({"port": None, "instance": "erp"}, "server", "db\\erp"),
        ({"port": 5000, "instance": "erp"}, "server", "tcp:db,5000"),
        ({}, "connectretrycount", "0"),
        ({}, "trustservercertificate", "no"),
        ({"trust_server_certificate": True}, "trustservercertificate", "yes"),
        ({"encryption": "require"}, "encrypt", "yes"),
        ({"encryption": "strict"}, "encrypt", "strict"),
        ({"encryption": "off"}, "encrypt", "no"),
        ({"read_only": True}, "applicationintent", "ReadOnly"),
        ({"multi_subnet_failover": True}, "multisubnetfailover", "yes"),
        ({"certificate_host": "db.example"}, "hostnameincertificate", "db.example"),
        ({"authentication": "ActiveDirectoryMSI"}, "authentication", "ActiveDirectoryMSI"),
    ],
)
def test_settings_become_keywords_of_the_odbc_driver(
    fields: dict[str, Any], keyword: str, value: str
) -> None:
    assert parsed(changed(**fields))[keyword] == value


def test_what_is_not_set_is_no_keyword() -> None:
    assert parsed(changed(database="", login=None, password=None)).keys() == {
        "server",
        "encrypt",
        "trustservercertificate",
        "connectretrycount",
    }


@pytest.mark.parametrize(
    ("fields", "argument", "value"),
    [
        ({}, "port", "1433"),
        ({}, "server", "db"),
        ({"port": None, "instance": "erp"}, "server", "db\\erp"),
        ({"port": 5000, "instance": "erp"}, "server", "db"),
        ({"host": "::1"}, "server", "[::1]"),
        ({}, "autocommit", True),
        ({}, "charset", "UTF-8"),
        ({"encryption": "require"}, "encryption", "require"),
        ({"login_timeout_seconds": 5}, "login_timeout", 5),
        ({"query_timeout_seconds": 6}, "timeout", 6),
        ({"read_only": True}, "read_only", True),
        ({"app_name": "loader"}, "appname", "loader"),
    ],
)
def test_settings_become_arguments_of_pymssql(fields: dict[str, Any], argument: str, value: object) -> None:
    assert pymssql_arguments(changed(**fields))[argument] == value


@pytest.mark.parametrize("fields", [{"encryption": "strict"}, {"certificate_host": "db.example"}])
def test_what_pymssql_has_not_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"which pymssql has not: pip install .*mssql-python"):
        pymssql_arguments(changed(**fields))


def test_the_faster_driver_is_taken_where_it_is_installed() -> None:
    assert choose_driver(SETTINGS) == "mssql-python"
    assert choose_driver(changed(driver="pymssql")) == "pymssql"
