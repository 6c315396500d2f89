"""A fixture for users' own tests, ``embedded_sql_server``; one line in their ``conftest.py`` asks for it.

::

    pytest_plugins = ["airflow_provider_mssql_cdc.embedded.pytest_plugin"]

The server is imported when the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer


@pytest.fixture
def embedded_sql_server() -> Iterator[EmbeddedSqlServer]:
    """A fresh embedded SQL Server with an empty database ``demo``; gone after the test."""
    from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

    with EmbeddedSqlServer() as server:
        yield server
