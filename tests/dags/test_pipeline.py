"""A whole database as Airflow runs it: many tables in few tasks, each table's trouble its own."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcDatabase, mssql_cdc_pipeline
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from tests.dags.harness import clear_and_rerun, labels, pushed, returned, run, states
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
    dag = dag_of(database_at(tmp_path), "loads_all", sessions_per_task=3)
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


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Three small tables and one that is read in ranges."""
    with EmbeddedSqlServer(database="shop") as server:
        for name in ("a", "b", "c"):
            create(server, f"dbo.{name}", rows=4)
        create(server, "dbo.large", rows=40)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", server.airflow_connection())
        yield server


FEW = ("dbo.a", "dbo.b", "dbo.c", "dbo.large")
FEW_AT: dict[str, Any] = {"include": ("dbo.*",)}
RANGES = {"*.*": {"quiet_seconds": 0}, "dbo.large": {"rows_per_range": 10}}


def tries(dag_run: Any, task_id: str) -> list[int]:
    return sorted(ti.try_number for ti in dag_run.get_task_instances() if ti.task_id == task_id)


def test_a_pack_is_tried_again_for_what_is_left_and_single_items_can_be_cleared(
    few: EmbeddedSqlServer, tmp_path: Path
) -> None:
    few.faults.fail(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[b\]", 1222)
    few.faults.fail(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[large\]", 1205)
    dag = dag_of(database_at(tmp_path, tables=RANGES, **FEW_AT), "tried_again")
    dag_run = run(dag)
    assert dag_run.state == "success"
    assert tries(dag_run, "erp.read") == [1, 1, 1, 1, 2, 2]
    assert sorted(returned(dag_run, "erp.report")["loaded"]) == sorted(FEW)
    assert labels(dag_run, "erp.read")[:2] == ["range 1 of 4 of dbo.large", "range 2 of 4 of dbo.large"]
    assert set(labels(dag_run, "erp.read")[4:]) == {"dbo.a, dbo.c", "dbo.b"}

    few.execute("UPDATE dbo.a SET name = N'new'")
    few.execute("DELETE FROM dbo.large WHERE id < 9")
    pass_the_horizon(few)
    again = clear_and_rerun(
        dag, dag_run.run_id, [("erp.read", 4), ("erp.read", 2), ("erp.complete", 0), "erp.report"]
    )
    assert again.state == "success"
    for name in FEW:
        assert_silver_is_the_source(few, tmp_path, name)

    replanned = clear_and_rerun(dag, dag_run.run_id, ["erp.plan", "erp.report"])
    assert replanned.state == "failed"  # follow has tables now, and its results are of the plan before
    assert set(pushed(replanned, "erp.report", "report")["died"]) == {"erp.follow[0]", "erp.follow[1]"}
    followed = clear_and_rerun(dag, dag_run.run_id, [("erp.follow", 0), ("erp.follow", 1), "erp.report"])
    assert followed.state == "success"
    assert returned(followed, "erp.report")["followed"] == len(FEW)


def test_follow_waits_for_plan_alone_and_report_is_the_run_s_only_leaf() -> None:
    dag = dag_of(database_at(Path("/lake")), "shape")
    assert dag.task_dict["erp.follow"].upstream_task_ids == {"erp.plan"}
    assert [task.task_id for task in dag.leaves] == ["erp.report"]
    assert dag.task_dict["erp.report"].upstream_task_ids == {
        "erp.plan",
        "erp.read",
        "erp.complete",
        "erp.follow",
    }


def test_a_run_fails_with_what_failed_and_a_task_that_dies_is_told(
    few: EmbeddedSqlServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    few.execute("CREATE TABLE dbo.no_key (id int NULL, name nvarchar(40) NULL)")
    few.enable_cdc("dbo.no_key")
    database = database_at(tmp_path, tables={**RANGES, "dbo.b": {"split_by": ("nope",)}}, **FEW_AT)
    dag_run = run(dag_of(database, "fails_in_parts", retries=0))
    assert dag_run.state == "failed"
    ended = states(dag_run)
    assert {state for (task, _), state in ended.items() if task != "erp.report"} == {"success"}
    assert ended["erp.report", -1] == "failed"
    told = "".join(capfd.readouterr())
    assert "2 failure(s) among 5 table(s)" in told
    assert "dbo.b: PreflightFailed" in told
    assert "dbo.no_key: UnsupportedKey" in told
    for name in ("dbo.a", "dbo.c", "dbo.large"):
        assert_silver_is_the_source(few, tmp_path, name)

    allowed = dag_of(database, "fails_in_parts_and_may", max_failed_tables=2)
    second = run(allowed)
    assert second.state == "success"
    assert set(returned(second, "erp.report")["failed"]) == {"dbo.b", "dbo.no_key"}


def test_while_no_server_answers_every_task_ends_and_the_report_fails(
    few: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dag = dag_of(database_at(tmp_path, tables=RANGES, **FEW_AT), "no_server", retries=0)
    monkeypatch.setenv("AIRFLOW_CONN_ERP", few.airflow_connection().replace(str(few.port), "1"))
    dag_run = run(dag)
    ended = states(dag_run)
    assert ended["erp.plan", -1] == "failed"
    assert ended["erp.report", -1] == "failed"
    assert dag_run.state == "failed"
    assert {state for (task, _), state in ended.items() if task == "erp.complete"} == {"success"}


def test_load_and_follow_in_two_dags_announce_what_they_commit_on_each_table_s_asset(
    few: EmbeddedSqlServer, tmp_path: Path
) -> None:
    database = database_at(tmp_path, tables=RANGES, **FEW_AT)
    load = dag_of(database, "load_alone", parts=("load",))
    follow = dag_of(database, "follow_alone", parts=("follow",))
    nothing = run(follow)
    assert nothing.state == "success"
    assert returned(nothing, "erp.report")["followed"] == 0
    assert {task for task, _ in states(nothing)} == {"erp.plan", "erp.follow", "erp.report"}
    loaded = run(load)
    assert loaded.state == "success"
    places = {f"{layer}/dbo/{name}" for layer in ("bronze", "silver") for name in ("a", "b", "c", "large")}
    assert {event.removeprefix(f"file://{tmp_path}/") for event in events_of(loaded)} == places
    few.execute("UPDATE dbo.a SET name = N'new'")
    pass_the_horizon(few)
    followed = run(follow)
    assert {event.removeprefix(f"file://{tmp_path}/") for event in events_of(followed)} == {
        "bronze/dbo/a",
        "silver/dbo/a",
    }
    again = run(load, conf={"resnapshot": ["dbo.b"]})
    assert returned(again, "erp.report")["loaded"] == ["dbo.b"]
    assert "bronze/dbo/b" in {event.removeprefix(f"file://{tmp_path}/") for event in events_of(again)}


def events_of(dag_run: Any) -> list[str]:
    """Assets that tasks of a run announced something on."""
    from airflow import settings
    from airflow.models.asset import AssetEvent
    from sqlalchemy import select

    query = select(AssetEvent).where(AssetEvent.source_run_id == dag_run.run_id)
    query = query.where(AssetEvent.source_dag_id == dag_run.dag_id)
    return sorted(event.asset.uri for event in settings.Session().scalars(query))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"parts": "load"}, 'parts must be "load", "follow" or both'),
        ({"parts": ("load", "merge")}, "parts must be"),
        ({"max_tasks": 3}, "max_tasks must be an integer >= 4, got 3"),
        ({"follow_tasks": 0}, "follow_tasks must be an integer >= 1"),
        ({"sessions_per_task": 0}, "sessions_per_task must be an integer >= 1, got 0"),
        ({"sessions_per_task": True}, "sessions_per_task must be an integer >= 1, got True"),
        ({"max_failed_tables": -1}, "max_failed_tables must be an integer >= 0"),
        ({"database": "erp"}, "database must be an MssqlCdcDatabase, got str"),
        ({"asset_events": 1}, "asset_events must be True or False"),
    ],
)
def test_wrong_arguments_are_refused_where_the_dag_is_parsed(arguments: dict[str, Any], said: str) -> None:
    given = {"database": database_at(Path("/lake")), **arguments}
    with DAG(dag_id="wrong", schedule=None), pytest.raises(ConfigurationError, match=re.escape(said)):
        mssql_cdc_pipeline(group_id="erp", **given)


def test_chunked_tables_are_refused_in_one_dag_with_follow() -> None:
    database = database_at(Path("/lake"), tables={"dbo.huge": {"mode": "chunked"}})
    with DAG(dag_id="chunked", schedule=None), pytest.raises(ConfigurationError, match="a DAG of its own"):
        mssql_cdc_pipeline(group_id="erp", database=database)
    with DAG(dag_id="chunked_alone", schedule=None) as dag:
        mssql_cdc_pipeline(group_id="erp", database=database, parts=("load",))
    assert sorted(dag.task_dict) == ["erp.complete", "erp.plan", "erp.read", "erp.report"]
