"""A whole database as Airflow runs it: many tables in few tasks, each table's trouble its own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcDatabase, mssql_cdc_pipeline
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.dags.harness import returned, run, states
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

SMALL = 8


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tables of many shapes, all older than their CDC."""
    with EmbeddedSqlServer(database="shop") as server:
        server.execute("CREATE SCHEMA sales")
        for number in range(SMALL):
            create(server, f"sales.t{number}", rows=number * 5)
        create(server, "sales.[order line]", rows=7)
        create(server, "sales.audit_log", rows=3)
        create(server, "dbo.large", rows=120)
        server.execute(
            "CREATE TABLE dbo.pair (a int NOT NULL, b nvarchar(20) NOT NULL, v int NULL, PRIMARY KEY (a, b))"
        )
        server.executemany("INSERT INTO dbo.pair VALUES (?, ?, ?)", [(n, f"k{n}", n) for n in range(9)])
        server.enable_cdc("dbo.pair")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection())
        yield server


def create(server: EmbeddedSqlServer, name: str, *, rows: int) -> None:
    server.execute(f"CREATE TABLE {name} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(n, f"row {n}") for n in range(rows)])
    server.enable_cdc(name.replace("[", "").replace("]", ""))


def database_at(tmp_path: Path, **arguments: Any) -> MssqlCdcDatabase:
    given: dict[str, Any] = {
        "mssql_conn_id": "erp",
        "include": ("sales.*", "dbo.*"),
        "exclude": ("*.audit_*",),
        "bronze": f"{tmp_path}/bronze/{{schema}}/{{table}}",
        "silver": f"{tmp_path}/silver/{{schema}}/{{table}}",
        "facts": f"{tmp_path}/ops/facts",
        "tables": {"*.*": {"quiet_seconds": 0}, "dbo.large": {"rows_per_range": 50}},
        **arguments,
    }
    return MssqlCdcDatabase(**given)


def dag_of(database: MssqlCdcDatabase, dag_id: str, **arguments: Any) -> DAG:
    with DAG(dag_id=dag_id, schedule=None) as dag:
        mssql_cdc_pipeline(
            group_id="erp", database=database, **{"retry_delay": timedelta(0), "follow_tasks": 2, **arguments}
        )
    return dag


def assert_silver_is_the_source(server: EmbeddedSqlServer, tmp_path: Path, name: str) -> None:
    schema, table = name.replace("[", "").replace("]", "").split(".")
    columns = "a, b, v" if table == "pair" else "id, name"
    folder = tmp_path / "silver" / schema / table.replace(" ", "=20")
    silver = sorted(tuple(row.values()) for row in delta_rows(folder, columns=columns))
    assert silver == sorted(tuple(row) for row in server.execute(f"SELECT {columns} FROM {name}")), name


ALL = [*(f"sales.t{n}" for n in range(SMALL)), "sales.[order line]", "dbo.large", "dbo.pair"]


def pass_the_horizon(server: EmbeddedSqlServer) -> None:
    server.clock.shift(timedelta(seconds=3))
    server.idle()


def test_one_run_loads_every_table_and_the_next_one_follows_them(
    shop: EmbeddedSqlServer, tmp_path: Path
) -> None:
    dag = dag_of(database_at(tmp_path), "loads_all")
    first = run(dag)
    report = returned(first, "erp.report")
    assert first.state == "success"
    assert sorted(report["loaded"]) == sorted(name.replace("[", "").replace("]", "") for name in ALL)
    assert (report["failed"], report["died"], report["waiting"]) == ({}, {}, [])
    for name in ALL:
        assert_silver_is_the_source(shop, tmp_path, name)
    assert not (tmp_path / "bronze" / "sales" / "audit_log").exists()

    shop.execute("UPDATE sales.t3 SET name = N'new' WHERE id < 5")
    shop.execute("DELETE FROM dbo.large WHERE id % 7 = 0")
    shop.execute("INSERT INTO dbo.pair VALUES (77, N'x', NULL)")
    pass_the_horizon(shop)
    second = run(dag)
    report = returned(second, "erp.report")
    assert (report["loaded"], report["followed"], report["failed"]) == ([], len(ALL), {})
    for name in ALL:
        assert_silver_is_the_source(shop, tmp_path, name)
    assert len(states(second)) == 1 + 1 + 2 + 2 + 1
