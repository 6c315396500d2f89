"""A chunked load, its changes and silver on an S3 API, all of it by an Airflow connection."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator
from airflow_provider_mssql_cdc.source.session import SourceSession
from tests.dags.harness import clear_and_rerun, returned, run, states
from tests.dags.test_s3 import stored_by_airflow
from tests.support.losing_proxy import losing_proxy
from tests.support.s3_api import SECRET as S3_SECRET

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
Options = dict[str, str]
COLUMNS = "id, name, amount"
BRONZE, FACTS, SILVER = "s3://lake/bronze/orders", "s3://lake/ops/facts", "s3://lake/silver/orders"


@pytest.fixture
def table(make_table: MakeTable, options: Options) -> MssqlCdcTable:
    return make_table(bronze=BRONZE, facts=FACTS, delta_conn_id="s3")


def dag_of(table: MssqlCdcTable, dag_id: str) -> DAG:
    """Load in chunks, read changes, merge; all of it again in every run."""
    with DAG(dag_id=dag_id, schedule=None) as dag:
        load = mssql_cdc_bootstrap(
            group_id="orders",
            table=table,
            mode="chunked",
            chunk_rows=250,
            chunks_per_wave=1,
            retry_delay=0.1,
        )
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0)
        load >> changes >> MssqlCdcMergeOperator(task_id="merge", table=table, silver=SILVER)
    return dag


def change_the_source(server: EmbeddedSqlServer) -> None:
    """Updates, keys that change, rows that go, rows that come; then the horizon is passed."""
    server.execute("UPDATE dbo.orders SET amount = amount + 0.5 WHERE id % 10 = 1")
    server.execute("UPDATE dbo.orders SET id = id + 5000 WHERE id % 100 = 7")
    server.execute("DELETE FROM dbo.orders WHERE id < 20")
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (3, N'again'), (9000, N'new')")
    server.clock.shift(timedelta(seconds=3))
    server.idle()


def silver_rows(options: Options) -> list[tuple[Any, ...]]:
    table = DeltaTable(SILVER, storage_options=options)
    query = f"SELECT {COLUMNS} FROM silver ORDER BY id"
    found = pa.table(QueryBuilder().register("silver", table).execute(query).read_all())
    return [tuple(row.values()) for row in found.to_pylist()]


def source_rows(server: EmbeddedSqlServer) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in server.execute(f"SELECT {COLUMNS} FROM dbo.orders ORDER BY id")]


def version(options: Options) -> int:
    return int(DeltaTable(SILVER, storage_options=options).version())


def files(options: Options) -> set[str]:
    """Everything that merges have staged and that is still there."""
    return set(TableStorage(TableLocation(SILVER, options)).names("silver-"))


def test_silver_follows_a_table_that_is_loaded_in_chunks_and_a_cleared_merge_changes_nothing(
    server: EmbeddedSqlServer, table: MssqlCdcTable, options: Options, tmp_path: Path
) -> None:
    dag = dag_of(table, "silver_on_s3")
    first = run(dag)
    assert first.state == "success"
    assert [states(first)["orders.chunk", index] for index in range(4)] == ["success"] * 4
    assert (returned(first, "merge")["rows"], silver_rows(options)) == (1000, source_rows(server))
    plans = DeltaTable(f"{BRONZE}_plans", storage_options=options)
    assert plans.to_pyarrow_table().num_rows == 4

    change_the_source(server)
    second = run(dag)
    merged = returned(second, "merge")
    assert (merged["rebuilt"], merged["consistent"], merged["rows"]) == (None, True, 983)
    assert (merged["inserted"], merged["deleted"]) == (11, 28)
    assert silver_rows(options) == source_rows(server)

    before = version(options), files(options)
    again = clear_and_rerun(dag, second.run_id, ["merge"])
    assert (again.state, returned(again, "merge")["version"]) == ("success", merged["version"])
    assert (version(options), files(options)) == before
    assert silver_rows(options) == source_rows(server)
    assert S3_SECRET not in stored_by_airflow(second)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_merge_left_is_removed_by_its_next_try(
    server: EmbeddedSqlServer, table: MssqlCdcTable, options: Options, endpoint: str
) -> None:
    """The process is killed between its files and its commit, which the store never sees."""
    dag = dag_of(table, "killed_on_s3")
    dag_run = run(dag)
    change_the_source(server)
    assert clear_and_rerun(dag, dag_run.run_id, ["changes"]).state == "success"
    before = version(options), files(options)
    with losing_proxy(endpoint, pattern="silver/orders", times=1, mode="held") as proxy:
        storage = {**options, "AWS_ENDPOINT_URL": proxy}
        attempt = Attempt(dag.dag_id, dag_run.run_id, "merge", try_number=2)
        order = MergeOrder(replace(table, delta_conn_id=None, storage_options=storage), SILVER, attempt)
        left = staged_by_a_process_that_is_killed(order, lambda: files(options) - before[1])
    assert (version(options), files(options)) == (before[0], before[1] | left)

    again = clear_and_rerun(dag, dag_run.run_id, ["merge"])
    assert (again.state, version(options)) == ("success", before[0] + 1)
    assert silver_rows(options) == source_rows(server)
    assert left & files(options) == set()
    assert len(files(options) - before[1]) == returned(again, "merge")["files_added"] == 1


def staged_by_a_process_that_is_killed(order: MergeOrder, staged: Callable[[], set[str]]) -> set[str]:
    """Merge in a separate process; kill it as soon as there are files; which these are."""
    process = multiprocessing.get_context("spawn").Process(target=merge_alone, args=(order,))
    process.start()
    deadline = time.monotonic() + 60
    while not (left := staged()):
        assert process.is_alive(), "the merge ended without a file"
        assert time.monotonic() < deadline, "the merge stages nothing"
        time.sleep(0.1)
    process.kill()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    return left


def merge_alone(order: MergeOrder) -> None:
    """A merge of changes asks the source nothing."""
    merge_silver(order, connect=refuse_to_connect)


def refuse_to_connect() -> SourceSession:
    raise AssertionError("the source was asked")


def test_a_merge_whose_answer_is_lost_keeps_its_files(
    server: EmbeddedSqlServer, table: MssqlCdcTable, options: Options, endpoint: str
) -> None:
    """The store has the commit and does not say so; the client sends it again and is told 412."""
    dag = dag_of(table, "lost_answer_on_s3")
    dag_run = run(dag)
    change_the_source(server)
    assert clear_and_rerun(dag, dag_run.run_id, ["changes"]).state == "success"
    before = version(options)
    with losing_proxy(endpoint, pattern="silver/orders", times=1, mode="own") as proxy:
        storage = {**options, "AWS_ENDPOINT_URL": proxy}
        attempt = Attempt(dag.dag_id, dag_run.run_id, "merge", try_number=2)
        order = MergeOrder(replace(table, delta_conn_id=None, storage_options=storage), SILVER, attempt)
        merged = merge_silver(order, connect=refuse_to_connect)
    assert isinstance(merged, MergedSilver)
    assert (merged.counts.inserted, merged.counts.deleted) == (11, 28)  # its own commit, not another's found
    assert version(options) == before + 1
    assert silver_rows(options) == source_rows(server)
    merge_alone(order=replace(order, table=replace(table, delta_conn_id=None, storage_options=options)))
    assert version(options) == before + 1
    assert silver_rows(options) == source_rows(server)
