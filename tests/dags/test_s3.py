"""The main job on an S3 API: conditional put, parallel appends, credentials from an Airflow connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow
from tests.dags.harness import clear_and_rerun, returned, run, states
from tests.support.losing_proxy import Mode, losing_proxy
from tests.support.s3_api import SECRET as S3_SECRET

pytestmark = pytest.mark.usefixtures("airflow_database")


def rows(uri: str, options: dict[str, str], sql: str) -> list[dict[str, Any]]:
    import pyarrow as pa

    table = DeltaTable(uri, storage_options=options)
    return pa.table(QueryBuilder().register("t", table).execute(sql).read_all()).to_pylist()


def test_a_table_is_loaded_into_s3_by_a_connection_and_cleared_without_harm(
    server: EmbeddedSqlServer, make_table: Callable[..., MssqlCdcTable], options: dict[str, str]
) -> None:
    table = make_table(bronze="s3://lake/bronze/orders", facts="s3://lake/ops/facts", delta_conn_id="s3")
    with DAG(dag_id="to_s3", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=250, retry_delay=0.1)
    server.faults.drop(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[orders\]", after_rows=100, occurrence=2)
    dag_run = run(dag)
    assert dag_run.state == "success"
    assert returned(dag_run, "orders.complete")["rows"] == 1000
    ids = rows(table.bronze, options, "SELECT id FROM t ORDER BY id")
    assert [row["id"] for row in ids] == list(range(1000))
    version = DeltaTable(table.bronze, storage_options=options).version()
    clear_and_rerun(dag, dag_run.run_id, [("orders.read", 1), "orders.complete"])
    assert DeltaTable(table.bronze, storage_options=options).version() == version
    assert len(rows(table.facts, options, "SELECT * FROM t WHERE event = 'bootstrap'")) == 1
    assert S3_SECRET not in stored_by_airflow(dag_run)


def test_parallel_appends_to_one_facts_table_all_land_once(options: dict[str, str]) -> None:
    location = TableLocation("s3://lake/facts", options)

    def write(number: int) -> bool:
        row = FactsRow(event="changes", target="t", batch_id=number, written_at=datetime.now(UTC))
        return write_facts(location, row, identifier=f"t#changes.{number // 2}")

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(40)))
    assert sum(written) == 20
    assert len(rows(location.uri, options, "SELECT batch_id FROM t")) == 20


@pytest.mark.parametrize("place", ["bronze", "facts"])
def test_unsafe_rename_is_refused_before_anything_is_read_or_written(
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    options: dict[str, str],
    place: str,
    tmp_path: Path,
) -> None:
    on_s3 = {place: f"s3://lake/{place}/orders"}
    table = make_table(storage_options={**options, "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, **on_s3)
    with DAG(dag_id=f"unsafe_{place}", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=125, retry_delay=0.1)
    dag_run = run(dag)
    assert states(dag_run)["orders.plan", -1] == "failed"
    assert {ti.try_number for ti in dag_run.get_task_instances() if ti.task_id == "orders.plan"} == {1}
    assert not [s for s in server.faults.log() if "FROM [dbo].[orders]" in s.sql]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "times"), [("others", 20), ("own", 1)])
@pytest.mark.parametrize("place", ["bronze/orders", "ops/facts"])
def test_a_commit_that_loses_twenty_times_or_whose_answer_is_lost_lands_once(
    server: EmbeddedSqlServer,
    make_table: Callable[..., MssqlCdcTable],
    endpoint: str,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    mode: Mode,
    times: int,
) -> None:
    """delta-rs gives up after 15: from then on it is decided again, by the identifier."""
    with losing_proxy(endpoint, pattern=place, times=times, mode=mode) as proxy:
        connection = {"conn_type": "aws", "login": "AK", "password": S3_SECRET}
        extra = {"region_name": "eu-west-1", "endpoint_url": proxy}
        monkeypatch.setenv("AIRFLOW_CONN_S3", json.dumps({**connection, "extra": extra}))
        table = make_table(bronze="s3://lake/bronze/orders", facts="s3://lake/ops/facts", delta_conn_id="s3")
        with DAG(dag_id=f"loses_{place.replace('/', '_')}_{mode}", schedule=None) as dag:
            mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=500, retries=0)
        assert run(dag).state == "success"
    ids = rows(table.bronze, options, "SELECT id FROM t ORDER BY id")
    assert [row["id"] for row in ids] == list(range(1000))
    events = rows(table.facts, options, "SELECT event FROM t ORDER BY event")
    assert [row["event"] for row in events] == ["bootstrap", "snapshot_plan"]
    history = DeltaTable(f"s3://lake/{place}", storage_options=options).history()
    theirs = [commit for commit in history if commit.get("operation") == "SET TBLPROPERTIES"]
    assert len(theirs) == (times if mode == "others" else 0)


def stored_by_airflow(dag_run: Any) -> str:
    """Everything that Airflow keeps of a run: XComs, rendered fields, the serialized DAG."""
    from airflow import settings
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    session = settings.Session()
    kept = [
        *(row.value for row in session.scalars(select(XComModel).where(XComModel.dag_id == dag_run.dag_id))),
        *(
            row.rendered_fields
            for row in session.scalars(
                select(RenderedTaskInstanceFields).where(RenderedTaskInstanceFields.dag_id == dag_run.dag_id)
            )
        ),
        *(
            row.data
            for row in session.scalars(
                select(SerializedDagModel).where(SerializedDagModel.dag_id == dag_run.dag_id)
            )
        ),
    ]
    assert kept
    return repr(kept)
