"""Bootstraps on a running Airflow: killed workers, orphans, clears, broken connections, two runs at once."""

from __future__ import annotations

import contextlib
import os
import signal

from tests.scenarios.conftest import ROWS, Lake, Server
from tests.scenarios.running_airflow import RunningAirflow, eventually
from tests.support.statsd_server import StatsdServer


def stalled_read(airflow: RunningAirflow, dag_id: str, run_id: str) -> dict[str, object]:
    """The mapped task whose read has stopped: the one that still runs when all others are done."""

    def found() -> dict[str, object] | None:
        reads = [task for task in airflow.tasks(dag_id, run_id) if task["task_id"] == "load.read"]
        running = [task for task in reads if task["state"] == "running"]
        done = [task for task in reads if task["state"] == "success"]
        return running[0] if len(running) == 1 and len(done) == len(reads) - 1 > 0 else None

    task = eventually(found, what="one range is being read and the others are done")
    assert isinstance(task, dict)
    return task


def test_a_table_is_loaded_once_and_a_second_run_reads_nothing(
    airflow: RunningAirflow, server: Server, tables: Lake, metrics: StatsdServer
) -> None:
    first = airflow.trigger("bootstrap_plain")
    assert airflow.wait_for_run("bootstrap_plain", first) == "success"
    completed = airflow.returned("bootstrap_plain", first, "load.complete")
    assert tables.ids("plain") == list(range(ROWS))
    assert server.reads_of("plain") == 4
    server.execute("DELETE FROM dbo.plain WHERE id >= 500")
    second = airflow.trigger("bootstrap_plain")
    assert airflow.wait_for_run("bootstrap_plain", second) == "success"
    assert airflow.returned("bootstrap_plain", second, "load.complete")["lsn"] == completed["lsn"]
    assert server.reads_of("plain") == 4
    assert tables.bootstraps("plain") == 1
    name = "airflow.mssql_cdc.rows.erp__shop_dbo_plain.bootstrap"
    eventually(lambda: f"{name}:{ROWS}|c" in metrics.received, what=f"{name} is received")


def test_a_killed_task_is_tried_again_and_every_row_is_there_once(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.stall("killed")
    run = airflow.trigger("bootstrap_killed")
    eventually(server.stalled, what="a read has stopped in the middle")
    task = stalled_read(airflow, "bootstrap_killed", run)
    os.kill(airflow.task_process_of(str(task["id"])), signal.SIGKILL)
    server.release()
    assert airflow.wait_for_run("bootstrap_killed", run) == "success"
    again = airflow.task("bootstrap_killed", run, "load.read", int(str(task["map_index"])))
    assert again is not None
    assert again["try_number"] == 2
    assert tables.ids("killed") == list(range(ROWS))
    assert server.reads_of("killed") == 5
    assert tables.bootstraps("killed") == 1


def test_an_orphan_that_goes_on_writing_beside_its_successor_doubles_nothing(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.stall("orphaned")
    run = airflow.trigger("bootstrap_orphaned")
    eventually(server.stalled, what="a read has stopped in the middle")
    task = stalled_read(airflow, "bootstrap_orphaned", run)
    orphan = airflow.task_process_of(str(task["id"]))
    os.kill(airflow.supervisor_of(str(task["id"])), signal.SIGKILL)
    index = int(str(task["map_index"]))

    def tried_again() -> bool:
        now = airflow.task("bootstrap_orphaned", run, "load.read", index)
        return now is not None and now["try_number"] == 2 and now["state"] in {"running", "success"}

    eventually(tried_again, what="the scheduler gives the lost task another try", seconds=600)
    server.release()
    assert airflow.wait_for_run("bootstrap_orphaned", run) == "success"
    assert tables.ids("orphaned") == list(range(ROWS))
    assert tables.bootstraps("orphaned") == 1
    with contextlib.suppress(ProcessLookupError):
        os.kill(orphan, signal.SIGKILL)


def test_ranges_that_are_cleared_afterwards_read_nothing(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    run = airflow.trigger("bootstrap_cleared")
    assert airflow.wait_for_run("bootstrap_cleared", run) == "success"
    completed, reads = airflow.returned("bootstrap_cleared", run, "load.complete"), server.reads_of("cleared")
    server.execute("UPDATE dbo.cleared SET name = N'later'")
    for task_ids, downstream in (
        ([["load.read", 2]], False),
        ([["load.read", 1]], True),
        (["load.complete"], False),
        (["load.plan"], True),
    ):
        airflow.clear("bootstrap_cleared", run, task_ids, downstream=downstream)
        assert airflow.wait_for_run("bootstrap_cleared", run) == "success"
    again = airflow.returned("bootstrap_cleared", run, "load.complete")
    assert again == {**completed, "version": again["version"]}
    assert server.reads_of("cleared") == reads
    assert tables.ids("cleared") == list(range(ROWS))
    assert tables.bootstraps("cleared") == 1


def test_a_connection_that_drops_among_the_rows_costs_one_range(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.execute(
        r"EXEC embedded.fault @action = 'drop', @pattern = N'AS \[name\](?s:.*)FROM \[dbo\]\.\[dropped\]', "
        "@after_rows = 100, @occurrence = 2"
    )
    run = airflow.trigger("bootstrap_dropped")
    assert airflow.wait_for_run("bootstrap_dropped", run) == "success"
    server.execute("EXEC embedded.clear_faults")
    assert server.reads_of("dropped") == 5
    assert tables.ids("dropped") == list(range(ROWS))


def test_two_runs_at_once_leave_one_snapshot(airflow: RunningAirflow, server: Server, tables: Lake) -> None:
    runs = [airflow.trigger("bootstrap_raced") for _ in range(2)]
    assert [airflow.wait_for_run("bootstrap_raced", run) for run in runs] == ["success", "success"]
    lsns = {airflow.returned("bootstrap_raced", run, "load.complete")["lsn"] for run in runs}
    assert len(lsns) == 1
    assert tables.ids("raced") == list(range(ROWS))
    assert tables.bootstraps("raced") == 1


def test_a_plan_that_is_cleared_after_the_table_shrank_is_followed(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.execute(
        r"EXEC embedded.fault @action = 'fail', @pattern = N'AS \[name\](?s:.*)FROM \[dbo\]\.\[shrunk\]', "
        "@number = 229, @occurrence = 4"
    )
    run = airflow.trigger("bootstrap_shrunk")
    assert airflow.wait_for_run("bootstrap_shrunk", run) == "failed"
    server.execute("EXEC embedded.clear_faults")
    server.execute("DELETE FROM dbo.shrunk WHERE id >= 300")
    airflow.clear("bootstrap_shrunk", run, ["load.plan"], downstream=True)
    assert airflow.wait_for_run("bootstrap_shrunk", run) == "success"
    assert tables.ids("shrunk") == list(range(300))
