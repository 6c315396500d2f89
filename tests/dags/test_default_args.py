"""What a DAG says for all its tasks: a pool, no XComs, native rendering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcAbandonOperator,
    MssqlCdcChangesOperator,
    MssqlCdcMergeOperator,
    MssqlCdcStatusOperator,
)
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor
from tests.dags.harness import returned, run, states

MakeTable = Callable[..., MssqlCdcTable]
LSN = "0x0000002A000001F00003"


def all_of(table: MssqlCdcTable, dag_id: str, **given: Any) -> DAG:
    with DAG(dag_id=dag_id, schedule=None, **given) as dag:
        load = mssql_cdc_bootstrap(group_id="load", table=table, rows_per_range=400, retry_delay=0.1)
        changes = MssqlCdcChangesOperator(task_id="changes", table=table)
        merge = MssqlCdcMergeOperator(
            task_id="merge", table=table, silver=table.bronze.replace("/bronze/", "/silver/")
        )
        load >> changes >> merge
    return dag


@pytest.mark.parametrize("mode", ["whole", "chunked"])
def test_default_args_reach_every_task_unless_an_argument_is_given(make_table: MakeTable, mode: str) -> None:
    said = {"pool": "erp", "retries": 7, "queue": "slow", "trigger_rule": "all_done"}
    table = make_table()
    with DAG(dag_id=f"pool_{mode}", schedule=None, default_args=said) as dag:
        mssql_cdc_bootstrap(group_id="load", table=table, mode=mode)
        mssql_cdc_bootstrap(group_id="own", table=table, mode=mode, pool="other", default_args={"retries": 1})
        MssqlCdcChangesOperator(task_id="changes", table=table)
        MssqlCdcMergeOperator(task_id="merge", table=table, silver=table.bronze + "_silver")
        MssqlCdcStatusOperator(task_id="status", table=table)
        MssqlCdcAbandonOperator(task_id="abandon", table=table, snapshot=LSN)
        MssqlCdcCaptureSensor(task_id="wait", table=table, lsn=LSN)
    for task in dag.tasks:
        own = task.task_id.startswith("own.")
        assert task.pool == ("other" if own else "erp"), task.task_id
        assert task.retries == (1 if own else 7), task.task_id
        assert (task.queue, task.trigger_rule) == ("slow", "all_done"), task.task_id


@pytest.mark.usefixtures("airflow_database")
def test_native_rendering_and_no_xcoms_by_default_change_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    server.execute("CREATE TABLE dbo.numbers ([2024] int NOT NULL PRIMARY KEY, v int NULL)")
    server.execute("INSERT INTO dbo.numbers VALUES (1, 1), (2, 2)")
    server.enable_cdc("dbo.numbers", capture_instance="20240131")
    table = replace(
        make_table(), capture_instance="20240131", key=("2024",), storage_options={"timeout": "30"}
    )
    dag = all_of(table, "native", render_template_as_native_obj=True, default_args={"do_xcom_push": False})
    dag_run = run(dag)
    assert set(states(dag_run).values()) == {"success"}
    assert returned(dag_run, "merge")["rows"] == 2
