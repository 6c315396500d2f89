"""An Airflow connection becomes settings; what is foreign to both drivers is named and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings

PASSWORD = "p@ss:w/rd?#%;{}'"


def connection(extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    known = {"host": "db", "login": "etl", "password": PASSWORD, "schema": "shop"} | fields
    return Connection(conn_id="erp", conn_type="mssql", extra=json.dumps(extra or {}), **known)


def read(extra: dict[str, Any] | None = None, **fields: Any) -> ConnectionSettings:
    return settings_of(connection(extra, **fields))


@pytest.mark.parametrize(
    ("fields", "host", "instance", "port"),
    [
        ({}, "db", None, 1433),
        ({"port": 5000}, "db", None, 5000),
        ({"host": "db\\erp"}, "db", "erp", None),
        ({"host": "db\\erp", "port": 5000}, "db", "erp", 5000),
        ({"host": "."}, "localhost", None, 1433),
        ({"host": "(local)\\erp"}, "localhost", "erp", None),
        ({"host": " db "}, "db", None, 1433),
        ({"host": "::1"}, "::1", None, 1433),
    ],
)
def test_host_instance_and_port(
    fields: dict[str, Any], host: str, instance: str | None, port: int | None
) -> None:
    settings = read(**fields)
    assert (settings.host, settings.instance, settings.port) == (host, instance, port)


@pytest.mark.parametrize(
    ("extra", "field", "value"),
    [
        ({}, "encryption", "request"),
        ({"encryption": "off"}, "encryption", "off"),
        ({"encryption": "require"}, "encryption", "require"),
        ({"encryption": "default"}, "encryption", "request"),
        ({"mssql_cdc": {"encrypt": True}}, "encryption", "require"),
        ({"mssql_cdc": {"encrypt": "strict"}}, "encryption", "strict"),
        ({"encryption": "off", "mssql_cdc": {"encrypt": "mandatory"}}, "encryption", "require"),
        ({"mssql_cdc": {"trust_server_certificate": "true"}}, "trust_server_certificate", True),
        ({}, "trust_server_certificate", False),
        ({}, "login_timeout_seconds", 30),
        ({"login_timeout": "5"}, "login_timeout_seconds", 5),
        ({"timeout": 7}, "query_timeout_seconds", 7),
        ({"timeout": 7, "mssql_cdc": {"query_timeout_seconds": 0}}, "query_timeout_seconds", 0),
        ({"mssql_cdc": {"lock_timeout_seconds": 9}}, "lock_timeout_seconds", 9),
        ({"read_only": True}, "read_only", True),
        ({"appname": "loader"}, "app_name", "loader"),
        ({"tds_version": "7.4"}, "tds_version", "7.4"),
        ({"conn_properties": "SET DATEFIRST 1"}, "conn_properties", ("SET DATEFIRST 1",)),
        ({"conn_properties": ["SET A", "SET B"]}, "conn_properties", ("SET A", "SET B")),
        ({"mssql_cdc": {"driver": "pymssql"}}, "driver", "pymssql"),
        ({"mssql_cdc": {"driver": None}}, "driver", None),
        ({"mssql_cdc": None}, "driver", None),
        ({"charset": "UTF-8", "autocommit": False, "as_dict": True, "arraysize": 5}, "driver", None),
        ({"sqlalchemy_scheme": "mssql+pymssql", "placeholder": "%s"}, "driver", None),
    ],
)
def test_an_extra_is_read_by_name(extra: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(extra), field) == value


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"Driver": "ODBC Driver 18 for SQL Server"}, r'Driver is not known .*"driver": "mssql-python"'),
        ({"sqlalchemy_scheme": "mssql+pyodbc"}, r"sqlalchemy_scheme .*names another driver"),
        ({"TrustServerCertificate": "yes"}, r"TrustServerCertificate .*trust_server_certificate"),
        ({"ApplicationIntent": "ReadOnly"}, r"ApplicationIntent .*read_only"),
        ({"Encrypt": "yes"}, r"Encrypt .*encryption"),
        ({"encryption": "perhaps"}, "encryption is one of off, request, require, strict"),
        ({"timeout": -1}, "timeout is a whole number"),
        ({"login_timeout": True}, "login_timeout is a whole number"),
        ({"read_only": "maybe"}, "read_only is true or false"),
        ({"mssql_cdc": "pymssql"}, "mssql_cdc is a JSON object"),
        ({"mssql_cdc": {"driver": "pyodbc"}}, "mssql_cdc.driver is one of mssql-python, pymssql"),
        ({"mssql_cdc": {"tiemout": 1}}, r"mssql_cdc.tiemout is not known .*query_timeout_seconds"),
    ],
)
def test_a_foreign_extra_is_refused_by_name_with_what_to_write(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(extra)


def test_all_wrong_extras_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"Driver .*PWD .*mssql_cdc\.x"):
        read({"Driver": "x", "PWD": "secret", "mssql_cdc": {"x": 1}})


def test_the_value_of_a_foreign_extra_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read({"PWD": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_neither_repr_nor_label_shows_the_password() -> None:
    settings = read()
    assert settings.password == PASSWORD
    assert PASSWORD not in repr(settings) + str(settings) + settings.label
    assert settings.label == "erp (db:1433/shop)"


@pytest.mark.parametrize(
    "fields", [{"host": ""}, {"host": None}, {"port": 70000}, {"login": "a\0b"}, {"host": "\\erp"}]
)
def test_a_connection_that_reaches_no_server_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="connection 'erp'"):
        read(**fields)
