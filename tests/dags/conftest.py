"""A server with one table older than its CDC, a lake in a folder, and the connection between them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

ORDERS = 1000
S3_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedSqlServer]:
    """``dbo.orders`` with 1,000 rows, then CDC, then the Airflow connection ``erp``."""
    with EmbeddedSqlServer(database="shop") as running:
        running.execute(
            "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, "
            "amount decimal(18, 4) NULL, placed datetime2(7) NULL)"
        )
        running.executemany(
            "INSERT INTO dbo.orders VALUES (?, ?, ?, '2024-02-29T23:59:59.1234567')",
            [(number, f"order {number}", number) for number in range(ORDERS)],
        )
        running.enable_cdc("dbo.orders")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", running.airflow_connection())
        yield running


@pytest.fixture
def make_table(tmp_path: Path) -> Callable[..., MssqlCdcTable]:
    """An MssqlCdcTable for ``dbo.orders`` in a lake of this test's own."""

    def make(**arguments: object) -> MssqlCdcTable:
        given = {
            "mssql_conn_id": "erp",
            "capture_instance": "dbo_orders",
            "bronze": str(tmp_path / "bronze" / "orders"),
            "facts": str(tmp_path / "ops" / "facts"),
            **arguments,
        }
        return MssqlCdcTable(**given)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3 API in a process of its own: delta-rs keeps Python's lock while it waits for the answer."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


@pytest.fixture
def options(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty bucket ``lake``, and the Airflow connection ``s3`` to it."""
    import boto3

    given = {"region_name": "eu-west-1", "endpoint_url": endpoint}
    _wait_for(endpoint)
    _post(f"{endpoint}/moto-api/reset")
    client = boto3.client("s3", aws_access_key_id="AK", aws_secret_access_key=S3_SECRET, **given)
    client.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    connection = {"conn_type": "aws", "login": "AK", "password": S3_SECRET, "extra": given}
    monkeypatch.setenv("AIRFLOW_CONN_S3", json.dumps(connection))
    return {
        "AWS_ACCESS_KEY_ID": "AK",
        "AWS_SECRET_ACCESS_KEY": S3_SECRET,
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


def _wait_for(endpoint: str, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urlopen(endpoint, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the S3 API does not answer"
            time.sleep(0.1)


def _post(url: str) -> None:
    urlopen(Request(url, method="POST"), timeout=10).close()
