"""Backfills of changes over days that are past: in any order and again, bronze and silver are the same."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.scenarios.conftest import Lake, Server
from tests.scenarios.running_airflow import RunningAirflow

FIRST = datetime(2026, 5, 11)
HOURS = 72
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def history(past: Server, airflow: RunningAirflow) -> Server:
    """Three days of changes, one commit at least in each hour, and three bronzes that begin before them."""
    past.execute("EXEC sys.sp_cdc_enable_db")
    at(past, FIRST - timedelta(hours=6))
    past.create("events", 200)
    for name in ("daily", "hourly", "in_order"):
        run = airflow.trigger(f"bootstrap_{name}")
        assert airflow.wait_for_run(f"bootstrap_{name}", run) == "success"
    for hour in range(HOURS):
        at(past, FIRST + timedelta(hours=hour, minutes=17))
        past.execute(f"INSERT INTO dbo.events VALUES ({1000 + hour}, N'hour {hour}')")
        past.execute(f"UPDATE dbo.events SET name = N'hour {hour}' WHERE id % 20 = {hour % 20}")
        past.execute(f"DELETE FROM dbo.events WHERE id = {hour}")
    at(past, FIRST + 3 * DAY + timedelta(hours=1))
    past.execute("EXEC embedded.idle")
    run = airflow.trigger("changes_in_order")
    assert airflow.wait_for_run("changes_in_order", run) == "success"
    return past


def at(server: Server, moment: datetime) -> None:
    server.execute("EXEC embedded.clock @set = %s", (f"{moment.isoformat()}+00:00",))


@pytest.mark.soak
def test_three_days_backfilled_again_by_command_and_one_cleared_are_as_if_read_in_order(
    airflow: RunningAirflow, history: Server, tables: Lake
) -> None:
    in_order = tables.changes("in_order")
    assert len(in_order) > HOURS * 10
    assert tables.silver("in_order") == history.rows("events")

    def assert_as_if_in_order() -> None:
        assert tables.changes("daily") == in_order
        assert tables.silver("daily") == history.rows("events")

    first, last = "2026-05-11T00:00:00Z", "2026-05-13T00:00:00Z"
    airflow.backfill("changes_daily", first, last)
    airflow.wait_for_backfills("changes_daily")
    assert list(airflow.runs("changes_daily").values()) == ["success"] * 3
    assert_as_if_in_order()
    airflow.backfill_by_command("changes_daily", first, last, reprocess="completed")
    airflow.wait_for_backfills("changes_daily")
    assert list(airflow.runs("changes_daily").values()) == ["success"] * 3
    assert_as_if_in_order()
    assert len(tables.facts("daily", "repair")) >= 3
    middle = sorted(airflow.runs("changes_daily"))[1]
    airflow.clear("changes_daily", middle, ["changes"], downstream=True)
    assert airflow.wait_for_run("changes_daily", middle) == "success"
    assert_as_if_in_order()
    assert tables.rows("daily") == tables.rows("in_order")


@pytest.mark.soak
def test_seventy_two_hours_backfilled_and_again_are_as_if_read_in_order(
    airflow: RunningAirflow, history: Server, tables: Lake
) -> None:
    first, last = "2026-05-11T00:00:00Z", "2026-05-13T23:00:00Z"
    airflow.backfill_by_command("changes_hourly", first, last)
    airflow.wait_for_backfills("changes_hourly", seconds=900)
    assert list(airflow.runs("changes_hourly").values()) == ["success"] * HOURS
    assert tables.changes("hourly") == tables.changes("in_order")
    airflow.backfill("changes_hourly", first, last, reprocess="completed")
    airflow.wait_for_backfills("changes_hourly", seconds=900)
    assert list(airflow.runs("changes_hourly").values()) == ["success"] * HOURS
    assert tables.changes("hourly") == tables.changes("in_order")
