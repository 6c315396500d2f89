"""Upkeep of a whole database next to its pipeline, as Airflow runs it."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcDatabase, mssql_cdc_pipeline
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import MssqlCdcDatabaseUpkeepOperator
from tests.dags.harness import returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

TABLES = ("parts", "orders")


@pytest.fixture
def database(server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MssqlCdcDatabase:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", server.airflow_connection())
    for name in TABLES:
        server.execute(f"CREATE TABLE dbo.{name}_of_all (id int NOT NULL PRIMARY KEY, name nvarchar(20))")
        server.execute(f"INSERT INTO dbo.{name}_of_all VALUES (1, N'one'), (2, N'two')")
        server.enable_cdc(f"dbo.{name}_of_all")
    return MssqlCdcDatabase(
        mssql_conn_id="shop",
        include=("dbo.*_of_all",),
        bronze=f"{tmp_path}/bronze/{{table}}",
        silver=f"{tmp_path}/silver/{{table}}",
        facts=f"{tmp_path}/facts",
    )


def follow(server: EmbeddedSqlServer, database: MssqlCdcDatabase) -> None:
    server.clock.shift(timedelta(seconds=5))
    for name in TABLES:
        server.execute(f"UPDATE dbo.{name}_of_all SET name = name + N'!'")
    with DAG(dag_id="follows", schedule=None) as dag:
        mssql_cdc_pipeline(group_id="shop", database=database)
    assert run(dag).state == "success"


def upkeep(database: MssqlCdcDatabase, **arguments: Any) -> Any:
    with DAG(dag_id="keeps_up", schedule=None) as dag:
        MssqlCdcDatabaseUpkeepOperator(
            task_id="upkeep", database=database, fold_share=0.0, fold_after_hours=0, **arguments
        )
    return run(dag)


def test_every_table_is_looked_after_and_silver_goes_on(
    server: EmbeddedSqlServer, database: MssqlCdcDatabase, tmp_path: Path
) -> None:
    for _ in range(3):
        follow(server, database)
    server.clock.shift(timedelta(hours=-1))  # the changes are old enough for a fold now
    told = returned(upkeep(database, fold=True), "upkeep")
    assert told["tables"] == len(TABLES)
    assert told["facts"]["compact"]["files_added"] == 1
    server.clock.shift(timedelta(hours=1))
    follow(server, database)
    for name in TABLES:
        rows = server.execute(f"SELECT id, name FROM dbo.{name}_of_all ORDER BY id")
        silver = tmp_path / "silver" / f"{name}_of_all"
        assert sorted((row["id"], row["name"]) for row in delta_rows(silver)) == rows
        assert "bronze now holds" not in str(DeltaTable(str(silver)).history())


def test_a_table_that_fails_stops_no_other_and_is_named(
    server: EmbeddedSqlServer, database: MssqlCdcDatabase, tmp_path: Path
) -> None:
    follow(server, database)
    follow(server, database)
    (tmp_path / "silver/parts_of_all").rename(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "silver/orders_of_all", tmp_path / "silver/parts_of_all")
    before = len(DeltaTable(f"{tmp_path}/facts").file_uris())
    ended = upkeep(database)
    assert states(ended)["upkeep", -1] == "failed"
    assert len(DeltaTable(f"{tmp_path}/facts").file_uris()) < before


def test_a_fold_without_silver_is_refused_where_the_dag_is_parsed() -> None:
    database = MssqlCdcDatabase(mssql_conn_id="shop", include=("*.*",), bronze="/l/{table}", facts="/facts")
    with pytest.raises(ConfigurationError, match="needs a database with silver"):
        MssqlCdcDatabaseUpkeepOperator(task_id="upkeep", database=database, fold=True)
    with pytest.raises(ConfigurationError, match="vacuum_hours"):
        MssqlCdcDatabaseUpkeepOperator(task_id="upkeep", database=database, vacuum_hours=-1)
