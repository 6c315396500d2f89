"""The plugin that Airflow loads by the entry point ``airflow.plugins``.

An entry in provider info alone is not loaded while ``[core] lazy_discover_providers`` is on, its default
(``airflow/plugins_manager.py``).
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

PREFIX = "/mssql-cdc"


class MssqlCdcPlugin(AirflowPlugin):
    """The page, in the navigation and on each DAG.

    Scheduler, workers and triggerer load plugins too; the application is created on first access, which only
    the API server does.
    """

    name = "mssql_cdc"
    # Without a leading slash an address is relative to Airflow's own, with the path of [api] base_url.
    external_views = [
        {
            "name": "SQL Server CDC",
            "href": f"{PREFIX.removeprefix('/')}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "mssql-cdc",
        },
        {
            "name": "SQL Server CDC",
            "href": f"{PREFIX.removeprefix('/')}/?dag={{DAG_ID}}",
            "destination": "dag",
            "url_route": "mssql-cdc-tables",
        },
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override] # a list, made when it is read
        from airflow_provider_mssql_cdc.ui.app import make_app

        return [{"app": make_app(), "url_prefix": PREFIX, "name": "SQL Server CDC"}]
