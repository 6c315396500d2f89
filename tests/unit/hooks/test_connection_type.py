"""The connection type ``mssql_cdc``: Airflow's SQL operators and the UI's test work on it, and say enough."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.microsoft.mssql.hooks.mssql import MsSqlHook
from airflow.sdk import BaseHook, Connection

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.hooks import mssql_cdc
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.source.session import SourceSession

both_drivers = pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
USER = "it's ]a% user"
QUOTED = "[it's ]]a% user]"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        for name in ("orders", "gated", "hidden"):
            running.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, amount int)")
        running.execute("INSERT INTO dbo.orders VALUES (1, 10), (2, 20)")
        running.enable_cdc("dbo.orders")
        running.enable_cdc("dbo.gated", role_name="cdc_reader")
        running.create_database("plain")
        yield running


def connected(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch, *, login: str = "sa", **extra: Any
) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection(login=login, extra=extra))
    return "erp"


def said_by_test(
    server: EmbeddedSqlServer, *, database: str | None = None, **fields: Any
) -> tuple[bool, str]:
    """What the button "Test" shows: Airflow makes the connection known by a variable and asks its hook."""
    described = json.loads(server.airflow_connection(login=fields.pop("login", "sa"), database=database))
    described["extra"] = json.dumps({**described["extra"], **fields.pop("extra", {})})
    with pytest.MonkeyPatch.context() as monkeypatch:
        connection = StoredConnection(conn_id="tested", **{**described, **fields})
        monkeypatch.setenv("AIRFLOW_CONN_TESTED", connection.as_json())
        return connection.test_connection()


def test_the_embedded_server_gives_a_connection_of_the_type(server: EmbeddedSqlServer) -> None:
    assert json.loads(server.airflow_connection())["conn_type"] == MssqlCdcHook.conn_type == "mssql_cdc"


def test_airflow_finds_the_hook_by_the_type(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = BaseHook.get_connection(connected(server, monkeypatch)).get_hook()
    assert type(hook) is MssqlCdcHook


@pytest.mark.parametrize(
    "extra", [{}, {"driver": "mssql-python"}, {"Driver": "ODBC Driver 18 for SQL Server"}]
)
def test_airflows_sql_operator_works_on_it(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]
) -> None:
    ask = SQLExecuteQueryOperator(
        task_id="ask",
        conn_id=connected(server, monkeypatch, **extra),
        sql="SELECT id, amount FROM dbo.orders WHERE amount > %(least)s ORDER BY id",
        parameters={"least": 5},
    )
    assert [tuple(row) for row in ask.execute({})] == [(1, 10), (2, 20)]


def test_what_an_sql_operator_writes_is_committed_by_it(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn_id = connected(server, monkeypatch)
    server.execute("CREATE TABLE dbo.log (id int NOT NULL PRIMARY KEY)")
    SQLExecuteQueryOperator(task_id="write", conn_id=conn_id, sql="INSERT INTO dbo.log VALUES (1)").execute(
        {}
    )
    hook = MssqlCdcHook(conn_id)
    with hook.get_conn() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO dbo.log VALUES (2)")
        connection.rollback()
    assert server.execute("SELECT id FROM dbo.log") == [(1,)]


def test_an_sql_operator_takes_the_certificate_that_the_connection_trusts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedSqlServer(database="shop", tls="required") as server:
        trusted = connected(server, monkeypatch)
        assert MssqlCdcHook(trusted).get_first("SELECT DB_NAME() AS db") == ("shop",)
        distrusted = connected(server, monkeypatch, trust_server_certificate=False)
        # A failed login's number stays with pymssql for the rest of the process; the text after it is new.
        with pytest.raises(Exception, match="connection failed|DB-Lib error message"):
            MssqlCdcHook(distrusted).get_first("SELECT DB_NAME() AS db")


@both_drivers
def test_the_test_tells_the_server_the_database_and_the_instances(
    server: EmbeddedSqlServer, driver: str
) -> None:
    worked, said = said_by_test(server, extra={"driver": driver})
    assert worked
    version = server.execute("SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) AS v")[0][0]
    assert f"Connected to SQL Server {version}" in said
    assert f"database shop, as user dbo, by {driver} " in said
    assert "Change data capture is on" in said
    assert "2 capture instance(s): dbo_gated, dbo_orders" in said
    assert "Missing rights" not in said


def test_the_test_tells_that_change_data_capture_is_off(server: EmbeddedSqlServer) -> None:
    worked, said = said_by_test(server, database="plain")
    assert worked
    assert "Change data capture is off in this database" in said
    assert "EXEC sys.sp_cdc_enable_db" in said


@both_drivers
@pytest.mark.parametrize(
    ("grants", "roles", "missing"),
    [
        (
            [],
            [],
            [
                f"GRANT SELECT ON <schema>.<table> TO {QUOTED};",
                f"GRANT SELECT ON cdc.<capture instance>_CT TO {QUOTED};",
                "setup_sql",
            ],
        ),
        (["SELECT ON dbo.orders"], [], [f"GRANT SELECT ON [cdc].[dbo_orders_CT] TO {QUOTED};"]),
        (["SELECT ON dbo.gated"], [], [f"GRANT SELECT ON [dbo].[gated] TO {QUOTED};", "gating role"]),
        (["SELECT ON dbo.gated"], ["cdc_reader"], [f"GRANT SELECT ON [cdc].[dbo_gated_CT] TO {QUOTED};"]),
        (["SELECT ON dbo.orders", "SELECT ON cdc.dbo_orders_CT"], [], []),
    ],
)
def test_the_test_names_every_grant_that_is_missing(
    server: EmbeddedSqlServer, driver: str, grants: list[str], roles: list[str], missing: list[str]
) -> None:
    server.add_login(USER, roles=roles, grants=grants)
    try:
        worked, said = said_by_test(server, login=USER, extra={"driver": driver})
    finally:
        server.execute(f"DROP USER {QUOTED}")
        server.execute(f"DROP LOGIN {QUOTED}", database="master")
    assert worked
    assert ("Missing rights" in said) == bool(missing)
    assert [line for line in missing if line not in said] == []


@both_drivers
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"password": "wrong"}, "Login failed"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid is not known"),
        ({"port": 1}, "nothing listens on 127.0.0.1:1 (refused)"),
        ({"extra": {"encryption": "perhaps"}}, "encryption must be one of"),
        ({"schema": "missing"}, "Check login, password and database"),
    ],
)
def test_a_test_that_fails_says_why(
    server: EmbeddedSqlServer, driver: str, fields: dict[str, Any], said: str
) -> None:
    if driver == "pymssql" and said == "Login failed":
        pytest.skip("pymssql repeats what it was told when a login first failed in this process")
    fields = {**fields, "extra": {"driver": driver, **fields.get("extra", {})}}
    worked, told = said_by_test(server, **fields)
    assert not worked
    assert said in told


def test_the_isolation_of_the_connection_is_that_of_its_sessions(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolation(asked: str | None, **extra: Any) -> str | None:
        session: SourceSession = MssqlCdcHook(connected(server, monkeypatch, **extra)).session(
            isolation=asked
        )
        return session.isolation

    assert isolation(None) is None
    assert isolation("snapshot") == "snapshot"
    assert isolation(None, isolation="snapshot") == "snapshot"
    assert isolation(None, isolation="read committed") is None


@pytest.mark.parametrize("conn_type", ["postgres", "odbc", "generic"])
def test_a_connection_of_another_type_is_refused_in_every_way_in(
    server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch, conn_type: str
) -> None:
    described = json.loads(server.airflow_connection()) | {"conn_type": conn_type}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(described))
    given = Connection(conn_id="other", conn_type=conn_type, host="db")
    for way in (
        lambda: MssqlCdcHook("other").session(),
        lambda: MssqlCdcHook("other").get_first("SELECT 1 AS one"),
        lambda: MssqlCdcHook("other", connection=given),
    ):
        with pytest.raises(ConfigurationError, match=f"'other' must be of type mssql_cdc .*got {conn_type}"):
            way()


@pytest.fixture
def mssql(server: EmbeddedSqlServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a connection of Airflow's own type with these extras; its id."""
    monkeypatch.setattr(mssql_cdc, "_warned", set())

    def made(**extra: Any) -> str:
        described = json.loads(server.airflow_connection()) | {"conn_type": "mssql", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ERP", json.dumps(described))
        return "erp"

    return made


def test_airflows_own_type_goes_on_working(mssql: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = MssqlCdcHook(mssql(login_timeout=20, encryption="off"))
    assert hook.get_first("SELECT DB_NAME() AS db") == ("shop",)
    assert hook.test_connection()[0]
    assert MsSqlHook("erp").get_first("SELECT DB_NAME() AS db") == ("shop",)
    assert "MsSqlHook" not in caplog.text


@pytest.mark.parametrize(
    "extra", [{"mssql_cdc": {"driver": "pymssql"}}, {"driver": "pymssql", "TrustServerCertificate": "yes"}]
)
def test_settings_of_ours_in_airflows_own_type_are_read_with_a_warning_said_once(
    mssql: Any, caplog: pytest.LogCaptureFixture, extra: dict[str, Any]
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        hook = MssqlCdcHook(mssql(**extra))
        assert hook.settings.driver == "pymssql"
        assert hook.get_first("SELECT 1 AS one") == (1,)
    (warned,) = [record.getMessage() for record in caplog.records if "MsSqlHook" in record.getMessage()]
    assert "Change its type to mssql_cdc" in warned
    assert f"unexpected keyword argument '{min(extra)}'" in warned
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        MsSqlHook("erp").get_first("SELECT 1 AS one")
