"""An embedded SQL Server stand-in with change data capture, for tests, demos and the laptop.

Never imported by the rest of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.replica import Replica
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

__all__ = ["EmbeddedSqlServer", "Replica"]


def __getattr__(name: str) -> Any:
    """Look public names up when they are used: pytest imports this package in every run."""
    if name == "EmbeddedSqlServer":
        from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

        return EmbeddedSqlServer
    if name == "Replica":
        from airflow_provider_mssql_cdc.embedded.replica import Replica

        return Replica
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
