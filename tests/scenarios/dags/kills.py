"""One table by all three: a chunked bootstrap, its changes, and silver; each tried again at once, often."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ["SCENARIO_LAKE"]
AGAIN = {"retries": 40, "retry_delay": timedelta(seconds=1)}
KILLS = MssqlCdcTable(
    mssql_conn_id="erp",
    capture_instance="dbo_kills",
    bronze=f"{LAKE}/bronze/kills",
    facts=f"{LAKE}/ops/facts_of_kills",
)

with DAG(dag_id="bootstrap_kills", schedule=None, params={"resnapshot": Param(False, type="boolean")}):
    mssql_cdc_bootstrap(
        group_id="load",
        table=KILLS,
        mode="chunked",
        chunk_rows=100,
        chunks_per_wave=1,
        resnapshot="{{ params.resnapshot }}",
        default_args=AGAIN,
    )

with DAG(dag_id="changes_kills", schedule=None):
    MssqlCdcChangesOperator(task_id="changes", table=KILLS, quiet_seconds=0, **AGAIN)

with DAG(dag_id="merge_kills", schedule=None):
    MssqlCdcMergeOperator(task_id="merge", table=KILLS, silver=f"{LAKE}/silver/kills", **AGAIN)
