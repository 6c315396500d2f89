"""The same, composed by hand: for a DAG that needs its own tasks between the three."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcCompleteOperator,
    MssqlCdcPlanOperator,
    MssqlCdcSnapshotOperator,
)

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")

flights = MssqlCdcTable(
    mssql_conn_id="erp",
    capture_instance="dbo_flights",
    bronze=f"{LAKE}/bronze_by_hand/flights",
    facts=f"{LAKE}/ops/facts",
)

with DAG(dag_id="bootstrap_by_hand", schedule=None, catchup=False, tags=["mssql_cdc"], doc_md=__doc__):
    plan = MssqlCdcPlanOperator(task_id="plan", table=flights, rows_per_range=50_000)
    read = MssqlCdcSnapshotOperator.partial(
        task_id="read", table=flights, retries=3, max_active_tis_per_dagrun=4
    ).expand(key_range=plan.output)
    MssqlCdcCompleteOperator(task_id="complete", table=flights, staged=read.output)
