"""A reconcile as Airflow runs it: planned, mapped, waiting for a merge of another DAG, failing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap, mssql_cdc_reconcile
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcChangesOperator,
    MssqlCdcMergeOperator,
    MssqlCdcReconcileOperator,
)
from tests.dags.harness import labels, returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]


def silver_of(table: MssqlCdcTable) -> str:
    return table.bronze.replace("/bronze/", "/silver/")


def follow(table: MssqlCdcTable, dag_id: str, *, load: bool = False) -> Any:
    """What another DAG does: changes and a merge."""
    with DAG(dag_id=dag_id, schedule=None) as dag:
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0)
        changes >> MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver_of(table))
        if load:
            mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=500) >> changes
    dag_run = run(dag)
    assert dag_run.state == "success"
    return dag_run


def reconciled(server: EmbeddedSqlServer, table: MssqlCdcTable, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run of which each task, at its first wait, sees the source change and the other DAG follow."""
    waits = []

    def meanwhile(operator: Any, waiting: Any) -> None:
        if operator._deadline is None:
            waits.append(waiting.reason)
            server.execute(f"UPDATE dbo.orders SET name = N'changed' WHERE id = {len(waits)}")
            server.clock.shift(timedelta(seconds=3))
            server.idle()
            follow(table, f"follows_{len(waits)}")
        wait(operator, waiting)

    wait = MssqlCdcReconcileOperator.wait
    monkeypatch.setattr(MssqlCdcReconcileOperator, "wait", meanwhile)
    with DAG(dag_id="proves", schedule=None) as dag:
        mssql_cdc_reconcile(
            group_id="orders",
            table=table,
            silver=silver_of(table),
            share=1,
            rows_per_tile=500,
            poll_seconds=1,
            default_args={"retries": 0},
        )
    dag_run = run(dag)
    assert waits
    return dag_run


def test_silver_is_proven_by_mapped_tasks_that_wait_for_another_dag(
    server: EmbeddedSqlServer, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table()
    follow(table, "loads", load=True)
    dag_run = reconciled(server, table, monkeypatch)
    assert dag_run.state == "success"
    found = [returned(dag_run, "orders.compare", index) for index in range(3)]
    assert sum(each["rows_source"] for each in found if each["tile"] is not None) == 1000
    assert sum(each["equal"] + each["moved"] for each in found if each["tile"] is not None) == 1000
    assert labels(dag_run, "orders.compare") == ["tile 0", "tile 1", "keys of silver, part 1 of 1"]
    assert len(delta_rows(table.facts, "event = 'reconcile'")) == 3


def test_a_difference_fails_its_task_alone_with_the_remedy(
    server: EmbeddedSqlServer,
    make_table: MakeTable,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = make_table()
    follow(table, "loads", load=True)
    DeltaTable(silver_of(table)).update(updates={"name": "'order 9OO'"}, predicate="id = 900")
    dag_run = reconciled(server, table, monkeypatch)
    assert dag_run.state == "failed"
    assert [states(dag_run)["orders.compare", index] for index in range(3)] == ["success", "failed", "failed"]
    said = capsys.readouterr().out
    assert "silver is not the source's state: 1 different of" in said
    assert "resnapshot=True" in said
    assert "order 9OO" not in said


def test_columns_and_counts_alone_are_refused_when_the_dag_is_parsed(make_table: MakeTable) -> None:
    table = make_table()
    refused = pytest.raises(ConfigurationError, match="columns and counts_only exclude each other")
    with DAG("wrong", schedule=None), refused:
        mssql_cdc_reconcile(
            group_id="g", table=table, silver=silver_of(table), columns=("name",), counts_only=True
        )
