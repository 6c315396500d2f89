"""Operators: arguments in, one job, JSON out."""

from airflow_provider_mssql_cdc.operators.changes import MssqlCdcChangesOperator
from airflow_provider_mssql_cdc.operators.complete import MssqlCdcCompleteOperator
from airflow_provider_mssql_cdc.operators.merge import MssqlCdcMergeOperator
from airflow_provider_mssql_cdc.operators.plan import MssqlCdcPlanOperator
from airflow_provider_mssql_cdc.operators.snapshot import MssqlCdcSnapshotOperator

__all__ = [
    "MssqlCdcChangesOperator",
    "MssqlCdcCompleteOperator",
    "MssqlCdcMergeOperator",
    "MssqlCdcPlanOperator",
    "MssqlCdcSnapshotOperator",
]
