"""A DAG file that is edited between two runs."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap

LAKE = os.environ["SCENARIO_LAKE"]

with DAG(dag_id="bootstrap_edited", schedule=None):
    mssql_cdc_bootstrap(
        group_id="load",
        table=MssqlCdcTable(
            mssql_conn_id="erp",
            capture_instance="dbo_edited",
            bronze=f"{LAKE}/bronze/edited",
            facts=f"{LAKE}/ops/facts",
        ),
        rows_per_range=250,
        max_ranges=256,
        retry_delay=timedelta(seconds=1),
    )
