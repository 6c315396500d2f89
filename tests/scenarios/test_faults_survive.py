"""What happens to a server while a running Airflow loads from it: each costs a try, none costs a row."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import ROWS, Lake, Server, rows_of
from tests.scenarios.running_airflow import RunningAirflow, eventually
from tests.support.forwarder import Forwarder

DEADLOCK = "Transaction (Process ID 52) was deadlocked on lock resources with another process and has been "
DEADLOCK += "chosen as the deadlock victim. Rerun the transaction."
LOCKED = "Lock request time out period exceeded."


def tries(airflow: RunningAirflow, dag_id: str, run: str, task_id: str) -> list[int]:
    found = airflow.tasks(dag_id, run)
    return sorted(int(task["try_number"]) for task in found if task["task_id"] == task_id)


def state_of(airflow: RunningAirflow, dag_id: str, run: str, task_id: str) -> str | None:
    task = airflow.task(dag_id, run, task_id)
    return None if task is None else task["state"]


def test_deadlocks_and_lock_timeouts_at_planning_and_at_reading_cost_a_try_each(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    anything, reads = r"FROM \[dbo\]\.\[contended\]", rows_of("contended")
    server.fault("fail", anything, number=1205, text=DEADLOCK, severity=13)
    server.fault("fail", anything, number=1222, text=LOCKED, occurrence=2)
    server.fault("fail", reads, number=1205, text=DEADLOCK, severity=13, after_rows=100)
    server.fault("fail", reads, number=1222, text=LOCKED, occurrence=3)
    run = airflow.trigger("bootstrap_contended")
    assert airflow.wait_for_run("bootstrap_contended", run) == "success"
    server.execute("EXEC embedded.clear_faults")
    assert tries(airflow, "bootstrap_contended", run, "load.plan") == [3]
    assert sum(tries(airflow, "bootstrap_contended", run, "load.read")) == 6
    assert "DeadlockVictim" in airflow.log("bootstrap_contended", run, "load.plan", 1)
    assert "LockTimeout" in airflow.log("bootstrap_contended", run, "load.plan", 2)
    assert tables.rows("contended") == server.rows("contended")
    assert tables.bootstraps("contended") == 1


def test_a_server_that_restarts_while_it_is_read_costs_the_ranges_that_were_open(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.stall("restarted")
    run = airflow.trigger("bootstrap_restarted")
    eventually(server.stalled, what="a read has stopped in the middle")
    server.execute("EXEC embedded.restart")
    eventually(lambda: restarted(server), what="the server answers again", seconds=300)
    server.release()
    assert airflow.wait_for_run("bootstrap_restarted", run) == "success"
    assert max(tries(airflow, "bootstrap_restarted", run, "load.read")) == 2
    assert tables.rows("restarted") == server.rows("restarted")
    assert tables.bootstraps("restarted") == 1


def restarted(server: Server) -> bool:
    """Whether a new connection works, the old one being gone."""
    import pymssql

    try:
        server.execute("SELECT 1 AS one")
    except pymssql.Error:
        server.connect()
        return True
    return False


def test_while_capture_has_stopped_nothing_new_is_claimed_and_afterwards_nothing_is_missing(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    first = airflow.trigger("bootstrap_uncaptured")
    assert airflow.wait_for_run("bootstrap_uncaptured", first) == "success"
    lsn = airflow.returned("bootstrap_uncaptured", first, "load.complete")["lsn"]
    server.execute("EXEC embedded.stop_capture")
    try:
        server.execute("DELETE FROM dbo.uncaptured WHERE id < 10")
        quiet = airflow.trigger("changes_uncaptured")
        assert airflow.wait_for_run("changes_uncaptured", quiet) == "success"
        assert airflow.returned("changes_uncaptured", quiet, "changes")["rows"] == 0
        again = airflow.trigger("bootstrap_uncaptured", {"resnapshot": True})
        eventually(
            lambda: state_of(airflow, "bootstrap_uncaptured", again, "load.plan") == "up_for_retry",
            what="a resnapshot that cannot be above the stored one is tried again",
        )
    finally:
        server.execute("EXEC embedded.start_capture")
    assert airflow.wait_for_run("bootstrap_uncaptured", again) == "success"
    assert "NotReadyYet" in airflow.log("bootstrap_uncaptured", again, "load.plan", 1)
    assert airflow.returned("bootstrap_uncaptured", again, "load.complete")["lsn"] > lsn
    later = airflow.trigger("changes_uncaptured")
    assert airflow.wait_for_run("changes_uncaptured", later) == "success"
    assert [row[-2] for row in tables.changes("uncaptured")] == list(range(10))


@pytest.fixture
def behind(server: Server, listener: Forwarder) -> int:
    """The port of a replica that is behind from now on."""
    ((port,),) = server.execute("EXEC embedded.replica 'secondary'")
    server.execute("EXEC embedded.replica_hold 'secondary'")
    return int(port)


def test_a_replica_that_is_behind_the_plan_is_not_read_until_it_has_caught_up(
    airflow: RunningAirflow, server: Server, tables: Lake, listener: Forwarder, behind: int
) -> None:
    server.execute("UPDATE dbo.replicated SET name = N'after the replica stopped' WHERE id < 500")
    server.fault("stall", r"FROM \[dbo\]\.\[replicated\]")
    primary = listener.target
    run = airflow.trigger("bootstrap_replicated")
    eventually(server.stalled, what="the key is being measured, S is recorded")
    listener.target = behind
    try:
        server.release()
        eventually(
            lambda: max(tries(airflow, "bootstrap_replicated", run, "load.read"), default=0) >= 2,
            what="a read that reached the replica is tried again",
        )
        server.execute("EXEC embedded.replica_catch_up 'secondary'")
        assert airflow.wait_for_run("bootstrap_replicated", run) == "success"
    finally:
        listener.target = primary
    logs = [airflow.log("bootstrap_replicated", run, "load.read", 1, index) for index in range(4)]
    assert any("ReplicaBehind" in log for log in logs)
    assert tables.rows("replicated") == server.rows("replicated")
    assert len(tables.rows("replicated")) == ROWS
