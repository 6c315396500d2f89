from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer() as server:
        yield server


@pytest.fixture
def tracked(server: EmbeddedSqlServer) -> EmbeddedSqlServer:
    """A server with a tracked table dbo.t (id int, name, amount)."""
    server.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20) NULL, amount decimal(10, 2) NULL)"
    )
    server.enable_cdc("dbo.t")
    return server
