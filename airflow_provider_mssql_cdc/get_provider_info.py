"""What Airflow is told about this provider; read in every Airflow process, so it imports nothing."""

from __future__ import annotations

from typing import Any

from airflow_provider_mssql_cdc import __version__

_INTEGRATION = "SQL Server change data capture"
_PACKAGE = "airflow_provider_mssql_cdc"


def get_provider_info() -> dict[str, Any]:
    """The entry point ``apache_airflow_provider``; its shape is Airflow's ``provider_info.schema.json``.

    The connection type is the Microsoft SQL Server provider's own ``mssql``: no second one is registered.
    """
    return {
        "package-name": "airflow-provider-mssql-cdc",
        "name": "SQL Server CDC to Delta Lake",
        "description": "Loads SQL Server tables under change data capture into Delta Lake.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://learn.microsoft.com/sql/relational-databases/track-changes/",
                "tags": ["software"],
            }
        ],
        "operators": [
            _modules(
                "operators.plan",
                "operators.snapshot",
                "operators.chunk",
                "operators.complete",
                "operators.on_call",
                "operators.changes",
                "operators.merge",
                "operators.merge",
            )
        ],
        "sensors": [_modules("sensors.capture")],
        "triggers": [_modules("triggers.capture")],
        "hooks": [_modules("hooks.mssql_cdc")],
        "extra-links": [f"{_PACKAGE}.operators.links.MssqlCdcFactsLink"],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _INTEGRATION,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
