"""A fixture for users' own tests: ``embedded_sql_server``. Light: the server is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer


@pytest.fixture
def embedded_sql_server() -> Iterator[EmbeddedSqlServer]:
    """A fresh embedded SQL Server with an empty database ``demo``; gone after the test."""
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

    with EmbeddedSqlServer() as server:
        yield server
