"""Tasks that give their worker back and go on later: only a running triggerer shows that they do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.scenarios.conftest import ROWS, Lake, Server
from tests.scenarios.running_airflow import RunningAirflow, eventually
from tests.support.delta_rows import delta_rows
from tests.support.server_process import server_process

HOUR = 3600


@pytest.fixture(scope="module")
def patient(airflow: RunningAirflow) -> Iterator[Server]:
    """A separate server, since its capture stops and its clock runs ahead; known to Airflow's database."""
    with server_process("--database", "shop") as connection:
        server = Server(connection)
        server.execute("EXEC sys.sp_cdc_enable_db")
        server.create("awaited")
        told = json.loads(connection)
        body = {**told, "connection_id": "patient", "extra": json.dumps(told.get("extra") or {})}
        airflow.call("POST", "/api/v2/connections", body)
        for dag_id in ("merge_awaited", "captured_in_vain"):
            eventually(lambda dag_id=dag_id: airflow.known(dag_id), what=f"the file of {dag_id} is parsed")
        yield server


@pytest.fixture(scope="module", autouse=True)
def in_vain(airflow: RunningAirflow, patient: Server) -> str:
    """A run whose merge waits for what does not come, while the others are looked at."""
    return airflow.trigger("merge_in_vain")


@pytest.fixture
def capture_stopped(patient: Server) -> Iterator[Server]:
    patient.execute("EXEC embedded.stop_capture")
    yield patient
    patient.execute("EXEC embedded.start_capture")


def deferred(airflow: RunningAirflow, dag_id: str, run: str, task_id: str) -> dict[str, Any]:
    """The task as the triggerer has it, with what waits for it there."""

    def look() -> dict[str, Any] | None:
        task = airflow.task(dag_id, run, task_id)
        assert task is None or task["state"] not in {"failed", "success"}, task["state"]
        held = task is not None and task["state"] == "deferred" and task["triggerer_job"] is not None
        return task if held else None

    return dict(eventually(look, what=f"{task_id} of {dag_id} is deferred", every=0.2))


def clock_of(server: Server, *, shift_seconds: int = 0) -> datetime:
    """The server's time, in UTC, after it was set ahead."""
    ((utc,),) = server.execute("EXEC embedded.clock @shift_seconds = %s", (shift_seconds,))
    return datetime.fromisoformat(utc)


def test_a_merge_that_waits_leaves_its_worker_and_goes_on_when_changes_have_passed_the_horizon(
    airflow: RunningAirflow, patient: Server, tables: Lake
) -> None:
    run = airflow.trigger("merge_awaited")
    waiting = deferred(airflow, "merge_awaited", run, "merge")
    assert waiting["trigger"]["classpath"].endswith("temporal.DateTimeTrigger")
    assert tables.bootstraps("awaited") == 1
    silver = tables.path / "silver" / "awaited"
    assert not silver.exists(), "nobody reads a mixture of two moments"

    patient.execute("UPDATE dbo.awaited SET name = N'later' WHERE id % 10 = 0")
    patient.execute("UPDATE dbo.awaited SET id = id + 5000 WHERE id % 100 = 7")
    patient.execute("DELETE FROM dbo.awaited WHERE id < 5")
    clock_of(patient, shift_seconds=5)
    patient.execute("EXEC embedded.idle")
    changes = airflow.trigger("changes_awaited")
    assert airflow.wait_for_run("changes_awaited", changes) == "success"
    assert airflow.wait_for_run("merge_awaited", run) == "success"

    merged = airflow.returned("merge_awaited", run, "merge")
    assert (merged["consistent"], merged["rows"]) == (True, ROWS - 5)
    rows = sorted((row["id"], row["name"]) for row in delta_rows(silver))
    assert rows == patient.rows("awaited")
    log = airflow.log("merge_awaited", run, "merge", attempts(airflow, "merge_awaited", run, "merge"))
    assert "silver is left unchanged" in log, "the try that merged is the one that waited"


def test_a_merge_whose_wait_is_over_fails_with_the_reason_however_often_it_was_deferred(
    airflow: RunningAirflow, in_vain: str, tables: Lake
) -> None:
    """Three looks: the time to wait is handed on from one to the next."""
    assert airflow.wait_for_run("merge_in_vain", in_vain, seconds=600) == "failed"
    log = airflow.log("merge_in_vain", in_vain, "merge", 1)
    assert log.count("silver is left unchanged: there is no bronze table") >= 3
    assert "NotReadyYet" in log
    assert not (tables.path / "silver" / "never_loaded").exists()


def test_a_sensor_waits_in_the_triggerer_until_capture_has_passed(
    airflow: RunningAirflow, capture_stopped: Server
) -> None:
    run = airflow.trigger("captured", {"time": clock_of(capture_stopped).isoformat()})
    waiting = deferred(airflow, "captured", run, "captured")
    assert waiting["trigger"]["classpath"].endswith("MssqlCdcCaptureTrigger")
    clock_of(capture_stopped, shift_seconds=5)
    capture_stopped.execute("UPDATE dbo.awaited SET name = N'captured' WHERE id = 10")
    assert airflow.run_state("captured", run) == "running"
    capture_stopped.execute("EXEC embedded.start_capture")
    assert airflow.wait_for_run("captured", run) == "success"
    newest = capture_stopped.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    assert airflow.returned("captured", run, "captured") == newest


def test_a_sensor_fails_after_its_limit_and_says_that_capture_has_stopped(
    airflow: RunningAirflow, capture_stopped: Server
) -> None:
    """At once: what has waited for as long as it may is not tried again."""
    ahead = clock_of(capture_stopped, shift_seconds=2 * HOUR)
    run = airflow.trigger("captured_in_vain", {"time": ahead.isoformat()})
    deferred(airflow, "captured_in_vain", run, "captured")
    assert airflow.wait_for_run("captured_in_vain", run, seconds=600) == "failed"
    assert attempts(airflow, "captured_in_vain", run, "captured") == 1
    log = airflow.log("captured_in_vain", run, "captured", 1)
    assert re.search(r"after 10 s: capture has not passed .*: capture last wrote 1\d\d minutes ago", log)
    assert "the capture job looks stopped (EXEC sys.sp_cdc_start_job)" in log


def attempts(airflow: RunningAirflow, dag_id: str, run: str, task_id: str) -> int:
    task = airflow.task(dag_id, run, task_id)
    assert task is not None
    return int(task["try_number"])
