"""A database of 40 tables: loaded by one DAG, followed by the other."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcDatabase, mssql_cdc_pipeline

ERP = MssqlCdcDatabase(
    mssql_conn_id="erp",
    include=("dbo.large_*", "dbo.small_*"),
    bronze="s3://lake/bronze/{schema}/{table}",
    silver="s3://lake/silver/{schema}/{table}",
    facts="s3://lake/ops/facts",
    delta_conn_id="s3",
    tables={"*.*": {"quiet_seconds": 0}, "dbo.large_*": {"rows_per_range": 1000}},
)
AGAIN = {"retries": 10, "retry_delay": timedelta(seconds=1)}

with DAG("erp_load", schedule=None, max_active_runs=1):
    mssql_cdc_pipeline(group_id="erp", database=ERP, parts=("load",), default_args=AGAIN)

with DAG("erp_follow", schedule=None):
    mssql_cdc_pipeline(group_id="erp", database=ERP, parts=("follow",), default_args=AGAIN)
