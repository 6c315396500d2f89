"""An Airflow connection becomes settings; other drivers' spellings are read, the rest is refused."""

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
    known = {"conn_type": "mssql_cdc", "host": "db", "login": "etl", "password": PASSWORD, "schema": "shop"}
    return Connection(conn_id="erp", extra=json.dumps(extra or {}), **{**known, **fields})


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
        ({"encryption": "strict"}, "encryption", "strict"),
        ({"trust_server_certificate": True}, "trust_server_certificate", True),
        ({"trust_server_certificate": False, "certificate_authorities": ""}, "certificate_authorities", None),
        ({"certificate_authorities": "/ca.pem"}, "certificate_authorities", "/ca.pem"),
        ({"application_intent": "ReadOnly"}, "read_only", True),
        ({"application_intent": "ReadWrite"}, "read_only", False),
        ({"isolation": "snapshot"}, "isolation", "snapshot"),
        ({"isolation": "read committed"}, "isolation", None),
        ({"lock_timeout_seconds": "9"}, "lock_timeout_seconds", 9),
        ({"lock_timeout_seconds": None, "driver": ""}, "lock_timeout_seconds", 300),
    ],
)
def test_an_extra_is_read_by_name(extra: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(extra), field) == value


@pytest.mark.parametrize(
    ("extra", "field", "value"),
    [
        ({"Encrypt": "yes"}, "encryption", "require"),
        ({"Encrypt": "Mandatory"}, "encryption", "require"),
        ({"Encrypt": "Strict"}, "encryption", "strict"),
        ({"encrypt": True}, "encryption", "require"),
        ({"ENCRYPT": "no"}, "encryption", "request"),
        ({"Encryption": "Require"}, "encryption", "require"),
        ({"TrustServerCertificate": "yes"}, "trust_server_certificate", True),
        ({"trustservercertificate": "True"}, "trust_server_certificate", True),
        ({"Trust Server Certificate": "no"}, "trust_server_certificate", False),
        ({"HostNameInCertificate": "db.internal"}, "certificate_host", "db.internal"),
        ({"ServerCertificate": "/ca.pem"}, "certificate_authorities", "/ca.pem"),
        ({"ApplicationIntent": "ReadOnly"}, "read_only", True),
        ({"applicationintent": "readonly"}, "read_only", True),
        ({"ApplicationIntent": "ReadWrite"}, "read_only", False),
        ({"MultiSubnetFailover": "Yes"}, "multi_subnet_failover", True),
        ({"Authentication": "ActiveDirectoryMSI"}, "authentication", "ActiveDirectoryMSI"),
        ({"Connection Timeout": 9}, "login_timeout_seconds", 9),
        ({"Connect-Timeout": "9"}, "login_timeout_seconds", 9),
        ({"APP": "loader"}, "app_name", "loader"),
        ({"Driver": "ODBC Driver 18 for SQL Server"}, "driver", None),
        ({"driver": "{ODBC Driver 17 for SQL Server}"}, "driver", None),
        ({"driver": "FreeTDS"}, "driver", None),
        ({"driver": "mssql_python"}, "driver", "mssql-python"),
        ({"dbapi_driver": "MSSQL_PYTHON"}, "driver", "mssql-python"),
        ({"dbapi_driver": "pymssql"}, "driver", "pymssql"),
        ({"sqlalchemy_scheme": "mssql+pyodbc"}, "driver", None),
        ({"connect_kwargs": {"autocommit": True}, "MARS_Connection": "no"}, "driver", None),
        ({"Encrypt": "yes", "encryption": "require"}, "encryption", "require"),
        ({"mssql_cdc": {"TrustServerCertificate": "yes"}}, "trust_server_certificate", True),
    ],
)
def test_spellings_of_other_drivers_are_read(extra: dict[str, Any], field: str, value: object) -> None:
    assert getattr(read(extra), field) == value


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"encryption": "perhaps"}, "encryption must be one of off, request, require, strict, got 'perhaps'"),
        ({"Encrypt": "perhaps"}, "Encrypt must be one of off, request, require, strict"),
        ({"TrustServerCertificate": "perhaps"}, "TrustServerCertificate must be true or false"),
        ({"ApplicationIntent": "Write"}, "ApplicationIntent must be one of ReadOnly, ReadWrite"),
        ({"isolation": "serializable"}, "isolation must be one of snapshot, read committed"),
        ({"timeout": -1}, "timeout must be an integer >= 0, got -1"),
        ({"login_timeout": True}, "login_timeout must be an integer >= 0"),
        ({"read_only": "maybe"}, "read_only must be true or false"),
        ({"certificate_authorities": 7}, "certificate_authorities must be a string, got int"),
        ({"mssql_cdc": "pymssql"}, "mssql_cdc must be a JSON object"),
        ({"mssql_cdc": {"driver": "pyodbc"}}, "mssql_cdc.driver must be one of mssql-python, pymssql"),
        ({"dbapi_driver": "pyodbc"}, "dbapi_driver must be one of mssql-python, pymssql"),
        ({"mssql_cdc": {"tiemout": 1}}, r"mssql_cdc.tiemout is not known .*query_timeout_seconds"),
        ({"encryption": "off", "Encrypt": "yes"}, "encryption and Encrypt name one setting and differ"),
        ({"driver": "pymssql", "dbapi_driver": "mssql_python"}, "driver and dbapi_driver name one setting"),
    ],
)
def test_an_extra_that_cannot_be_used_is_refused_by_name(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read(extra)


@pytest.mark.parametrize("conn_type", ["postgres", "odbc", "generic", "mysql", "MSSQL", "", None])
def test_a_connection_of_another_type_is_refused_by_its_type(conn_type: str | None) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"'erp' must be of type mssql_cdc .*got {conn_type or 'no type'}"
    ):
        read(conn_type=conn_type)


@pytest.mark.parametrize("conn_type", ["mssql_cdc", "mssql"])
def test_both_types_of_a_sql_server_are_read_alike(conn_type: str) -> None:
    extra = {"encryption": "require", "mssql_cdc": {"trust_server_certificate": True}}
    assert read(extra, conn_type=conn_type) == read(extra)


def test_all_wrong_extras_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"Drive is .*PWD .*mssql_cdc\.x"):
        read({"Drive": "x", "PWD": "secret", "mssql_cdc": {"x": 1}})


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
