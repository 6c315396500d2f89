"""A chunked load as Airflow runs it: several runs until done, cleared in every way, changed in between."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk import DAG, Param
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.operators import MssqlCdcAbandonOperator, MssqlCdcStatusOperator
from tests.dags.harness import clear_and_rerun, labels, returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]


def chunked_dag(table: MssqlCdcTable, *, dag_id: str, **arguments: object) -> DAG:
    given: dict[str, object] = {"chunk_rows": 250, "chunks_per_wave": 1, "retry_delay": 0.1, **arguments}
    with DAG(dag_id=dag_id, schedule=None, params={"resnapshot": Param(False, type="boolean")}) as dag:
        mssql_cdc_bootstrap(
            group_id="orders",
            table=table,
            mode="chunked",
            resnapshot="{{ params.resnapshot }}",
            **given,  # type: ignore[arg-type]
        )
    return dag


def selects(server: EmbeddedSqlServer) -> int:
    """How many statements have read rows of the table."""
    return sum("AS [name]" in statement.sql for statement in server.faults.log())


def chunk_states(dag_run: object) -> list[str]:
    found = states(dag_run)
    return [state for (task, index), state in sorted(found.items()) if task == "orders.chunk"]


def wave_commits(table: MssqlCdcTable) -> int:
    return sum(one.get("mssql_cdc.event") == "snapshot_wave" for one in DeltaTable(table.bronze).history())


def test_a_table_is_loaded_one_commit_per_wave(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    dag_run = run(chunked_dag(table, dag_id="chunked"))
    assert dag_run.state == "success"
    assert chunk_states(dag_run) == ["success"] * 4
    assert labels(dag_run, "orders.chunk") == [f"wave {number} of 4" for number in range(1, 5)]
    completed = returned(dag_run, "orders.complete")
    assert completed["rows"] == 1000
    assert set(completed["consistent_after"]) == {"lsn", "commit_time"}
    assert sorted(row["id"] for row in delta_rows(table.bronze)) == list(range(1000))
    assert wave_commits(table) == 4
    (facts,) = delta_rows(table.facts, "event = 'bootstrap'")
    assert (facts["rows"], facts["min_lsn"], facts["end_lsn"]) == (1000, completed["lsn"], completed["lsn"])


def test_several_runs_go_on_until_it_is_done_and_then_read_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="several", max_waves=2)
    first = run(dag)
    assert (first.state, states(first)["orders.complete", -1]) == ("success", "skipped")
    other = chunked_dag(table, dag_id="several", chunk_rows=10)
    second = run(other)
    completed = returned(second, "orders.complete")
    assert (chunk_states(second), completed["rows"]) == (["success"] * 2, 1000)
    before = selects(server)
    third = run(other)
    assert returned(third, "orders.complete")["lsn"] == completed["lsn"]
    assert (selects(server), wave_commits(table)) == (before, 4)


def test_a_run_whose_time_is_over_ends_well_and_the_next_one_goes_on(
    server: EmbeddedSqlServer, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="stops", max_seconds=1)
    server.faults.stall(r"AS \[name\]", seconds=1.2)
    first = run(dag)
    assert first.state == "success"
    assert sorted(chunk_states(first)) == ["skipped"] * 3 + ["success"]
    assert states(first)["orders.complete", -1] == "skipped"
    assert returned(run(chunked_dag(table, dag_id="stops")), "orders.complete")["rows"] == 1000


def test_a_wave_that_fails_for_good_is_read_by_the_next_run(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="fails", retries=0)
    server.faults.drop(r"AS \[name\](?s:.*)FROM \[dbo\]", after_rows=100, occurrence=2)
    first = run(dag)
    assert first.state == "failed"
    assert sorted(chunk_states(first)) == ["failed", "success", "success", "success"]
    before = selects(server)
    second = run(dag)
    assert (returned(second, "orders.complete")["rows"], selects(server) - before) == (1000, 1)


@pytest.mark.parametrize(
    "cleared",
    [
        ["orders.complete"],
        [("orders.chunk", 1)],
        [("orders.chunk", 3), "orders.complete"],
        ["orders.plan"],
        ["orders.plan", "orders.chunk", "orders.complete"],
    ],
    ids=["complete", "one wave", "a wave and what follows", "plan", "all of it"],
)
def test_what_is_cleared_after_completion_changes_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable, cleared: list[str | tuple[str, int]]
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="chunked_cleared")
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
    again = returned(dag_run, "orders.complete")
    assert (again["lsn"], again["rows"]) == (first["lsn"], 1000)
    assert (DeltaTable(table.bronze).version(), selects(server)) == (version, before)
    assert len(delta_rows(table.facts, "event = 'bootstrap'")) == 1


@pytest.mark.parametrize(
    "cleared",
    [[("orders.chunk", 1), "orders.complete"], ["orders.plan", "orders.chunk", "orders.complete"]],
    ids=["the wave", "all of it"],
)
def test_a_half_finished_run_is_cleared_and_reads_what_is_missing(
    server: EmbeddedSqlServer, make_table: MakeTable, cleared: list[str | tuple[str, int]]
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="half", retries=0)
    server.faults.fail(r"\[id\] >= CAST\(@P\d+ AS int\)(?s:.*)< ", 229, occurrence=1, times=1)
    dag_run = run(dag)
    if dag_run.state != "failed":
        pytest.fail("the fault did not act")
    failed = [index for (task, index), state in states(dag_run).items() if state == "failed" and index >= 0]
    before = selects(server)
    wanted = [("orders.chunk", failed[0]) if task == ("orders.chunk", 1) else task for task in cleared]
    dag_run = clear_and_rerun(dag, dag_run.run_id, wanted)
    assert dag_run.state == "success"
    assert returned(dag_run, "orders.complete")["rows"] == 1000
    assert (selects(server) - before, wave_commits(table)) == (1, 4)


def test_a_resnapshot_is_opened_by_one_run_and_gone_on_with_by_the_next(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = chunked_dag(table, dag_id="chunked_again", max_waves=3)
    run(dag)
    first = returned(run(dag), "orders.complete")
    server.execute("DELETE FROM dbo.orders WHERE id >= 600")
    opened = run(dag, conf={"resnapshot": True})
    again = clear_and_rerun(dag, opened.run_id, ["orders.plan", "orders.chunk", "orders.complete"])
    second = returned(again, "orders.complete")
    assert second["lsn"] > first["lsn"]
    assert second["rows"] == 600
    assert len(delta_rows(table.facts, "event = 'snapshot_open'")) == 2
    assert len(delta_rows(table.facts, "event = 'resnapshot'")) == 1


def test_the_people_on_call_see_how_far_it_is_and_give_it_up(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    run(chunked_dag(table, dag_id="given_up", max_waves=3))
    with DAG(dag_id="on_call", schedule=None) as dag:
        status = MssqlCdcStatusOperator(task_id="status", table=table)
        abandoned = MssqlCdcAbandonOperator(
            task_id="abandon",
            table=table,
            snapshot="{{ ti.xcom_pull('status')['snapshot'] }}",
            delete_rows=True,
        )
        status >> abandoned
    dag_run = run(dag)
    assert dag_run.state == "success"
    told = returned(dag_run, "status")
    assert (told["state"], told["waves_done"], told["waves"], told["rows"]) == ("loading", 3, 4, 750)
    assert returned(dag_run, "abandon") == {"snapshot": told["snapshot"], "files": 0, "rows": 750}
    assert delta_rows(table.bronze) == []


def test_the_example_dag_loads_its_table(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSQL_CDC_LAKE", str(tmp_path))
    server.execute("CREATE TABLE dbo.flights (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.flights VALUES (?, 'x')", [(n,) for n in range(500)])
    server.enable_cdc("dbo.flights")
    dag = importlib.reload(importlib.import_module("dags_examples.bootstrap_chunked")).dag
    dag_run = run(dag)
    assert dag_run.state == "success"
    assert len(delta_rows(tmp_path / "bronze/flights")) == 500
