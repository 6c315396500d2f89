"""A server with one table older than its CDC, a lake in a folder, and the connection between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.s3_api import airflow_connection, make_bucket, s3_api, storage_options

ORDERS = 1000


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
    """An S3 API."""
    with s3_api() as running:
        yield running


@pytest.fixture
def options(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An empty bucket ``lake``, and the Airflow connection ``s3`` to it."""
    _post(f"{endpoint}/moto-api/reset")
    make_bucket(endpoint, "lake")
    monkeypatch.setenv("AIRFLOW_CONN_S3", airflow_connection(endpoint))
    return storage_options(endpoint)


def _post(url: str) -> None:
    urlopen(Request(url, method="POST"), timeout=10).close()
