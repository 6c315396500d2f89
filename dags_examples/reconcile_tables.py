"""Prove each night, without stopping writes, that a thirtieth of silver is what the source holds.

Changes and merges go on in another DAG, such as ``tables_to_silver``: ``compare`` waits until they have
passed what it has read, then compares row by row. ``<silver>_reconcile`` has a row for each tile.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables are.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_reconcile

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")
TABLES = ("flights", "airlines", "airports")

with DAG(
    dag_id="reconcile_tables",
    schedule="0 2 * * *",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
) as dag:
    for name in TABLES:
        mssql_cdc_reconcile(
            group_id=name,
            table=MssqlCdcTable(
                mssql_conn_id="erp",
                capture_instance=f"dbo_{name}",
                bronze=f"{LAKE}/bronze/{name}",
                facts=f"{LAKE}/ops/facts",
            ),
            silver=f"{LAKE}/silver/{name}",
            pool="default_pool",
        )
