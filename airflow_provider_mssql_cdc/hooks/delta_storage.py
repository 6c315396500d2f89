"""Map an Airflow connection to delta-rs' storage options; read in the task only.

Option names are ``object_store``'s configuration keys (docs.rs/object_store, ``AmazonS3ConfigKey``,
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
    """Return the table with the options of its ``delta_conn_id``; its own ``storage_options`` win.

    :raises ConfigurationError: the connection's type is not an object store, or credentials are missing.
    """
    if table.delta_conn_id is None:
        return table
    options = {**storage_options(table.delta_conn_id), **(table.storage_options or {})}
    return replace(table, storage_options=options)


def storage_options(conn_id: str) -> Options:
    """Return the storage options of a connection of type aws, wasb, adls or google_cloud_platform.

    :raises ConfigurationError: another type, or an aws role or profile without the Amazon provider.
    """
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
                f"delta_conn_id {connection.conn_id}: the Amazon provider must be installed to use a role or "
                "a profile: pip install apache-airflow-providers-amazon"
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
    """Return the S3 endpoint: of the service, else of all services, else the connection's host."""
    service = (extra.get("service_config") or {}).get("s3") or {}
    return str(service.get("endpoint_url") or extra.get("endpoint_url") or host or "")


def _aws_by_hook(conn_id: str) -> Options | None:
    """Return credentials from the Amazon provider's hook; None when it is not installed."""
    # The hook resolves assumed roles, profiles and instance identities; the connection's fields hold only
    # static keys (Airflow docs, "Amazon Web Services Connection").
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
    """Map an Azure Blob Storage connection: account and key, a SAS token, or a service principal."""
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
    """Map an Azure Data Lake Storage Gen2 connection: a service principal, or account and key."""
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
    """Return ``myaccount`` from ``myaccount`` or from the URL of its service."""
    name = (host or "").removeprefix("https://").removeprefix("http://").split("/")[0]
    return name.split(".")[0]


def _google(connection: Connection) -> Options:
    """Map a Google connection: a service account key, inline or as a file; else the default credentials."""
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
