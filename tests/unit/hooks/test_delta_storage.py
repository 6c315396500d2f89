"""Storage options from Airflow connections: each kind's mapping, and where the credentials never show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.hooks.delta_storage import storage_options, with_storage_of_connection

PLACES = {"bronze": "s3://lake/orders", "facts": "s3://lake/facts", "capture_instance": "dbo_orders"}


def connection(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        (
            {"conn_type": "aws", "login": "AK", "password": "s/e+c", "extra": {"region_name": "eu-west-1"}},
            {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s/e+c", "AWS_REGION": "eu-west-1"},
        ),
        (
            {
                "conn_type": "aws",
                "login": "AK",
                "password": "x",
                "extra": {"endpoint_url": "http://127.0.0.1:9"},
            },
            {
                "AWS_ACCESS_KEY_ID": "AK",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                "AWS_ALLOW_HTTP": "true",
            },
        ),
        (
            {
                "conn_type": "aws",
                "login": "AK",
                "password": "x",
                "extra": {"aws_session_token": "t", "service_config": {"s3": {"endpoint_url": "https://s3"}}},
            },
            {
                "AWS_ACCESS_KEY_ID": "AK",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_SESSION_TOKEN": "t",
                "AWS_ENDPOINT_URL": "https://s3",
            },
        ),
        (
            {"conn_type": "wasb", "login": "account", "password": "key=="},
            {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": "key=="},
        ),
        (
            {
                "conn_type": "wasb",
                "host": "https://account.blob.core.windows.net",
                "extra": {"sas_token": "?sv=1"},
            },
            {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_SAS_TOKEN": "?sv=1"},
        ),
        (
            {
                "conn_type": "adls",
                "host": "account",
                "login": "app",
                "password": "s",
                "extra": {"tenant_id": "t"},
            },
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_CLIENT_ID": "app",
                "AZURE_STORAGE_CLIENT_SECRET": "s",
                "AZURE_STORAGE_TENANT_ID": "t",
            },
        ),
        (
            {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": {"type": "service_account"}}},
            {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"type": "service_account"}'},
        ),
        (
            {"conn_type": "google_cloud_platform", "extra": {"key_path": "/keys/a.json"}},
            {"GOOGLE_SERVICE_ACCOUNT": "/keys/a.json"},
        ),
        ({"conn_type": "google_cloud_platform"}, {}),
    ],
)
def test_a_connection_becomes_options(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], options: dict[str, str]
) -> None:
    connection(monkeypatch, **fields)
    assert storage_options("lake") == options


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "mssql", "host": "x"}, "must be a connection of type"),
        ({"conn_type": "aws", "extra": {"role_arn": "arn:x"}}, "apache-airflow-providers-amazon"),
    ],
)
def test_a_connection_that_cannot_be_used_says_why(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], said: str
) -> None:
    connection(monkeypatch, **fields)
    with pytest.raises(ConfigurationError, match=said):
        storage_options("lake")


def test_the_table_s_own_options_stand_above_those_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection(monkeypatch, conn_type="aws", login="AK", password="hunter2")
    table = MssqlCdcTable(
        "erp", **PLACES, delta_conn_id="lake", storage_options={"AWS_ACCESS_KEY_ID": "mine"}
    )
    asked = with_storage_of_connection(table)
    assert asked.storage_options == {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    assert "hunter2" not in repr(asked)
    plain = MssqlCdcTable("erp", **PLACES)
    assert with_storage_of_connection(plain) is plain


def test_a_dag_is_parsed_and_serialized_without_asking_for_the_connection() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    table = MssqlCdcTable("erp", **PLACES, delta_conn_id="there_is_no_such_connection")
    with DAG(dag_id="s3", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=table)
    assert "there_is_no_such_connection" in str(DagSerialization.serialize_dag(dag))
