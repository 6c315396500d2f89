"""One bootstrap DAG per table of the scenarios, with short retry delays."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap

LAKE = os.environ["SCENARIO_LAKE"]
TABLES = os.environ["SCENARIO_TABLES"].split(",")

for name in TABLES:
    with DAG(
        dag_id=f"bootstrap_{name}",
        schedule=None,
        params={"resnapshot": Param(False, type="boolean")},
    ):
        mssql_cdc_bootstrap(
            group_id="load",
            table=MssqlCdcTable(
                mssql_conn_id="erp_listener" if name == "replicated" else "erp",
                capture_instance=f"dbo_{name}",
                bronze=f"{LAKE}/bronze/{name}",
                facts=f"{LAKE}/ops/facts",
            ),
            rows_per_range=250,
            resnapshot="{{ params.resnapshot }}",
            wait_seconds=1,
            retry_delay=timedelta(seconds=1),
        )
