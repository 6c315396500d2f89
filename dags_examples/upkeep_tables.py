"""Keep the files of bronze, silver and facts few and their size bounded, once a day.

It runs next to a DAG such as ``tables_to_silver``, which goes on meanwhile. Changes that are a week old are
folded into bronze's snapshot once they are a tenth of its rows: read docs/upkeep.md before you copy ``fold``.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables are.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.operators import MssqlCdcUpkeepOperator

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")
TABLES = ("flights", "airlines", "airports")

with DAG(
    dag_id="upkeep_tables",
    schedule="0 3 * * *",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3},
) as dag:
    for name in TABLES:
        MssqlCdcUpkeepOperator(
            task_id=name,
            table=MssqlCdcTable(
                mssql_conn_id="erp",
                capture_instance=f"dbo_{name}",
                bronze=f"{LAKE}/bronze/{name}",
                facts=f"{LAKE}/ops/facts",
            ),
            silver=f"{LAKE}/silver/{name}",
            fold=True,
            facts_keep_days=90,
        )
