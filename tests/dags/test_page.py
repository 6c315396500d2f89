"""The page's routes inside Airflow's own API server application, asked by users that may read some DAGs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from starlette.testclient import TestClient

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator
from tests.dags.harness import run, sync

ROUTES = ["/", "/static/page.js", "/static/page.css", "/api/tables", "/api/tables/0123456789abcdef"]
HOSTILE = "<script>alert(1)</script>\"'&\u2028" + "x" * 10_000


@pytest.fixture(scope="module")
def application(airflow_database: Path) -> Iterator[TestClient]:
    """Airflow's API server application with this plugin."""
    from airflow.api_fastapi.app import create_app, purge_cached_app

    with pytest.MonkeyPatch.context() as patched:
        manager = "tests.support.reader_of_some_dags.ReaderOfSomeDags"
        patched.setenv("AIRFLOW__CORE__AUTH_MANAGER", manager)
        purge_cached_app()
        with TestClient(create_app(apps="core")) as running:
            yield running
        purge_cached_app()


@pytest.fixture
def client(application: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TestClient:
    """The application, configured for the facts table of this test."""
    monkeypatch.setenv("AIRFLOW__MSSQL_CDC__FACTS", f'["{tmp_path}/ops/facts"]')
    return application


def token(user: str) -> dict[str, str]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    jwt = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role="viewer"))
    return {"Authorization": f"Bearer {jwt}"}


def tables(client: TestClient, user: str) -> list[dict[str, Any]]:
    answer = client.get("/mssql-cdc/api/tables", headers=token(user))
    assert answer.status_code == 200
    return list(answer.json()["tables"])


def write(folder: Path, event: Any, *, dag: str, table: str = "orders", **known: Any) -> None:
    at = known.pop("written_at", datetime.now(UTC))
    row = FactsRow(
        event=event,
        target=f"/lake/bronze/{table}",
        source=f"erp shop.dbo.{table}",
        dag_id=dag,
        run_id="run 1",
        task_id="changes",
        map_index=-1,
        written_at=at,
        **known,
    )
    identifier = f"{table} {event} {at.isoformat()}"
    write_facts(TableLocation(str(folder / "ops" / "facts")), row, identifier=identifier)


def dags(*names: str) -> None:
    for name in names:
        with DAG(name, schedule=None) as dag:
            pass
        sync(dag)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer nonsense"}, {"Cookie": "_token=nonsense"}], ids=str
)
def test_no_route_answers_without_a_login(
    client: TestClient, tmp_path: Path, route: str, headers: dict[str, str]
) -> None:
    write(tmp_path, "bootstrap", dag="load", snapshot=Lsn(5 << 32))
    answer = client.get(f"/mssql-cdc{route}", headers=headers)
    assert answer.status_code in (401, 403)
    assert "orders" not in answer.text


def test_every_route_of_the_application_is_among_those_that_were_tried() -> None:
    from fastapi.routing import APIRoute

    from airflow_provider_mssql_cdc.ui.app import make_app

    paths = {route.path for route in make_app().routes if isinstance(route, APIRoute)}
    assert paths == {"/", "/static/{name}", "/api/tables", "/api/tables/{wanted}"}
    assert len(make_app().routes) == len(paths)


def test_a_user_sees_only_the_tables_of_dags_that_the_user_may_read(
    client: TestClient, tmp_path: Path
) -> None:
    dags("sales", "stock")
    write(tmp_path, "bootstrap", dag="sales", table="orders", snapshot=Lsn(5 << 32))
    write(tmp_path, "bootstrap", dag="stock", table="parts", snapshot=Lsn(5 << 32))
    write(tmp_path, "bootstrap", dag="deleted", table="old", snapshot=Lsn(5 << 32))
    by_user = {user: tables(client, user) for user in ("only-sales", "only-stock", "only-none", "all")}
    names = {user: {found["source"].split(".")[-1] for found in seen} for user, seen in by_user.items()}
    assert names == {
        "only-sales": {"orders"},
        "only-stock": {"parts"},
        "only-none": set(),
        "all": {"orders", "parts"},
    }
    foreign = by_user["only-stock"][0]["id"]
    address = f"/mssql-cdc/api/tables/{foreign}"
    assert client.get(address, headers=token("only-stock")).status_code == 200
    assert client.get(address, headers=token("only-sales")).status_code == 404


def test_facts_of_a_dag_that_may_not_be_read_are_not_among_those_of_a_table(
    client: TestClient, tmp_path: Path
) -> None:
    dags("sales", "secret")
    write(tmp_path, "bootstrap", dag="sales", snapshot=Lsn(5 << 32), rows=3)
    write(tmp_path, "changes", dag="secret", end_lsn=Lsn(6 << 32), rows=4)
    [found] = tables(client, "only-sales")
    detail = client.get(f"/mssql-cdc/api/tables/{found['id']}", headers=token("only-sales")).json()
    assert {fact["dag_id"] for fact in detail["facts"]} == {"sales"}
    assert detail["series"]["rows"] == []
    whole = client.get(f"/mssql-cdc/api/tables/{found['id']}", headers=token("all")).json()
    assert [fact["event"] for fact in whole["facts"]] == ["changes", "bootstrap"]
    assert [point["value"] for point in whole["series"]["rows"]] == [4]


def test_names_come_back_as_data_and_the_page_allows_no_foreign_script(
    client: TestClient, tmp_path: Path
) -> None:
    dags("sales")
    write(tmp_path, "bootstrap", dag="sales", table=HOSTILE, snapshot=Lsn(5 << 32))
    answer = client.get("/mssql-cdc/api/tables", headers=token("all"))
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["tables"][0]["source"].endswith(HOSTILE)
    page = client.get("/mssql-cdc/", headers=token("all"))
    for got in (answer, page, client.get("/mssql-cdc/static/page.js", headers=token("all"))):
        policy = got.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert got.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE[:20] not in page.text
    script = (Path(__file__).parents[2] / "airflow_provider_mssql_cdc/ui/static/page.js").read_text()
    assert not any(word in script for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write"))
    assert not any("http" in line and "w3.org" not in line for line in script.splitlines())


def test_a_static_file_is_one_of_two_and_no_other(client: TestClient) -> None:
    for name in ("page.html", "..%2fapp.py", "%2e%2e/app.py", "page.js.map"):
        assert client.get(f"/mssql-cdc/static/{name}", headers=token("all")).status_code in (404, 405)


def test_a_facts_table_that_cannot_be_read_is_said_and_the_others_are_shown(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dags("sales")
    write(tmp_path, "bootstrap", dag="sales", snapshot=Lsn(5 << 32))
    monkeypatch.setenv("AIRFLOW__MSSQL_CDC__FACTS", f'["{tmp_path}/none", "{tmp_path}/ops/facts"]')
    answer = client.get("/mssql-cdc/api/tables", headers=token("all")).json()
    assert len(answer["tables"]) == 1
    assert [f"{tmp_path}/none" in problem for problem in answer["problems"]] == [True]
    monkeypatch.setenv("AIRFLOW__MSSQL_CDC__FACTS", '[{"path": 3}]')
    answer = client.get("/mssql-cdc/api/tables", headers=token("all")).json()
    assert "an entry must be a path" in answer["problems"][0]


def test_a_table_of_a_real_dag_goes_from_loaded_to_failed_and_names_the_task(
    client: TestClient,
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = make_table()
    with DAG("orders", schedule=None) as dag:
        loaded = mssql_cdc_bootstrap(group_id="load", table=table)
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, retries=0, quiet_seconds=0)
        loaded >> changes
    assert str(run(dag).state) == "success"
    [seen] = tables(client, "all")
    assert (seen["state"], seen["level"], seen["snapshot_rows"]) == ("loaded", "good", 1000)
    server.execute("INSERT INTO dbo.orders (id) VALUES (100000)")
    server.capture()
    assert str(run(dag).state) == "success"
    [seen] = tables(client, "all")
    assert (seen["state"], seen["level"]) == ("following", "good")
    assert seen["failed_task"] is None
    monkeypatch.setenv(
        "AIRFLOW_CONN_ERP", server.airflow_connection().replace("127.0.0.1", "no-host.invalid")
    )
    assert str(run(dag).state) == "failed"
    [seen] = tables(client, "all")
    assert (seen["state"], seen["level"]) == ("failed", "bad")
    assert (seen["failed_task"]["dag_id"], seen["failed_task"]["task_id"]) == ("orders", "load.plan")
    assert seen["error"] == "ServerUnreachable"
    assert "read the message" in seen["remedy"].lower()
    assert "no-host.invalid" in errors(client, seen["id"], "all")[0]["message"]


def errors(client: TestClient, table: str, user: str) -> list[dict[str, Any]]:
    answer = client.get(f"/mssql-cdc/api/tables/{table}", headers=token(user))
    assert answer.status_code == 200
    return list(answer.json()["errors"])


def test_a_table_whose_first_run_failed_is_there_with_its_error_and_a_range_that_failed_too(
    client: TestClient,
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The facts table is there already, with a row of another table."""
    dags("sales")
    write(tmp_path, "bootstrap", dag="sales", table="parts", snapshot=Lsn(5 << 32))
    with DAG("first", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="load", table=make_table(), default_args={"retries": 0})
    whole = server.airflow_connection()
    monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection(password="not the one"))
    assert str(run(dag).state) == "failed"
    [seen] = tables(client, "only-first")
    assert (seen["state"], seen["error"], seen["bronze"]) == (
        "not loaded",
        "LoginFailed",
        str(tmp_path / "bronze" / "orders"),
    )
    assert tables(client, "only-sales")[0]["source"] == "erp shop.dbo.parts"
    [found] = errors(client, seen["id"], "only-first")
    assert (found["task_id"], found["ended"]) == ("load.plan", True)
    assert found["remedy"] == "correct the Airflow connection, clear the task"
    assert "not the one" not in found["message"]
    address = f"/mssql-cdc/api/tables/{seen['id']}"
    assert client.get(address, headers=token("only-sales")).status_code == 404
    monkeypatch.setenv("AIRFLOW_CONN_ERP", whole)
    server.faults.fail(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[orders\]", 229)
    assert str(run(dag).state) == "failed"
    [seen] = tables(client, "only-first")
    assert (seen["state"], seen["error"], seen["failed_task"]["task_id"]) == (
        "failed",
        "PermissionDenied",
        "load.read",
    )
    server.faults.clear()
    assert str(run(dag).state) == "success"
    [seen] = tables(client, "only-first")
    assert (seen["state"], seen["failed_task"]) == ("loaded", None)


def test_what_was_written_since_the_last_look_is_shown_at_the_next_one(
    client: TestClient, tmp_path: Path
) -> None:
    dags("many")
    start = datetime(2026, 5, 1, tzinfo=UTC)
    for number in range(3):
        at = start + timedelta(seconds=number)
        write(tmp_path, "bootstrap", dag="many", table=f"t{number}", written_at=at, snapshot=Lsn(5 << 32))
    assert len(tables(client, "all")) == 3
    write(tmp_path, "gap", dag="many", table="t2", end_lsn=Lsn(9 << 32))
    seen = tables(client, "all")
    assert (seen[0]["source"], seen[0]["state"]) == ("erp shop.dbo.t2", "gap")
    assert "resnapshot" in seen[0]["remedy"]
