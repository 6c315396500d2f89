"""Changes of the demo's tables, hour by hour: each run reads up to the end of its data interval.

Backfill it over hours that have been read and each of them is repaired: its change rows, and only those,
are read again and replaced. In whatever order the runs come, bronze and silver end up the same. Until
``bootstrap_tables`` has loaded a table its tasks are skipped.

``CronDataIntervalTimetable`` gives every run the hour before it; Airflow 3's default cron timetable gives
an empty interval, which can be read up to and not repaired.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables are.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")
TABLES = ("flights", "airlines", "airports")

with DAG(
    dag_id="changes_hourly",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
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
        changes = MssqlCdcChangesOperator(task_id=name, table=table, until="data_interval_end")
        merge = MssqlCdcMergeOperator(task_id=f"{name}_merge", table=table, silver=f"{LAKE}/silver/{name}")
        changes >> merge
