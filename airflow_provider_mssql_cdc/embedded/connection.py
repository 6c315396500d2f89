"""The embedded server as an Airflow connection. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def airflow_connection(
    *,
    host: str,
    port: int,
    login: str,
    password: str,
    database: str,
    tls: str,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """The JSON for an ``AIRFLOW_CONN_*`` variable, as ``MssqlCdcHook`` reads it.

    :param tls: the listener's mode; its certificate is self-signed, so it is trusted on purpose.
    :param extra: more extras; one with the name of ours replaces it.
    """
    merged: dict[str, Any] = {"encryption": {"off": "off", "login": "request", "required": "require"}[tls]}
    if tls != "off":
        merged["trust_server_certificate"] = True
    merged |= extra or {}
    return json.dumps(
        {
            "conn_type": "mssql_cdc",
            "host": host,
            "port": port,
            "login": login,
            "password": password,
            "schema": database,
            "extra": merged,
        }
    )
