"""The same tables twice: all of them as one pipeline, and some as the loop of single-table task groups."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import (
    MssqlCdcDatabase,
    MssqlCdcTable,
    mssql_cdc_bootstrap,
    mssql_cdc_pipeline,
)
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ["BENCH_LAKE"]
LOOP = int(os.environ["BENCH_LOOP"])

with DAG(dag_id="pipeline", schedule=None):
    mssql_cdc_pipeline(
        group_id="erp",
        database=MssqlCdcDatabase(
            mssql_conn_id="erp",
            include=("dbo.*",),
            bronze=f"{LAKE}/bronze/{{schema}}/{{table}}",
            silver=f"{LAKE}/silver/{{schema}}/{{table}}",
            facts=f"{LAKE}/ops/facts",
        ),
        retry_delay=timedelta(seconds=5),
    )

with DAG(dag_id="loop", schedule=None, max_active_tasks=64):
    for number in range(LOOP):
        table = MssqlCdcTable(
            mssql_conn_id="erp",
            capture_instance=f"dbo_t{number}",
            bronze=f"{LAKE}/loop/bronze/t{number}",
            facts=f"{LAKE}/loop/facts",
        )
        load = mssql_cdc_bootstrap(group_id=f"t{number}", table=table, retry_delay=timedelta(seconds=5))
        changes = MssqlCdcChangesOperator(task_id=f"t{number}_changes", table=table)
        merge = MssqlCdcMergeOperator(
            task_id=f"t{number}_merge", table=table, silver=f"{LAKE}/loop/silver/t{number}"
        )
        load >> changes >> merge
