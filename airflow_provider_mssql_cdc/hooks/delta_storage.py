"""From an Airflow connection to the storage options that delta-rs takes; asked for inside a task only.

What a connection means is its own provider's business: where that provider is installed its hook is
asked, so that assumed roles and workload identities work. Without it the connection's plain fields are
read, and what they cannot express is refused.

Option names: ``object_store``'s configuration keys (docs.rs/object_store, ``AmazonS3ConfigKey``,
``AzureConfigKey``, ``GoogleConfigKey``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow.sdk import Connection

Options = dict[str, str]


def with_storage_of_connection(table: MssqlCdcTable) -> MssqlCdcTable:
    """The table with the options of its ``delta_conn_id`` under its own ones; the same without one.

    :raises ConfigurationError: a connection type that no Delta table lives on, or one that says too little.
    """
    if table.delta_conn_id is None:
        return table
    options = {**storage_options(table.delta_conn_id), **(table.storage_options or {})}
    return replace(table, storage_options=options)


def storage_options(conn_id: str) -> Options:
    """delta-rs' storage options of an Airflow connection of type aws, wasb, adls or google_cloud_platform."""
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(conn_id)
    options_of = _BY_TYPE.get(connection.conn_type or "")
    if options_of is None:
        raise ConfigurationError(
            f"delta_conn_id {conn_id} must be a connection of type {', '.join(sorted(_BY_TYPE))}, "
            f"got {connection.conn_type!r}; or use storage_options"
        )
    return {name: value for name, value in options_of(connection).items() if value}


def _aws(connection: Connection) -> Options:
    extra = connection.extra_dejson
    found = _aws_by_hook(connection.conn_id)
    if found is None:
        if extra.get("role_arn") or extra.get("profile_name"):
            raise ConfigurationError(
                f"delta_conn_id {connection.conn_id}: a role or a profile is resolved by the Amazon "
                "provider; pip install apache-airflow-providers-amazon"
            )
        found = {
            "AWS_ACCESS_KEY_ID": connection.login or "",
            "AWS_SECRET_ACCESS_KEY": connection.password or "",
            "AWS_SESSION_TOKEN": extra.get("aws_session_token") or "",
            "AWS_REGION": extra.get("region_name") or "",
        }
    endpoint = _endpoint(connection.host, extra)
    plain = "true" if endpoint.startswith("http://") else ""
    return {**found, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": plain}


def _endpoint(host: str | None, extra: dict[str, Any]) -> str:
    """The S3 endpoint: of the service, else of all services, else the connection's host."""
    service = (extra.get("service_config") or {}).get("s3") or {}
    return str(service.get("endpoint_url") or extra.get("endpoint_url") or host or "")


def _aws_by_hook(conn_id: str) -> Options | None:
    """Credentials as the Amazon provider resolves them; None when it is not installed."""
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    except ImportError:
        return None
    hook = AwsBaseHook(aws_conn_id=conn_id, client_type="s3")
    credentials = hook.get_credentials()
    return {
        "AWS_ACCESS_KEY_ID": credentials.access_key or "",
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key or "",
        "AWS_SESSION_TOKEN": credentials.token or "",
        "AWS_REGION": hook.region_name or "",
    }


def _wasb(connection: Connection) -> Options:
    """Azure Blob Storage: account and key, a SAS token, or a service principal."""
    extra = connection.extra_dejson
    if token := extra.get("sas_token"):
        return {"AZURE_STORAGE_ACCOUNT_NAME": _account(connection), "AZURE_STORAGE_SAS_TOKEN": str(token)}
    if extra.get("tenant_id"):
        return _principal(connection, account=_account_of_host(connection.host))
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": _account(connection),
        "AZURE_STORAGE_ACCOUNT_KEY": connection.password or str(extra.get("account_key") or ""),
    }


def _adls(connection: Connection) -> Options:
    """Azure Data Lake Storage Gen2: a service principal, or account and key."""
    if connection.extra_dejson.get("tenant_id"):
        return _principal(connection, account=_account_of_host(connection.host))
    return _wasb(connection)


def _principal(connection: Connection, *, account: str) -> Options:
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": account,
        "AZURE_STORAGE_CLIENT_ID": connection.login or "",
        "AZURE_STORAGE_CLIENT_SECRET": connection.password or "",
        "AZURE_STORAGE_TENANT_ID": str(connection.extra_dejson["tenant_id"]),
    }


def _account(connection: Connection) -> str:
    return connection.login or _account_of_host(connection.host)


def _account_of_host(host: str | None) -> str:
    """``myaccount`` from ``myaccount``, or from the URL of its service."""
    name = (host or "").removeprefix("https://").removeprefix("http://").split("/")[0]
    return name.split(".")[0]


def _google(connection: Connection) -> Options:
    """A service account's key, inline or as a file; neither means the machine's own credentials."""
    extra = connection.extra_dejson
    inline, path = extra.get("keyfile_dict"), extra.get("key_path")
    if inline:
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": inline if isinstance(inline, str) else json.dumps(inline)}
    return {"GOOGLE_SERVICE_ACCOUNT": str(path or "")}


_BY_TYPE: dict[str, Callable[[Connection], Options]] = {
    "aws": _aws,
    "wasb": _wasb,
    "adls": _adls,
    "google_cloud_platform": _google,
}
