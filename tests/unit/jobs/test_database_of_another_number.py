"""As on Azure SQL Database: DB_ID() is not the database_id of sys.databases, where a neighbour has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import PreflightFailed, StatementFailed
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from tests.support.load import Load


@pytest.fixture(params=("mssql-python", "pymssql"))
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Load]:
    with EmbeddedSqlServer(database="shop") as server:
        server.create_database("neighbour")
        for database in ("shop", "neighbour"):
            server.execute("CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY)", database=database)
            server.execute("INSERT INTO dbo.orders VALUES (1), (2)", database=database)
        (number,) = server.execute("SELECT DB_ID()")[0]
        server.engine.listed_ids.update(shop=number + 40, neighbour=number)
        assert server.execute("SELECT name FROM sys.databases WHERE database_id = DB_ID()") == [
            ("neighbour",)
        ]
        yield Load(server, tmp_path, instance="dbo_orders", driver=request.param)


def test_a_table_is_loaded_under_its_own_databases_name_though_the_neighbour_has_no_cdc(load: Load) -> None:
    load.server.enable_cdc("dbo.orders", database="shop")
    assert load.all().rows == 2
    bronze = open_existing(TableLocation.bronze_of(load.table))
    assert bronze.identity.database == "shop"
    load.server.execute("INSERT INTO dbo.orders VALUES (3)")
    assert load.changes().counts.inserts == 1


def test_that_cdc_is_off_is_said_of_the_own_database_though_the_neighbour_has_it(load: Load) -> None:
    load.server.enable_cdc("dbo.orders", database="neighbour")
    with pytest.raises(PreflightFailed, match="shop") as caught:
        load.plan()
    assert "neighbour" not in str(caught.value)


def test_an_answer_without_its_row_names_the_statement(load: Load) -> None:
    load.server.enable_cdc("dbo.orders")
    load.server.faults.truncate(r"WHERE d\.name = DB_NAME\(\)", after_rows=0)
    with pytest.raises(StatementFailed, match=r"(?s)without a row.*FROM sys\.databases"):
        load.plan()
