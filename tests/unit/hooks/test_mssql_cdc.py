"""The hook on an Airflow connection: MsSqlHook's ways work, ours do not disturb them, no password shows."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.tsql.statement import Statement

PASSWORD = "p@ss:w/rd?#%;{}'"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.add_login("etl", PASSWORD)
        running.create_database("other")
        yield running


def hook_on(
    server: EmbeddedSqlServer,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, Any] | None = None,
    **kwargs: Any,
) -> MssqlCdcHook:
    monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection(login="etl", extra=extra))
    return MssqlCdcHook("erp", **kwargs)


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_a_session_reads_by_the_driver_that_the_connection_names(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    hook = hook_on(server, monkeypatch, {"mssql_cdc": {"driver": driver}})
    with hook.session() as session:
        assert session.driver.startswith(f"{driver} ")
        assert session.value(Statement("SELECT SUSER_SNAME() AS login")) == "etl"


def test_what_mssqlhook_does_still_works_with_our_extras_in_the_connection(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = hook_on(server, monkeypatch, {"mssql_cdc": {"driver": "pymssql"}, "login_timeout": 20})
    assert hook.get_first("SELECT DB_NAME() AS db") == ("shop",)
    assert "mssql_cdc" not in hook.get_uri()


def test_another_database_can_be_used(server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.execute("CREATE USER etl FOR LOGIN etl", database="other")
    hook = hook_on(server, monkeypatch, schema="other")
    assert hook.get_first("SELECT DB_NAME() AS db") == ("other",)
    with hook.session() as session:
        assert session.value(Statement("SELECT DB_NAME() AS db")) == "other"


def test_a_missing_port_is_1433_for_both_ways() -> None:
    hook = MssqlCdcHook(
        "erp", connection=Connection(conn_id="erp", conn_type="mssql", host="db", login="etl")
    )
    assert hook.connection.port == 1433
    assert hook.settings.port == 1433


def test_an_unknown_extra_is_refused_by_name_before_any_connect() -> None:
    extra = json.dumps({"sqlalchemy_scheme": "mssql+pyodbc", "Drive": "ODBC Driver 18 for SQL Server"})
    connection = Connection(conn_id="erp", conn_type="mssql_cdc", host="db", extra=extra)
    with pytest.raises(ConfigurationError, match=r"Drive is not known"):
        MssqlCdcHook("erp", connection=connection)


def test_neither_the_log_nor_a_repr_holds_the_password_or_a_statement(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hook = hook_on(server, monkeypatch)
    hook.get_first("SELECT %s AS secret", parameters=("a key value",))
    with hook.session() as session:
        session.value(Statement("SELECT %(v)s AS secret", {"v": "a key value"}))
    assert PASSWORD not in caplog.text + repr(hook.settings) + repr(hook)
    assert "a key value" not in caplog.text


def test_importing_the_operators_does_not_import_the_hook() -> None:
    import subprocess
    import sys

    code = "import sys, airflow_provider_mssql_cdc.operators; print('pymssql' in sys.modules)"
    assert subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.endswith("False\n")
