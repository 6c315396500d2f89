"""``BENCH_TABLES`` tables, each in ``BENCH_RANGES`` mapped tasks; one DAG for ten tables."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap

LAKE = os.environ["BENCH_LAKE"]
TABLES = int(os.environ["BENCH_TABLES"])
RANGES = int(os.environ["BENCH_RANGES"])
ROWS = int(os.environ["BENCH_ROWS"])
PER_DAG = 10

for first in range(0, TABLES, PER_DAG):
    with DAG(dag_id=f"load_{first}", schedule=None, max_active_tasks=64):
        for number in range(first, min(first + PER_DAG, TABLES)):
            mssql_cdc_bootstrap(
                group_id=f"t{number}",
                table=MssqlCdcTable(
                    mssql_conn_id="erp",
                    capture_instance=f"dbo_t{number}",
                    bronze=f"{LAKE}/bronze/t{number}",
                    facts=f"{LAKE}/ops/facts",
                ),
                rows_per_range=max(1, ROWS // RANGES),
                max_ranges=RANGES,
                retry_delay=timedelta(seconds=5),
                # one table after the other: of equal tasks Airflow takes those of all tables by map index
                default_args={"priority_weight": TABLES - number, "weight_rule": "absolute"},
            )
