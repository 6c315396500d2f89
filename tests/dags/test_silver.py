"""The merge as Airflow runs it: skipped, deferred until consistent, cleared, and the whole example DAG."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.merge_silver import MergeOrder, merge_silver
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcChangesOperator,
    MssqlCdcMergeOperator,
    MssqlCdcReconcileOperator,
)
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from tests.dags.harness import clear_and_rerun, returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
COLUMNS = "id, name, amount"


def silver_of(table: MssqlCdcTable) -> str:
    return table.bronze.replace("/bronze/", "/silver/")


def dag_of(table: MssqlCdcTable, dag_id: str, **arguments: Any) -> DAG:
    """Bootstrap, changes, merge; all of it again in every run."""
    with DAG(dag_id=dag_id, schedule=None) as dag:
        load = mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=300, retry_delay=0.1)
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0)
        merge = MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver_of(table), **arguments)
        load >> changes >> merge
    return dag


def pass_the_horizon(server: EmbeddedSqlServer) -> None:
    server.clock.shift(timedelta(seconds=3))
    server.idle()


def assert_silver_is_the_source(server: EmbeddedSqlServer, table: MssqlCdcTable) -> None:
    rows = {row["id"]: (row["name"], row["amount"]) for row in delta_rows(silver_of(table), columns=COLUMNS)}
    assert rows == {row[0]: row[1:] for row in server.execute(f"SELECT {COLUMNS} FROM dbo.orders")}


def test_silver_follows_the_source_run_after_run(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    dag = dag_of(table, "follows_silver")
    assert returned(run(dag), "merge")["rebuilt"]
    server.execute("UPDATE dbo.orders SET id = id + 5000 WHERE id % 100 = 7")
    server.execute("DELETE FROM dbo.orders WHERE id < 10")
    pass_the_horizon(server)
    second = returned(run(dag), "merge")
    assert (second["rebuilt"], second["consistent"]) == (None, True)
    assert second["rows"] == 991
    assert_silver_is_the_source(server, table)


def test_what_is_cleared_later_changes_nothing(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    dag = dag_of(table, "cleared_silver")
    run(dag)
    server.execute("DELETE FROM dbo.orders WHERE id = 3")
    pass_the_horizon(server)
    second = run(dag)
    merged = returned(second, "merge")
    again = clear_and_rerun(dag, second.run_id, ["changes", "merge"])
    assert again.state == "success"
    assert returned(again, "merge")["version"] == merged["version"]
    assert_silver_is_the_source(server, table)


def test_without_a_snapshot_the_merge_is_skipped(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    with DAG(dag_id="only_merge", schedule=None) as alone:
        MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver_of(table))
    assert states(run(alone)) == {("merge", -1): "skipped"}


class _WhileItWaits(MssqlCdcMergeOperator):
    """Another worker reads the changes after this task's first look."""

    meanwhile: Callable[[], object]

    def wait(self, awaited: Any) -> None:
        if self._deadline is None:
            type(self).meanwhile()
        super().wait(awaited)


@pytest.mark.parametrize("deferrable", [True, False])
def test_it_waits_until_changes_have_passed_the_horizon(
    server: EmbeddedSqlServer, make_table: MakeTable, deferrable: bool
) -> None:
    table = make_table()
    run(dag_of(table, f"loads_{deferrable}"))
    server.execute("DELETE FROM dbo.orders WHERE id = 1")
    pass_the_horizon(server)
    request = ChangesRequest(table, Attempt("other", "run", "changes"), quiet_seconds=0)
    _WhileItWaits.meanwhile = lambda: run_changes(request, connect=lambda: session_of(server))
    with DAG(dag_id=f"waits_{deferrable}", schedule=None) as dag:
        _WhileItWaits(
            task_id="merge",
            table=table,
            silver=f"{silver_of(table)}_waiting",
            wait_consistent="{{ true }}",
            poll_seconds=1,
            deferrable=deferrable,
        )
    merged = returned(run(dag), "merge")
    assert merged["consistent"] is True
    assert merged["rows"] == 999


def session_of(server: EmbeddedSqlServer) -> SourceSession:
    return SourceSession(
        ConnectionSettings(
            "erp",
            "127.0.0.1",
            port=server.port,
            database=server.database,
            login="sa",
            password=server.password_of("sa"),
            encryption="off",
        )
    )


def test_a_wait_that_is_over_fails_with_the_reason(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    dag = dag_of(table, "waits_in_vain", wait_consistent=True, wait_seconds=0)
    dag_run = run(dag)
    assert states(dag_run)["merge", -1] == "failed"


def test_the_example_dag_keeps_silver_of_every_table_of_its_list(
    server: EmbeddedSqlServer, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("MSSQL_CDC_LAKE", str(tmp_path))
    example = importlib.reload(importlib.import_module("dags_examples.tables_to_silver"))
    for name in example.TABLES:
        server.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL)")
        server.execute(f"INSERT INTO dbo.{name} VALUES (1, N'{name}'), (2, N'{name}')")
        server.enable_cdc(f"dbo.{name}")
    dag = example.merge.dag
    assert run(dag).state == "success"
    for name in example.TABLES:
        server.execute(f"DELETE FROM dbo.{name} WHERE id = 1")
    pass_the_horizon(server)
    dag_run = run(dag)
    for name in example.TABLES:
        assert returned(dag_run, f"{name}_merge")["consistent"]
        assert [row["id"] for row in delta_rows(tmp_path / "silver" / name)] == [2]

    def follow(operator: Any, _waiting: Any) -> None:
        """What the DAG above does next to the one that compares."""
        pass_the_horizon(server)
        attempt = Attempt("other", "run", "follow")
        run_changes(
            ChangesRequest(operator.table, attempt, quiet_seconds=0), connect=lambda: session_of(server)
        )
        order = MergeOrder(operator.table, operator.silver, attempt)
        merge_silver(order, connect=lambda: session_of(server))

    monkeypatch.setattr(MssqlCdcReconcileOperator, "wait", follow)
    proof = importlib.reload(importlib.import_module("dags_examples.reconcile_tables"))
    proven = run(proof.dag)
    assert proven.state == "success"
    for name in proof.TABLES:
        assert [returned(proven, f"{name}.compare", index)["equal"] for index in (0, 1)] in ([1, 0], [1, 1])

    kept_up = importlib.reload(importlib.import_module("dags_examples.upkeep_tables"))
    tidied = run(kept_up.dag)
    assert tidied.state == "success"
    for name in kept_up.TABLES:
        told = returned(tidied, name)
        assert "older than 168 hours" in told["bronze"]["fold"]["reason"]
        assert told["facts"]["compact"]["files"] == 1
        assert [row["id"] for row in delta_rows(tmp_path / "silver" / name)] == [2]
