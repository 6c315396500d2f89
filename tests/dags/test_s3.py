"""The main job on an S3 API: conditional put, parallel appends, credentials from an Airflow connection."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow
from tests.dags.harness import clear_and_rerun, returned, run

pytestmark = pytest.mark.usefixtures("airflow_database")
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An S3 API in a process of its own: delta-rs keeps Python's lock while it waits for the answer."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


@pytest.fixture
def options(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty bucket ``lake``, and the Airflow connection ``s3`` to it."""
    given = {"region_name": "eu-west-1", "endpoint_url": endpoint}
    _wait_for(endpoint)
    _post(f"{endpoint}/moto-api/reset")
    client = boto3.client("s3", aws_access_key_id="AK", aws_secret_access_key=SECRET, **given)
    client.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    connection = {"conn_type": "aws", "login": "AK", "password": SECRET, "extra": given}
    monkeypatch.setenv("AIRFLOW_CONN_S3", json.dumps(connection))
    return {
        "AWS_ACCESS_KEY_ID": "AK",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


def _wait_for(endpoint: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urlopen(endpoint, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the S3 API does not answer"
            time.sleep(0.1)


def _post(url: str) -> None:
    urlopen(Request(url, method="POST"), timeout=10).close()


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
    assert SECRET not in stored_by_airflow(dag_run)


def test_parallel_appends_to_one_facts_table_all_land_once(options: dict[str, str]) -> None:
    location = TableLocation("s3://lake/facts", options)

    def write(number: int) -> bool:
        row = FactsRow(event="changes", target="t", batch_id=number, written_at=datetime.now(UTC))
        return write_facts(location, row, identifier=f"t#changes.{number // 2}")

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(40)))
    assert sum(written) == 20
    assert len(rows(location.uri, options, "SELECT batch_id FROM t")) == 20


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
