"""Loads SQL Server tables under change data capture into Delta Lake, as Airflow tasks.

Airflow imports this module in every process: the public names are looked up when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.database import MssqlCdcDatabase
    from airflow_provider_mssql_cdc.operators._base import delta_asset
    from airflow_provider_mssql_cdc.pipeline import mssql_cdc_pipeline
    from airflow_provider_mssql_cdc.table import MssqlCdcTable
    from airflow_provider_mssql_cdc.task_groups import mssql_cdc_bootstrap, mssql_cdc_reconcile

__version__ = "0.1.0"
__all__ = [
    "MssqlCdcDatabase",
    "MssqlCdcTable",
    "__version__",
    "delta_asset",
    "mssql_cdc_bootstrap",
    "mssql_cdc_pipeline",
    "mssql_cdc_reconcile",
]

_HOMES = {
    "delta_asset": "airflow_provider_mssql_cdc.operators._base",
    "MssqlCdcDatabase": "airflow_provider_mssql_cdc.database",
    "MssqlCdcTable": "airflow_provider_mssql_cdc.table",
    "mssql_cdc_bootstrap": "airflow_provider_mssql_cdc.task_groups",
    "mssql_cdc_pipeline": "airflow_provider_mssql_cdc.pipeline",
    "mssql_cdc_reconcile": "airflow_provider_mssql_cdc.task_groups",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
