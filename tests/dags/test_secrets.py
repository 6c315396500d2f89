"""No credential and no value gets where more people can read than in the table that it belongs to."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator
from tests.dags.harness import run
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

PASSWORD = "p@ss:w/rd?#%;{}'Hunter2"
TOKEN = "wJalrXUtnFEMI+bPxRfiCY"
UNKNOWN_TO_AIRFLOW = "IQoJb3JpZ2luX2VjE"
"""Written into the DAG file: Airflow masks what it read from a connection, and cannot know this one."""
KEY, CELL = "PATIENT-0815", "CELL-4711"
SECRETS = (PASSWORD, "Hunter2", TOKEN, UNKNOWN_TO_AIRFLOW)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedSqlServer]:
    """``dbo.orders`` with a string key; keys and cells can be told from anything else."""
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.orders (id nvarchar(40) NOT NULL PRIMARY KEY, name nvarchar(40))")
        rows = [(f"{KEY}-{number:04}", f"{CELL}-{number}") for number in range(400)]
        running.executemany("INSERT INTO dbo.orders VALUES (?, ?)", rows)
        running.enable_cdc("dbo.orders")
        running.add_login("loader", PASSWORD, grants=("SELECT ON dbo.orders", "SELECT ON cdc.dbo_orders_CT"))
        monkeypatch.setenv("AIRFLOW_CONN_ERP", running.airflow_connection(login="loader"))
        monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "generic", "password": TOKEN}))
        yield running


def whole_dag(table: MssqlCdcTable, dag_id: str, silver: Path, **arguments: Any) -> DAG:
    with DAG(dag_id=dag_id, schedule=None) as dag:
        load = mssql_cdc_bootstrap(
            group_id="load", table=table, rows_per_range=100, retries=1, retry_delay=0, **arguments
        )
        changes = MssqlCdcChangesOperator(task_id="changes", table=table)
        load >> changes >> MssqlCdcMergeOperator(task_id="merge", table=table, silver=str(silver))
    return dag


def test_neither_credentials_nor_values_are_in_what_airflow_and_the_facts_keep(
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = {"AWS_SECRET_ACCESS_KEY": "{{ conn.store.password }}", "AWS_SESSION_TOKEN": UNKNOWN_TO_AIRFLOW}
    table = make_table(storage_options=secrets)
    server.faults.drop(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[orders\]", after_rows=50)
    dag = whole_dag(table, "keeps_secrets", tmp_path / "silver")
    assert run(dag).state == "success"
    loaded = kept_by_airflow("keeps_secrets")
    server.execute(f"UPDATE dbo.orders SET id = id + N'-{KEY}' WHERE id < N'{KEY}-0010'")
    assert run(dag).state == "success"
    assert len(delta_rows(tmp_path / "silver")) == 400

    printed = capfd.readouterr()
    texts = {
        "logs": caplog.text + printed.out + printed.err,
        "facts": repr(delta_rows(table.facts)),
        "the log of bronze": repr(DeltaTable(table.bronze).history()),
        **{f"{place}, {which}": text for which, kept in both(loaded) for place, text in kept.items()},
    }
    assert "dbo_orders" in texts["logs"]
    for place, text in texts.items():
        assert [secret for secret in (*SECRETS, CELL) if secret in text] == [], place
    places_of_keys = [place for place, text in texts.items() if KEY in text]
    assert places_of_keys == ["XComs, loading"], "bounds of ranges, and nothing else"


def both(loaded: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """What Airflow kept of the first run, and of the second."""
    return [("loading", loaded), ("afterwards", kept_by_airflow("keeps_secrets"))]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (245, f"Conversion failed when converting the nvarchar value '{KEY}' to data type int."),
        (2627, f"Violation of PRIMARY KEY constraint. The duplicate key value is ({KEY}) in '{CELL}'."),
        (50000, f'A trigger said "{CELL}".'),
    ],
)
def test_what_the_server_quotes_in_an_error_is_not_in_the_task_s_log(
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    number: int,
    text: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    server.faults.fail(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[orders\]", number, text=text, times=None)
    dag = whole_dag(make_table(), f"quotes_{number}", tmp_path / "silver")
    assert run(dag).state == "failed"
    printed = capfd.readouterr()
    said = caplog.text + printed.out + printed.err
    assert str(number) in said, "the error is there"
    assert [value for value in (KEY, CELL, *SECRETS) if value in said] == []


def kept_by_airflow(dag_id: str) -> dict[str, str]:
    """What Airflow's database holds of a DAG and its runs."""
    from airflow import settings
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    session = settings.Session()

    def of(model: Any, *columns: str) -> str:
        rows = session.scalars(select(model).where(model.dag_id == dag_id)).all()
        assert rows
        return repr([[getattr(row, column) for column in columns] for row in rows])

    return {
        "XComs": of(XComModel, "key", "value"),
        "rendered templates": of(RenderedTaskInstanceFields, "rendered_fields", "k8s_pod_yaml"),
        "the serialized DAG": of(SerializedDagModel, "data"),
        "task instances": of(TaskInstance, "rendered_map_index", "executor_config", "note"),
    }
