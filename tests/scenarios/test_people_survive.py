"""What people press and change while, and after, a running Airflow loads a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import ROWS, Lake, Server, rows_of
from tests.scenarios.running_airflow import RunningAirflow, eventually


def failed_read(airflow: RunningAirflow, dag_id: str, run: str) -> int:
    """The map index of the range that failed."""
    (index,) = [
        int(task["map_index"])
        for task in airflow.tasks(dag_id, run)
        if task["task_id"] == "load.read" and task["state"] == "failed"
    ]
    return index


@pytest.mark.soak
def test_a_plan_that_is_cleared_after_the_table_grew_is_followed(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.fault("fail", rows_of("grown"), number=229, occurrence=4)
    run = airflow.trigger("bootstrap_grown")
    assert airflow.wait_for_run("bootstrap_grown", run) == "failed"
    assert tables.bootstraps("grown") == 0
    assert tables.rows("grown") == []
    server.execute("EXEC embedded.clear_faults")
    values = ", ".join(f"({number}, N'row {number}')" for number in range(ROWS, ROWS + 600))
    server.execute(f"INSERT INTO dbo.grown VALUES {values}")
    airflow.clear("bootstrap_grown", run, ["load.plan"], downstream=True)
    assert airflow.wait_for_run("bootstrap_grown", run) == "success"
    assert tables.rows("grown") == server.rows("grown")
    assert len(airflow.returned("bootstrap_grown", run, "load.plan")) > 4


@pytest.mark.soak
def test_a_range_that_is_marked_a_success_by_hand_is_missed_until_it_is_read(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.fault("fail", rows_of("marked"), number=229, occurrence=2)
    run = airflow.trigger("bootstrap_marked")
    assert airflow.wait_for_run("bootstrap_marked", run) == "failed"
    server.execute("EXEC embedded.clear_faults")
    index = failed_read(airflow, "bootstrap_marked", run)
    airflow.mark("bootstrap_marked", run, "load.read", index)
    airflow.clear("bootstrap_marked", run, ["load.complete"])
    assert airflow.wait_for_run("bootstrap_marked", run) == "failed"
    tried = airflow.task("bootstrap_marked", run, "load.complete")
    assert tried is not None
    log = airflow.log("bootstrap_marked", run, "load.complete", tried["try_number"])
    assert "IncompletePlan" in log
    assert tables.rows("marked") == []
    assert tables.bootstraps("marked") == 0
    airflow.clear("bootstrap_marked", run, [["load.read", index]], downstream=True)
    assert airflow.wait_for_run("bootstrap_marked", run) == "success"
    assert tables.rows("marked") == server.rows("marked")
    assert tables.bootstraps("marked") == 1


@pytest.mark.soak
def test_a_range_that_is_cleared_while_others_are_read_lands_once(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    server.fault("stall", rows_of("midway"), after_rows=50, occurrence=4)
    run = airflow.trigger("bootstrap_midway")
    eventually(server.stalled, what="the last read has stopped in the middle")

    def finished_ranges() -> list[int] | None:
        found = airflow.tasks("bootstrap_midway", run)
        done = [task for task in found if task["task_id"] == "load.read" and task["state"] == "success"]
        return [int(task["map_index"]) for task in done] if len(done) == 3 else None

    finished = eventually(finished_ranges, what="three ranges are staged")
    airflow.clear("bootstrap_midway", run, [["load.read", finished[0]]], downstream=True)
    eventually(lambda: server.reads_of("midway") == 5, what="it is read again")
    server.release()
    assert airflow.wait_for_run("bootstrap_midway", run) == "success"
    assert tables.rows("midway") == server.rows("midway")
    files = {path.name for path in Path(tables.bronze("midway")).glob("*.parquet")}
    assert len(files) == 4, "what the cleared range had staged before is gone"


@pytest.mark.soak
def test_a_dag_file_that_is_edited_between_two_runs_loads_the_table_once(
    airflow: RunningAirflow, server: Server, tables: Lake, dags: Path
) -> None:
    server.fault("fail", rows_of("edited"), number=229, occurrence=3)
    first = airflow.trigger("bootstrap_edited")
    assert airflow.wait_for_run("bootstrap_edited", first) == "failed"
    server.execute("EXEC embedded.clear_faults")
    index = failed_read(airflow, "bootstrap_edited", first)
    edit(dags / "edited.py", rows_per_range=90, max_ranges=7)
    second = airflow.trigger("bootstrap_edited")
    assert airflow.wait_for_run("bootstrap_edited", second) == "success"
    assert len(airflow.returned("bootstrap_edited", second, "load.plan")) == 7
    completed = airflow.returned("bootstrap_edited", second, "load.complete")
    server.execute("DELETE FROM dbo.edited WHERE id >= 500")
    airflow.clear("bootstrap_edited", first, [["load.read", index]], downstream=True)
    assert airflow.wait_for_run("bootstrap_edited", first) == "success"
    assert airflow.returned("bootstrap_edited", first, "load.complete")["lsn"] == completed["lsn"]
    assert tables.ids("edited") == list(range(ROWS))
    assert tables.bootstraps("edited") == 1
    assert len(list(Path(tables.bronze("edited")).glob("*.parquet"))) == 7, "the first run's are gone"


def edit(file: Path, **arguments: Any) -> None:
    """Change arguments of the task group, whole lines of the file."""
    lines = file.read_text().splitlines()
    for name, value in arguments.items():
        (at,) = [number for number, line in enumerate(lines) if line.strip().startswith(f"{name}=")]
        lines[at] = f"{lines[at].split(name)[0]}{name}={value},"
    file.write_text("\n".join(lines) + "\n")
