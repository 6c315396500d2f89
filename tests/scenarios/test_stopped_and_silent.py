"""A running task that somebody stops; and what a running Airflow tells, in its files and command lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Lake, Server
from tests.scenarios.running_airflow import RunningAirflow, eventually


def command_lines() -> Iterator[bytes]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes()
            except OSError:
                continue


def told(home: Path) -> Iterator[tuple[Path, bytes]]:
    """Logs and database of a running Airflow."""
    for file in home.rglob("*"):
        if file.is_file() and file.suffix in {".log", ".db", ".db-wal"}:
            yield file, file.read_bytes()


@pytest.mark.soak
def test_a_task_that_is_marked_failed_ends_its_query_and_nothing_that_is_told_holds_a_secret(
    airflow: RunningAirflow, server: Server, tables: Lake
) -> None:
    password = json.loads(server.connection)["password"].encode()
    server.stall("stopped")
    run = airflow.trigger("bootstrap_stopped")
    eventually(server.stalled, what="a read has stopped in the middle")
    task = eventually(
        lambda: one_running(airflow, run), what="the others are done, and one range is being read"
    )
    process = airflow.task_process_of(str(task["id"]))
    assert [line for line in command_lines() if password in line] == []
    airflow.mark("bootstrap_stopped", run, "load.read", int(str(task["map_index"])), state="failed")
    eventually(lambda: not Path(f"/proc/{process}").exists(), what="the task's process is gone", seconds=300)
    assert airflow.wait_for_run("bootstrap_stopped", run) == "failed"
    log = airflow.log("bootstrap_stopped", run, "load.read", 1, int(str(task["map_index"])))
    assert "it was cancelled" in log, "on_kill ended the query, and the task learned it"
    server.release()
    airflow.clear("bootstrap_stopped", run, [["load.read", task["map_index"]]], downstream=True)
    assert airflow.wait_for_run("bootstrap_stopped", run) == "success"
    assert tables.rows("stopped") == server.rows("stopped")
    assert len(list(Path(tables.bronze("stopped")).glob("*.parquet"))) == 4

    everything = list(told(airflow.home))
    assert any(b"dbo_stopped" in text for _, text in everything)
    assert [file for file, text in everything if password in text] == []
    assert [file for file, text in everything if b"row 777" in text] == []


def one_running(airflow: RunningAirflow, run: str) -> dict[str, object] | None:
    reads = [task for task in airflow.tasks("bootstrap_stopped", run) if task["task_id"] == "load.read"]
    running = [task for task in reads if task["state"] == "running"]
    return running[0] if len(reads) == 4 and len(running) == 1 else None
