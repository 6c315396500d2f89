"""Random processes of a load in chunks, its changes and silver die at random, while the table changes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from tests.scenarios.conftest import Lake, Server
from tests.scenarios.running_airflow import RunningAirflow, eventually
from tests.scenarios.writer import somebody_writing
from tests.support.told_twice import told_twice

KILLS = int(os.environ.get("MSSQL_CDC_KILLS", "50"))
ROWS = 1500
LOAD, CHANGES, MERGE = DAGS = ("bootstrap_kills", "changes_kills", "merge_kills")
ACTIVE = {"queued", "running"}


def active(airflow: RunningAirflow, dag_id: str) -> list[str]:
    return [run for run, state in airflow.runs(dag_id).items() if state in ACTIVE]


def keep_running(airflow: RunningAirflow) -> None:
    """Each DAG has a run: the load is taken again, deliberately, whenever one is complete."""
    for dag_id in DAGS:
        if not active(airflow, dag_id):
            done = "success" in airflow.runs(dag_id).values()
            airflow.trigger(dag_id, {"resnapshot": done} if dag_id == LOAD else None)


def kill_one(airflow: RunningAirflow, rng: random.Random) -> bool:
    """Kill the process of a running task, or sometimes its supervisor, and leave an orphan."""
    running = [
        task
        for dag_id in DAGS
        for run in active(airflow, dag_id)
        for task in airflow.tasks(dag_id, run)
        if task["state"] == "running"
    ]
    if not running:
        return False
    task_id = str(rng.choice(running)["id"])
    pid = airflow.process_of(task_id, supervisor=rng.random() < 0.2)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


@pytest.mark.soak
def test_after_kills_at_random_moments_silver_is_the_source(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)
    rng, killed = random.Random(seed), 0
    server.create("kills", ROWS)
    writing = somebody_writing(
        server,
        seed,
        choose=lambda rng: ("kills", rng.randrange(ROWS)),
        row_of=lambda _, key: f"({key}, N'new')",
        fresh_from=10_000,
        pauses=(0.01, 0.1),
    )
    with writing:
        deadline = time.monotonic() + 60 * KILLS
        while killed < KILLS:
            assert time.monotonic() < deadline, f"{killed} kills in time"
            keep_running(airflow)
            killed += kill_one(airflow, rng)
            time.sleep(rng.uniform(0, 2))
    for dag_id in (LOAD, CHANGES, MERGE):
        finish(airflow, dag_id)
    server.execute("EXEC embedded.clock @shift_seconds = 60")
    server.execute("EXEC embedded.idle")
    for dag_id in (CHANGES, MERGE):
        finish(airflow, dag_id)
        run = airflow.trigger(dag_id)
        assert airflow.wait_for_run(dag_id, run) == "success"
    merged = airflow.returned(MERGE, run, "merge")
    assert merged["consistent"], merged["reason"]
    assert tables.silver("kills") == server.rows("kills")
    assert told_twice(tables.path / "ops" / "facts_of_kills") == []


def finish(airflow: RunningAirflow, dag_id: str) -> None:
    eventually(lambda: not active(airflow, dag_id), what=f"the runs of {dag_id} end", seconds=900, every=2)
    if dag_id == LOAD and "success" not in airflow.runs(LOAD).values():
        assert airflow.wait_for_run(LOAD, airflow.trigger(LOAD), seconds=900) == "success"
