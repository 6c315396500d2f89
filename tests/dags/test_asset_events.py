"""What runs of a DAG announce: an event for what was committed, and none when nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow import settings
from airflow.models.asset import AssetDagRunQueue, AssetEvent
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AssetAlias
from sqlalchemy import delete, select

from airflow_provider_mssql_cdc import MssqlCdcTable, delta_asset, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator
from tests.dags.harness import clear_and_rerun, returned, run, sync
from tests.support.ended import ended_at

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]


def silver_of(table: MssqlCdcTable) -> str:
    return table.bronze.replace("/bronze/", "/silver/")


def pipeline(table: MssqlCdcTable, dag_id: str, **arguments: Any) -> DAG:
    with DAG(dag_id=dag_id, schedule=None, default_args={"retries": 1, "retry_delay": 0}) as dag:
        load = mssql_cdc_bootstrap(group_id="orders", table=table, **arguments)
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0, **arguments)
        merge = MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver_of(table), **arguments)
        load >> changes >> merge
    return dag


def consumer(table: MssqlCdcTable, dag_id: str) -> DAG:
    with DAG(dag_id=dag_id, schedule=[delta_asset(silver_of(table))]) as dag:
        EmptyOperator(task_id="use")
    return sync(dag)


def events(dag_id: str) -> list[tuple[str, dict[str, Any]]]:
    """``(task, extra)`` of a DAG's asset events, in their order."""
    found = select(AssetEvent).where(AssetEvent.source_dag_id == dag_id).order_by(AssetEvent.id)
    return [(event.source_task_id, event.extra) for event in settings.Session().scalars(found)]


def is_due(dag_id: str) -> bool:
    """Whether the scheduler would run a DAG now because of its assets; asked once."""
    session = settings.Session()
    due = session.scalars(select(AssetDagRunQueue).where(AssetDagRunQueue.target_dag_id == dag_id)).all()
    session.execute(delete(AssetDagRunQueue).where(AssetDagRunQueue.target_dag_id == dag_id))
    session.commit()
    return bool(due)


def test_a_consumer_of_silver_is_due_when_silver_changed_and_not_otherwise(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = pipeline(table, "announces_changes")
    consumer(table, "uses_silver")
    first = run(dag)
    completed, merged = returned(first, "orders.complete"), returned(first, "merge")
    assert events("announces_changes") == [
        ("orders.complete", {"lsn": completed["lsn"], "version": completed["version"], "rows": 1000}),
        ("merge", {"lsn": merged["changes"], "version": merged["version"], "rows": 1000}),
    ]
    assert is_due("uses_silver")

    run(dag)
    assert (len(events("announces_changes")), is_due("uses_silver")) == (2, False)

    server.execute("DELETE FROM dbo.orders WHERE id < 3")
    third = run(dag)
    changed, merged = returned(third, "changes"), returned(third, "merge")
    assert events("announces_changes")[2:] == [
        ("changes", {"lsn": changed["until"], "version": changed["version"], "rows": 3}),
        ("merge", {"lsn": merged["changes"], "version": merged["version"], "rows": 997}),
    ]
    assert is_due("uses_silver")


@pytest.mark.parametrize(
    ("task_id", "ended"),
    [("orders.complete", "complete_snapshot"), ("changes", "run_changes"), ("merge", "merge_silver")],
)
def test_what_an_earlier_try_committed_is_announced_by_the_next(
    server: EmbeddedSqlServer, make_table: MakeTable, task_id: str, ended: str
) -> None:
    table = make_table()
    dag_id = f"announces_{ended}"
    dag = pipeline(table, dag_id)
    if task_id != "orders.complete":
        run(dag)
        server.execute("DELETE FROM dbo.orders WHERE id < 3")
    before = len(events(dag_id))
    with ended_at(ended, "return", raising=lambda: OSError("the worker is gone")):
        assert run(dag).state == "success"
    announced = [extra for task, extra in events(dag_id)[before:] if task == task_id]
    assert len(announced) == 1
    assert announced[0]["lsn"].startswith("0x")


def test_a_cleared_task_announces_again_what_its_run_committed(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = pipeline(table, "announces_again")
    dag_run = run(dag)
    before = events("announces_again")
    clear_and_rerun(dag, dag_run.run_id, ["merge"])
    assert events("announces_again") == [*before, before[-1]]


def test_events_can_be_left_out_and_aliases_of_the_author_get_theirs(make_table: MakeTable) -> None:
    table = make_table()
    quiet = pipeline(table, "announces_nothing", asset_events=False)
    assert [task.outlets for task in quiet.tasks] == [[]] * len(quiet.tasks)
    run(quiet)
    assert events("announces_nothing") == []
    with DAG(dag_id="has_its_own", schedule=None):
        merge = MssqlCdcMergeOperator(
            task_id="merge", table=table, silver=silver_of(table), outlets=[AssetAlias("loads")]
        )
        assert [alias.name for alias in merge.outlets] == [f"mssql_cdc {silver_of(table)}", "loads"]
        with pytest.raises(ConfigurationError, match="asset_events"):
            MssqlCdcMergeOperator(task_id="wrong", table=table, silver="/lake/s", asset_events="yes")
