"""A database of 40 tables: loaded by one DAG, followed by the other."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, TaskGroup

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator

TABLES = ["large_0", "large_1", "large_2", *(f"small_{number:02}" for number in range(37))]
AGAIN = {"retries": 10, "retry_delay": timedelta(seconds=1)}


def of(name: str) -> MssqlCdcTable:
    return MssqlCdcTable(
        mssql_conn_id="erp",
        capture_instance=f"dbo_{name}",
        bronze=f"s3://lake/bronze/dbo/{name}",
        facts="s3://lake/ops/facts",
        delta_conn_id="s3",
    )


def follow(name: str) -> None:
    changes = MssqlCdcChangesOperator(task_id="changes", table=of(name), quiet_seconds=0)
    changes >> MssqlCdcMergeOperator(task_id="merge", table=of(name), silver=f"s3://lake/silver/dbo/{name}")


with DAG("erp_load", schedule=None, default_args=AGAIN, max_active_tasks=32):
    for name in TABLES:
        mssql_cdc_bootstrap(group_id=name, table=of(name), rows_per_range=1000)

with DAG("erp_follow", schedule=None, default_args=AGAIN, max_active_tasks=32):
    for name in TABLES:
        with TaskGroup(name):
            follow(name)
