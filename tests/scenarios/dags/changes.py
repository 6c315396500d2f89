"""Changes of some tables: when asked, and day by day and hour by hour over days that are past.

Past their ``end_date`` no run is scheduled: runs come by backfill alone.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

LAKE = os.environ["SCENARIO_LAKE"]
DAYS = datetime(2026, 5, 11, tzinfo=UTC)
QUICK = {"retries": 3, "retry_delay": timedelta(seconds=1)}


def table_in(bronze: str, *, instance: str, conn_id: str) -> MssqlCdcTable:
    return MssqlCdcTable(
        mssql_conn_id=conn_id,
        capture_instance=instance,
        bronze=f"{LAKE}/bronze/{bronze}",
        facts=f"{LAKE}/ops/facts",
    )


def merge_of(bronze: str) -> MssqlCdcMergeOperator:
    return MssqlCdcMergeOperator(
        task_id="merge",
        table=table_in(bronze, instance="dbo_events", conn_id="past"),
        silver=f"{LAKE}/silver/{bronze}",
        **QUICK,
    )


with DAG(dag_id="changes_uncaptured", schedule=None):
    MssqlCdcChangesOperator(
        task_id="changes",
        table=table_in("uncaptured", instance="dbo_uncaptured", conn_id="erp"),
        quiet_seconds=0,
        **QUICK,
    )

for name, cron in (("daily", "0 0 * * *"), ("hourly", "0 * * * *")):
    with DAG(
        dag_id=f"changes_{name}",
        schedule=CronDataIntervalTimetable(cron, timezone="UTC"),
        start_date=DAYS,
        end_date=DAYS + timedelta(days=3),
        catchup=False,
    ):
        changes = MssqlCdcChangesOperator(
            task_id="changes",
            table=table_in(name, instance="dbo_events", conn_id="past"),
            until="data_interval_end",
            **QUICK,
        )
        if name == "daily":
            changes >> merge_of(name)

for name in ("daily", "hourly", "in_order"):
    with DAG(dag_id=f"bootstrap_{name}", schedule=None):
        table = table_in(name, instance="dbo_events", conn_id="past")
        load = mssql_cdc_bootstrap(group_id="load", table=table, default_args=QUICK)

with DAG(dag_id="changes_in_order", schedule=None):
    changes = MssqlCdcChangesOperator(
        task_id="changes", table=table_in("in_order", instance="dbo_events", conn_id="past"), **QUICK
    )
    changes >> merge_of("in_order")
