"""From source tables to their current state in Delta, for a handful of tables: bootstrap, changes, merge.

Each run does what is left to do. The first one loads the tables and reads the changes since; every later one
finds them loaded, reads on from where changes are, and brings to silver what they changed. Tasks can be
cleared and runs can overlap. Trigger it with ``resnapshot`` to load all of them again.

Until changes have passed the moment of the last read, silver may be a mixture of two moments: ``merge`` says
so, and ``wait_consistent=True`` on it would leave silver alone until then.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables go.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")
TABLES = ("flights", "airlines", "airports")

with DAG(
    dag_id="tables_to_silver",
    schedule=timedelta(minutes=15),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
    params={"resnapshot": Param(False, type="boolean", description="Load again what bronze holds already")},
    tags=["mssql_cdc"],
    doc_md=__doc__,
):
    for name in TABLES:
        table = MssqlCdcTable(
            mssql_conn_id="erp",
            capture_instance=f"dbo_{name}",
            bronze=f"{LAKE}/bronze/{name}",
            facts=f"{LAKE}/ops/facts",
        )
        bootstrap = mssql_cdc_bootstrap(
            group_id=name, table=table, rows_per_range=50_000, resnapshot="{{ params.resnapshot }}"
        )
        changes = MssqlCdcChangesOperator(task_id=f"{name}_changes", table=table)
        merge = MssqlCdcMergeOperator(task_id=f"{name}_merge", table=table, silver=f"{LAKE}/silver/{name}")
        bootstrap >> changes >> merge
