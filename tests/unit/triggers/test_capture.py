"""The trigger: serialized without credentials, one event, and the event loop is never held up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.triggers.capture import MssqlCdcCaptureTrigger


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
        running.enable_cdc("dbo.orders")
        running.execute("INSERT INTO dbo.orders VALUES (1)")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", running.airflow_connection())
        yield running


def trigger(*, seconds: float = 30, **arguments: Any) -> MssqlCdcCaptureTrigger:
    given: dict[str, Any] = {
        "mssql_conn_id": "erp",
        "capture_instance": "dbo_orders",
        "target": {"lsn": "0x00000000000000000001"},
        "deadline": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
        "poll_seconds": 0.01,
    }
    return MssqlCdcCaptureTrigger(**(given | arguments))


async def event_of(waiting: MssqlCdcCaptureTrigger) -> dict[str, Any]:
    async for event in waiting.run():
        return dict(event.payload)
    raise AssertionError("no event")


FUTURE = {"time": "2999-01-01T00:00:00+00:00"}


def test_it_comes_through_serialization_as_it_was_and_holds_no_credential(server: EmbeddedSqlServer) -> None:
    path, arguments = trigger(source=["dbo", "orders"]).serialize()
    assert path == "airflow_provider_mssql_cdc.triggers.capture.MssqlCdcCaptureTrigger"
    assert MssqlCdcCaptureTrigger(**arguments).serialize() == (path, arguments)
    assert server.password_of("sa") not in repr(arguments)


def test_what_has_passed_is_an_event(server: EmbeddedSqlServer) -> None:
    event = asyncio.run(event_of(trigger()))
    assert event["status"] == "passed"
    assert event["lsn"].startswith("0x")


@pytest.mark.parametrize(("poll_seconds", "seconds"), [(1.2, 600), (600, 1.2)])
def test_no_event_comes_before_a_pause_which_the_deadline_ends(
    server: EmbeddedSqlServer, poll_seconds: float, seconds: float
) -> None:
    """The scheduler has to note the deferral before the task goes on."""
    started = time.monotonic()
    event = asyncio.run(event_of(trigger(poll_seconds=poll_seconds, seconds=seconds)))
    assert event["status"] == "passed"
    assert 1 <= time.monotonic() - started < 300


def test_what_does_not_come_in_time_is_late_and_says_how_far_capture_is(server: EmbeddedSqlServer) -> None:
    event = asyncio.run(event_of(trigger(target=FUTURE, seconds=0)))
    assert (event["status"], event["lsn"]) == ("late", None)
    assert "capture is at 0x" in event["reason"]


def test_a_broken_connection_is_waited_out(server: EmbeddedSqlServer) -> None:
    server.faults.drop("fn_cdc_get_max_lsn", times=2)
    assert asyncio.run(event_of(trigger()))["status"] == "passed"


def test_what_no_attempt_can_mend_ends_the_wait(server: EmbeddedSqlServer) -> None:
    event = asyncio.run(event_of(trigger(capture_instance="dbo_nothing")))
    assert event["status"] == "failed"
    assert "dbo_nothing" in event["reason"]


def test_a_server_that_says_nothing_does_not_hold_up_the_event_loop(server: EmbeddedSqlServer) -> None:
    async def beats() -> float:
        waiting = asyncio.create_task(event_of(trigger()))
        longest, last = 0.0, time.monotonic()
        while not waiting.done():
            await asyncio.sleep(0.02)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        return longest

    asyncio.run(event_of(trigger(target=FUTURE, seconds=0)))  # drivers and hook are imported
    stalled = server.faults.stall("fn_cdc_get_max_lsn", seconds=8)
    assert asyncio.run(beats()) < 6
    assert stalled.acted == 1
