"""The main job as Airflow runs it: plan, mapped reads, one commit, the facts row; and again, and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow import settings
from airflow.models.asset import AssetEvent
from airflow.sdk import DAG, Asset, AssetAlias, Param
from deltalake import DeltaTable
from sqlalchemy import select

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.dags.harness import clear_and_rerun, labels, returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]


def bootstrap_dag(table: MssqlCdcTable, *, dag_id: str, **arguments: object) -> DAG:
    with DAG(dag_id=dag_id, schedule=None, params={"resnapshot": Param(False, type="boolean")}) as dag:
        mssql_cdc_bootstrap(
            group_id="orders",
            table=table,
            rows_per_range=250,
            retry_delay=0.1,
            resnapshot="{{ params.resnapshot }}",
            **arguments,  # type: ignore[arg-type]
        )
    return dag


def selects(server: EmbeddedSqlServer) -> int:
    """How many statements have read rows of the table."""
    return sum(
        "FROM [dbo].[orders]" in statement.sql and "[name]" in statement.sql
        for statement in server.faults.log()
    )


def test_a_table_is_loaded_by_one_commit_and_one_facts_row(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag_run = run(bootstrap_dag(table, dag_id="loads"))
    assert dag_run.state == "success"
    assert [states(dag_run)["orders.read", index] for index in range(4)] == ["success"] * 4

    completed = returned(dag_run, "orders.complete")
    rows = delta_rows(table.bronze)
    assert sorted(row["id"] for row in rows) == list(range(1000))
    assert {row["_start_lsn"] for row in rows} == {row["_snapshot"] for row in rows} == {completed["lsn"]}
    assert {row["_operation"] for row in rows} == {0}
    assert {row["_capture_instance"] for row in rows} == {"dbo_orders"}
    commits = [commit for commit in DeltaTable(table.bronze).history() if commit["operation"] == "WRITE"]
    assert len(commits) == 1

    (facts,) = delta_rows(table.facts, "event = 'bootstrap'")
    assert (facts["rows"], facts["min_lsn"], facts["end_lsn"]) == (1000, completed["lsn"], completed["lsn"])
    assert completed["rows"] == 1000
    assert completed["version"] == commits[0]["version"]
    assert set(completed["consistent_after"]) == {"lsn", "commit_time"}


@pytest.mark.parametrize(
    ("arguments", "second"),
    [
        ({}, "range 2 of 4"),
        ({"show_bounds": True}, "range 2 of 4 [250 to 500)"),
        ({"map_index_template": "{{ mssql_cdc_range }} of orders"}, "range 2 of 4 of orders"),
    ],
)
def test_a_mapped_read_is_labelled_with_its_range_and_bounds_only_where_they_are_asked_for(
    arguments: dict[str, object], second: str, server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    dag = bootstrap_dag(make_table(), dag_id="labels", **arguments)
    found = labels(run(dag), "orders.read")
    assert (len(found), found[1]) == (4, second)
    assert "already in bronze" in str(labels(run(dag), "orders.read")[0])


def test_a_second_run_reads_nothing_and_returns_the_same_lsn(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    dag = bootstrap_dag(make_table(), dag_id="twice")
    first = returned(run(dag), "orders.complete")
    before = selects(server)
    server.execute("UPDATE dbo.orders SET name = 'later' WHERE id < 500")
    second = returned(run(dag), "orders.complete")
    assert second == {**first, "version": second["version"]}
    assert selects(server) == before


def test_a_dropped_connection_repeats_that_range_alone(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    fault = server.faults.drop(
        r"SELECT(?s:.*)\[name\](?s:.*)FROM \[dbo\]\.\[orders\]", after_rows=100, occurrence=3
    )
    dag_run = run(bootstrap_dag(table, dag_id="drops"))
    assert fault.acted == 1
    assert dag_run.state == "success"
    tries = sorted(ti.try_number for ti in dag_run.get_task_instances() if ti.task_id == "orders.read")
    assert tries == [1, 1, 1, 2]
    assert selects(server) == 5
    assert sorted(row["id"] for row in delta_rows(table.bronze)) == list(range(1000))
    staged = {path.name for path in Path(table.bronze).glob("*.parquet")}
    named = {Path(uri).name for uri in DeltaTable(table.bronze).file_uris()}
    assert staged == named


@pytest.mark.parametrize(
    "cleared",
    [
        ["orders.complete"],
        [("orders.read", 1), ("orders.read", 2)],
        [("orders.read", 3), "orders.complete"],
        ["orders.plan", "orders.read", "orders.complete"],
    ],
    ids=["complete", "two ranges", "a range and what follows", "all of it"],
)
def test_what_is_cleared_after_completion_changes_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable, cleared: list[str | tuple[str, int]]
) -> None:
    table = make_table()
    dag = bootstrap_dag(table, dag_id="cleared")
    dag_run = run(dag)
    first, version, before = (
        returned(dag_run, "orders.complete"),
        DeltaTable(table.bronze).version(),
        selects(server),
    )
    server.execute("DELETE FROM dbo.orders WHERE id % 2 = 0")
    for _ in range(2):
        dag_run = clear_and_rerun(dag, dag_run.run_id, cleared)
        assert dag_run.state == "success"
    assert returned(dag_run, "orders.complete")["lsn"] == first["lsn"]
    assert returned(dag_run, "orders.complete")["rows"] == 1000
    assert DeltaTable(table.bronze).version() == version
    assert selects(server) == before
    assert len(delta_rows(table.facts, "event = 'bootstrap'")) == 1


def test_a_plan_that_is_cleared_after_the_table_shrank_ignores_the_older_results(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = bootstrap_dag(table, dag_id="shrinks")
    server.faults.fail(r"fn_cdc_get_max_lsn", 229, occurrence=6, times=1)
    dag_run = run(dag)
    assert dag_run.state == "failed"
    server.faults.clear()
    server.execute("DELETE FROM dbo.orders WHERE id >= 300")
    dag_run = clear_and_rerun(dag, dag_run.run_id, ["orders.plan", "orders.read", "orders.complete"])
    assert dag_run.state == "success"
    assert sorted(row["id"] for row in delta_rows(table.bronze)) == list(range(300))


def test_a_resnapshot_replaces_the_snapshot_once_per_run(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = bootstrap_dag(table, dag_id="again")
    first = returned(run(dag), "orders.complete")
    server.execute("DELETE FROM dbo.orders WHERE id >= 600")
    dag_run = run(dag, conf={"resnapshot": True})
    second = returned(dag_run, "orders.complete")
    assert second["lsn"] > first["lsn"]
    assert second["rows"] == 600
    assert len(delta_rows(table.facts, "event = 'resnapshot'")) == 1

    server.execute("DELETE FROM dbo.orders WHERE id >= 300")
    dag_run = clear_and_rerun(dag, dag_run.run_id, ["orders.plan", "orders.read", "orders.complete"])
    assert returned(dag_run, "orders.complete")["lsn"] == second["lsn"]
    assert len(delta_rows(table.facts, "event = 'resnapshot'")) == 1


def test_snapshot_isolation_loads_the_table_and_is_refused_with_the_remedy(
    server: EmbeddedSqlServer, make_table: MakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(isolation="snapshot")
    refused = run(bootstrap_dag(table, dag_id="refused"))
    assert refused.state == "failed"
    assert states(refused)["orders.plan", -1] == "failed"
    assert not Path(table.bronze).exists()
    server.execute("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    loaded = run(bootstrap_dag(table, dag_id="allowed"))
    assert loaded.state == "success"
    assert len(delta_rows(table.bronze)) == 1000


def test_a_completion_is_announced_with_its_lsn_and_version(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    outlets = [Asset("orders_loaded"), AssetAlias("mssql_cdc_loads")]
    dag = bootstrap_dag(table, dag_id="announces", outlets=outlets)
    dag_run = run(dag)
    completed = returned(dag_run, "orders.complete")
    extra = {"lsn": completed["lsn"], "version": completed["version"], "rows": 1000}
    assert asset_events("announces") == {"orders_loaded": [extra], f"file://{table.bronze}": [extra]}
    clear_and_rerun(dag, dag_run.run_id, ["orders.complete"])
    events = asset_events("announces")
    assert events[f"file://{table.bronze}"] == [extra, extra]
    assert events["orders_loaded"] == [extra, extra]


def asset_events(dag_id: str) -> dict[str, list[dict[str, object]]]:
    """The extras of a DAG's asset events, by the asset's name."""
    found: dict[str, list[dict[str, object]]] = {}
    session = settings.Session()
    for event in session.scalars(
        select(AssetEvent).where(AssetEvent.source_dag_id == dag_id).order_by(AssetEvent.id)
    ):
        found.setdefault(event.name, []).append(event.extra)
    return found
