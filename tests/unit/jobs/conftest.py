"""A server, its table of orders, and the three jobs of a whole snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.load import Load


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


@pytest.fixture
def orders(server: EmbeddedSqlServer) -> None:
    """``dbo.orders``: 300 rows, older than CDC."""
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(300)])
    server.enable_cdc("dbo.orders")


@pytest.fixture
def make_load(server: EmbeddedSqlServer, tmp_path: Path) -> Callable[..., Load]:
    """One run's jobs on ``dbo_orders``, or another instance; all of a test's runs share one lake."""

    def make(*, capture_instance: str = "dbo_orders", mssql_conn_id: str = "erp", **arguments: Any) -> Load:
        return Load(server, tmp_path, instance=capture_instance, conn_id=mssql_conn_id, **arguments)

    return make
