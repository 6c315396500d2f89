"""A DAG for each table, and one that proves silver: each is brought into its state by the test."""

from __future__ import annotations

import json
import os

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap, mssql_cdc_reconcile
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ["BROWSER_LAKE"]
NAMES = json.loads(os.environ["BROWSER_TABLES"])
"""Capture instances by the name that DAG and paths have."""
ONCE = {"retries": 0}

for name, instance in NAMES.items():
    table = MssqlCdcTable(
        mssql_conn_id="erp",
        capture_instance=instance,
        bronze=f"{LAKE}/bronze/{name}",
        facts=f"{LAKE}/ops/facts",
    )
    silver = f"{LAKE}/silver/{name}"
    chunked = {"mode": "chunked", "chunk_rows": 250} if name == "readings" else {}
    with DAG(f"load_{name}", schedule=None):
        mssql_cdc_bootstrap(group_id="load", table=table, default_args=ONCE, **chunked)
    with DAG(f"follow_{name}", schedule=None):
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0, **ONCE)
        changes >> MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver, **ONCE)
    with DAG(f"prove_{name}", schedule=None):
        mssql_cdc_reconcile(
            group_id="prove",
            table=table,
            silver=silver,
            share=1,
            fail_on_difference=False,
            poll_seconds=2,
            deferrable=False,
            default_args=ONCE,
        )
