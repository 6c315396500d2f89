"""Forty tables are loaded and followed by Celery workers that share no disk; one is lost half-way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.scenarios.conftest import Server
from tests.scenarios.distributed import erp
from tests.scenarios.distributed.machines import Machine
from tests.scenarios.running_airflow import RunningAirflow, eventually
from tests.support.delta_rows import delta_rows
from tests.support.s3_api import storage_options
from tests.support.told_twice import told_twice

pytestmark = pytest.mark.distributed
STALLED = erp.LARGE[1]
NAMES = [f"dbo.{table}" for table in erp.TABLES]


def test_a_machine_that_is_lost_half_way_and_one_that_joins_leave_every_silver_as_its_source(
    central: RunningAirflow, source: Server, endpoint: str, machine: Callable[[str], Machine]
) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)
    machines = {name: machine(name) for name in ("first", "second")}
    for one in machines.values():
        one.wait_until_ready()
    source.execute(
        "EXEC embedded.fault @action = 'stall', @pattern = %s, @after_rows = 50", (reads_of(STALLED),)
    )
    with erp.somebody_writing(source, seed):
        load = central.trigger("erp_load")
        lost = stalled_read(central, source, load)
        # A long load stops nobody: the tables of each pack are followed as soon as they are read.
        assert followed_tables(central) == len(erp.SMALL)
        machines.pop(lost["hostname"]).destroy()
        machines["third"] = machine("third")
        source.release()
        assert central.wait_for_run("erp_load", load, seconds=1800) == "success"
    again = instance(central, "erp_load", load, lost)
    assert again["try_number"] > lost["try_number"]
    assert again["hostname"] != lost["hostname"]
    assert STALLED in again["rendered_map_index"]
    assert sorted(central.returned("erp_load", load, "erp.report")["loaded"]) == sorted(NAMES)

    # The machines that began are gone, with their disks: nothing that they had is needed for what follows.
    machines["third"].wait_until_ready()
    for name in set(machines) - {"third"}:
        machines[name].leave()
    source.execute("EXEC embedded.clock @shift_seconds = 60")
    source.execute("EXEC embedded.idle")
    assert followed_tables(central, by={"third"}) == len(erp.TABLES)

    options = storage_options(endpoint)
    different = {table for table in erp.TABLES if silver(table, options) != erp.rows(source, table)}
    assert different == set()
    facts = delta_rows("s3://lake/ops/facts", storage_options=options)
    loaded = Counter(row["target"] for row in facts if row["event"] == "bootstrap")
    assert loaded == Counter(f"s3://lake/bronze/dbo/{table}" for table in erp.TABLES)
    assert told_twice("s3://lake/ops/facts", storage_options=options) == []


def reads_of(table: str) -> str:
    """Matches the statements that read rows of a table, not those that look for its bounds."""
    return rf"AS \[name\](?s:.*)FROM \[dbo\]\.\[{table}\]"


def stalled_read(central: RunningAirflow, source: Server, run: str) -> dict[str, Any]:
    """The mapped task whose read has stopped: the one that runs when all others are done."""

    def found() -> dict[str, Any] | None:
        reads = [task for task in central.tasks("erp_load", run) if task["task_id"] == "erp.read"]
        running = [task for task in reads if task["state"] == "running"]
        done = [task for task in reads if task["state"] == "success"]
        if not source.stalled() or len(running) != 1 or len(done) != len(reads) - 1:
            return None
        return running[0]

    return dict(eventually(found, what=f"a read of {STALLED} has stopped in the middle", seconds=1200))


def followed_tables(central: RunningAirflow, *, by: set[str] | None = None) -> int:
    """How many tables a run of the other DAG has followed, on these machines alone if any are named."""
    run = central.trigger("erp_follow")
    assert central.wait_for_run("erp_follow", run, seconds=1800) == "success"
    assert by is None or {task["hostname"] for task in central.tasks("erp_follow", run)} == by
    return int(central.returned("erp_follow", run, "erp.report")["followed"])


def instance(central: RunningAirflow, dag_id: str, run: str, like: dict[str, Any]) -> dict[str, Any]:
    """The task instance as it is now."""
    return next(
        task
        for task in central.tasks(dag_id, run)
        if (task["task_id"], task["map_index"]) == (like["task_id"], like["map_index"])
    )


def silver(table: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    """Silver's columns of the source, ordered by ``id``."""
    found = delta_rows(f"s3://lake/silver/dbo/{table}", storage_options=options)
    return sorted(
        (tuple(value for name, value in row.items() if not name.startswith("_")) for row in found),
        key=lambda row: row[0],
    )
