"""Changes as Airflow runs them: skipped, by interval, deferred until capture has passed, and the sensor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor
from tests.dags.harness import clear_and_rerun, returned, run, states, sync
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
HOUR = datetime(2026, 5, 11, 10, tzinfo=UTC)


def dag_of(table: MssqlCdcTable, dag_id: str, **arguments: Any) -> DAG:
    """Bootstrap, then changes; both again in every run."""
    with DAG(dag_id=dag_id, schedule=None) as dag:
        load = mssql_cdc_bootstrap(group_id="orders", table=table, rows_per_range=500, retry_delay=0.1)
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, **arguments)
        load >> changes
    return dag


def hourly(table: MssqlCdcTable, dag_id: str, **arguments: Any) -> DAG:
    timetable = CronDataIntervalTimetable("0 * * * *", timezone="UTC")
    with DAG(dag_id=dag_id, schedule=timetable, start_date=HOUR - timedelta(days=1), catchup=False) as dag:
        MssqlCdcChangesOperator(
            task_id="changes", table=table, until="data_interval_end", poll_seconds=0, **arguments
        )
    return dag


def changes_in(table: MssqlCdcTable) -> list[int]:
    return sorted(row["id"] for row in delta_rows(table.bronze, "_operation > 0"))


def test_changes_follow_the_bootstrap_and_a_cleared_run_adds_nothing(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    dag = dag_of(table, "follows")
    assert run(dag).state == "success"
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2000, 'new')")
    second = run(dag)
    assert returned(second, "changes")["inserts"] == 1
    assert clear_and_rerun(dag, second.run_id, ["orders.plan", "changes"]).state == "success"
    assert changes_in(table) == [2000]


def test_without_a_snapshot_the_task_is_skipped(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    with DAG(dag_id="only_changes", schedule=None) as alone:
        MssqlCdcChangesOperator(task_id="changes", table=make_table())
    assert states(run(alone)) == {("changes", -1): "skipped"}


def test_a_run_by_interval_defers_until_capture_has_passed_and_a_cleared_one_repairs(
    server: EmbeddedSqlServer, make_table: MakeTable
) -> None:
    table = make_table()
    server.clock.freeze(HOUR - timedelta(minutes=30))
    run(dag_of(table, "loads_first"))
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2000, 'in the hour')")
    dag = sync(hourly(table, "by_interval"))

    def pass_the_hour() -> None:
        server.clock.freeze(HOUR + timedelta(minutes=5))
        server.execute("INSERT INTO dbo.orders (id, name) VALUES (3000, 'in the next hour')")

    looks = server.faults.run("largest less than", pass_the_hour, occurrence=3)
    first = dag.test(logical_date=HOUR)
    assert first.state == "success"
    assert looks.acted == 1, "the task looked, deferred, and the trigger looked again"
    assert returned(first, "changes")["event"] == "changes"
    assert changes_in(table) == [2000]
    assert clear_and_rerun(dag, first.run_id, ["changes"]).state == "success"
    assert returned(first, "changes")["event"] == "repair"
    assert changes_in(table) == [2000]


def test_a_capture_that_does_not_come_fails_the_task_with_the_reason(
    server: EmbeddedSqlServer, make_table: MakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table()
    run(dag_of(table, "loads_before"))
    server.stop_capture()
    dag = sync(hourly(table, "too_late", wait_seconds=0))
    assert dag.test(logical_date=datetime.now(UTC) + timedelta(hours=3)).state == "failed"


def test_a_gap_fails_at_once_and_is_not_tried_again(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    run(dag_of(table, "loads_then_gap"))
    server.clock.shift(timedelta(days=4))
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2000, 'a')")
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2001, 'b')")
    newest = server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    server.cleanup(up_to=newest)
    dag = dag_of(table, "gap", retries=3)
    dag_run = run(dag)
    assert states(dag_run)[("changes", -1)] == "failed"
    (task,) = [ti for ti in dag_run.get_task_instances() if ti.task_id == "changes"]
    assert task.try_number == 1
    assert len(delta_rows(table.facts, "event = 'gap'")) == 1


def test_the_sensor_waits_for_a_snapshots_horizon(server: EmbeddedSqlServer, make_table: MakeTable) -> None:
    table = make_table()
    with DAG(dag_id="waits_for_the_horizon", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=table, retry_delay=0.1)
        MssqlCdcCaptureSensor(
            task_id="captured",
            table=table,
            consistent_after=dag.get_task("orders.complete").output,
            poke_interval=0.05,
            timeout=60,
        )

    def later() -> None:
        server.clock.shift(timedelta(seconds=5))
        server.idle()

    server.faults.run("MIN\\(m.start_lsn\\)", lambda: threading.Timer(0.3, later).start())
    dag_run = run(dag)
    assert dag_run.state == "success"
    completed = returned(dag_run, "orders.complete")
    assert returned(dag_run, "captured") > completed["consistent_after"]["lsn"]


@pytest.mark.parametrize("deferrable", [True, False])
def test_the_sensor_fails_after_its_limit_and_says_that_capture_stopped(
    server: EmbeddedSqlServer, make_table: MakeTable, deferrable: bool
) -> None:
    table = make_table()
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2000, 'a')")
    server.stop_capture()
    server.clock.shift(timedelta(hours=2))
    with DAG(dag_id=f"too_long_{deferrable}", schedule=None) as dag:
        MssqlCdcCaptureSensor(
            task_id="captured",
            table=table,
            time=(server.clock.utc() + timedelta(hours=1)).isoformat(),
            timeout=0.2,
            poke_interval=0.05,
            deferrable=deferrable,
        )
    assert states(run(dag)) == {("captured", -1): "failed"}


@pytest.mark.parametrize(("lsn", "passes"), [(0, True), (1 << 70, False)])
def test_the_sensor_compares_an_lsn(
    server: EmbeddedSqlServer, make_table: MakeTable, lsn: int, passes: bool
) -> None:
    server.execute("INSERT INTO dbo.orders (id, name) VALUES (2000, 'a')")
    newest = server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    with DAG(dag_id=f"lsn_{passes}", schedule=None) as dag:
        MssqlCdcCaptureSensor(
            task_id="captured",
            table=make_table(),
            lsn=f"0x{int(newest, 16) + lsn:020X}",
            timeout=0.1,
            poke_interval=0.01,
        )
    dag_run = run(dag)
    assert states(dag_run) == {("captured", -1): "success" if passes else "failed"}
    assert returned(dag_run, "captured") == (newest if passes else None)
