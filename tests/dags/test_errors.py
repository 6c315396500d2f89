"""Which errors Airflow tries again, and what a task that is stopped or not answered leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable, errors
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcCompleteOperator,
    MssqlCdcPlanOperator,
    MssqlCdcSnapshotOperator,
)
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator
from tests.dags.harness import run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
READS = r"AS \[name\](?s:.*)FROM \[dbo\]\.\[orders\]"


def leaves_below(error: type[errors.MssqlCdcError]) -> list[type[errors.MssqlCdcError]]:
    children = [child for child in error.__subclasses__() if child.__module__ == errors.__name__]
    return [leaf for child in children for leaf in leaves_below(child)] or [error]


LEAVES = leaves_below(errors.MssqlCdcError)


def raised(error: type[errors.MssqlCdcError]) -> errors.MssqlCdcError:
    if issubclass(error, errors.PreflightFailed):
        return error("dbo.orders", ["something is wrong"])
    return error("something is wrong")


class FailsOnce(MssqlCdcOperator):
    """Fails at its first try, by the class of its task's name."""

    def run_job(self, context: Any) -> None:
        if context["ti"].try_number == 1:
            raise raised(getattr(errors, self.task_id))


def test_airflow_tries_again_what_is_retryable_and_nothing_else(make_table: MakeTable) -> None:
    with DAG(dag_id="one_task_per_class", schedule=None) as dag:
        for error in LEAVES:
            FailsOnce(task_id=error.__name__, table=make_table(), retries=1, retry_delay=0)
    ended = states(run(dag))
    expected = {error.__name__: "success" if error.retryable else "failed" for error in LEAVES}
    assert {task_id: state for (task_id, _), state in ended.items()} == expected
    assert set(expected.values()) == {"success", "failed"}


def test_a_store_that_cannot_be_reached_is_named_with_what_to_look_at(
    server: EmbeddedSqlServer, make_table: MakeTable, capfd: pytest.CaptureFixture[str]
) -> None:
    nobody = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "here"}
    keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "hidden", "max_retries": "0"}
    table = make_table(bronze="s3://lake/orders", storage_options={**nobody, **keys})
    with DAG(dag_id="nobody_listens", schedule=None) as dag:
        MssqlCdcPlanOperator(task_id="plan", table=table, retries=1, retry_delay=0)
    dag_run = run(dag)
    assert states(dag_run)["plan", -1] == "failed"
    assert tries(dag_run, "plan") == [2]
    told = "".join(capfd.readouterr())
    assert "StorageFailed: dbo_orders" in told
    assert "Connection refused" in told
    assert "Check the paths, delta_conn_id or storage_options" in told
    assert "hidden" not in told


def load_dag(table: MssqlCdcTable, *, dag_id: str, **of_reads: Any) -> DAG:
    """A bootstrap whose reads alone have these arguments."""
    with DAG(dag_id=dag_id, schedule=None) as dag:
        plan = MssqlCdcPlanOperator(task_id="plan", table=table, rows_per_range=500, retries=2, retry_delay=0)
        read = MssqlCdcSnapshotOperator.partial(
            task_id="read", table=table, retries=2, retry_delay=timedelta(0), **of_reads
        ).expand(key_range=plan.output)
        MssqlCdcCompleteOperator(task_id="complete", table=table, staged=read.output)
    return dag


def tries(dag_run: Any, task_id: str) -> list[int]:
    return sorted(ti.try_number for ti in dag_run.get_task_instances() if ti.task_id == task_id)


@pytest.mark.parametrize(
    ("number", "tried"),
    [(1205, 2), (1222, 2), (40613, 2), (10928, 2), (10054, 2), (229, 1), (208, 1), (3952, 1), (50000, 1)],
)
def test_an_error_of_the_server_is_tried_again_or_not_by_its_number(
    server: EmbeddedSqlServer, make_table: MakeTable, number: int, tried: int
) -> None:
    server.faults.fail(r"FROM \[dbo\]\.\[orders\]", number)
    dag_run = run(load_dag(make_table(), dag_id=f"error_{number}"))
    assert tries(dag_run, "plan") == [tried]
    assert dag_run.state == ("success" if tried == 2 else "failed")


def staged(table: MssqlCdcTable) -> set[str]:
    return {path.name for path in Path(table.bronze).glob("*.parquet")}


def named(table: MssqlCdcTable) -> set[str]:
    return {Path(uri).name for uri in DeltaTable(table.bronze).file_uris()}


def ended_on_the_server(server: EmbeddedSqlServer) -> bool:
    """Whether the stalled read was ended there, and no connection is left."""
    deadline = time.monotonic() + 60
    while server._listener.connections and time.monotonic() < deadline:
        time.sleep(0.05)
    rows = [statement.rows for statement in server.faults.log() if "[name]" in statement.sql]
    return server._listener.connections == 0 and rows[0] == 100


def test_a_task_that_runs_too_long_ends_its_query_on_the_server_and_its_files_go_with_the_next_commit(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    server.faults.stall(READS, after_rows=100)
    dag_run = run(load_dag(table, dag_id="too_long", execution_timeout=timedelta(seconds=15)))
    assert dag_run.state == "success"
    assert tries(dag_run, "read") == [1, 2]
    assert ended_on_the_server(server)
    assert sorted(row["id"] for row in delta_rows(table.bronze)) == list(range(1000))
    assert staged(table) == named(table)


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_a_server_that_stops_answering_among_the_rows_costs_a_try_and_hangs_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"mssql_cdc": {"driver": driver, "query_timeout_seconds": 5}}
    monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection(extra=extra))
    table = make_table()
    server.faults.stall(READS, after_rows=100)
    started = time.monotonic()
    dag_run = run(load_dag(table, dag_id=f"silent_{driver}"))
    assert dag_run.state == "success"
    assert tries(dag_run, "read") == [1, 2]
    assert time.monotonic() - started < 300
    assert sorted(row["id"] for row in delta_rows(table.bronze)) == list(range(1000))
    assert staged(table) == named(table)


def test_a_task_that_was_told_to_stop_opens_no_session_any_more(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    operator = MssqlCdcPlanOperator(task_id="plan", table=make_table())
    session = operator.connect()
    session.open()
    operator.on_kill()
    with pytest.raises(errors.ConnectionBroken, match="it was cancelled"):
        session.open()
    with pytest.raises(errors.ConnectionBroken, match="killed"):
        operator.connect()
