"""Operators: arguments in, one job, JSON out."""

from airflow_provider_mssql_cdc.operators.changes import MssqlCdcChangesOperator
from airflow_provider_mssql_cdc.operators.chunk import MssqlCdcChunkOperator
from airflow_provider_mssql_cdc.operators.complete import MssqlCdcCompleteOperator
from airflow_provider_mssql_cdc.operators.freshness import MssqlCdcFreshnessOperator
from airflow_provider_mssql_cdc.operators.merge import MssqlCdcMergeOperator
from airflow_provider_mssql_cdc.operators.on_call import MssqlCdcAbandonOperator, MssqlCdcStatusOperator
from airflow_provider_mssql_cdc.operators.plan import MssqlCdcPlanOperator
from airflow_provider_mssql_cdc.operators.reconcile import (
    MssqlCdcReconcileOperator,
    MssqlCdcReconcilePlanOperator,
)
from airflow_provider_mssql_cdc.operators.snapshot import MssqlCdcSnapshotOperator
from airflow_provider_mssql_cdc.operators.upkeep import MssqlCdcDatabaseUpkeepOperator, MssqlCdcUpkeepOperator

__all__ = [
    "MssqlCdcAbandonOperator",
    "MssqlCdcChangesOperator",
    "MssqlCdcChunkOperator",
    "MssqlCdcCompleteOperator",
    "MssqlCdcDatabaseUpkeepOperator",
    "MssqlCdcFreshnessOperator",
    "MssqlCdcMergeOperator",
    "MssqlCdcPlanOperator",
    "MssqlCdcReconcileOperator",
    "MssqlCdcReconcilePlanOperator",
    "MssqlCdcSnapshotOperator",
    "MssqlCdcStatusOperator",
    "MssqlCdcUpkeepOperator",
]
