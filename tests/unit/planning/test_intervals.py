"""Intervals on the server's clock: zones, the repeated and the missing hour, and what a run does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import Coverage
from airflow_provider_mssql_cdc.planning.windows import (
    CLOCK_STEP,
    DataInterval,
    Extend,
    NothingToDo,
    Repair,
    WallClock,
    decide_interval,
    quarter_hour_of,
    wall_cut,
)


def clock_of(zone: str, at: datetime) -> WallClock:
    ticks = [quarter_hour_of(at) + CLOCK_STEP * step for step in range(-8, 9)]
    return WallClock(tuple((tick, tick.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for tick in ticks))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "local"),
    [
        ("UTC", "2026-07-01T12:00:00", "2026-07-01T12:00:00"),
        ("Europe/Berlin", "2026-07-01T12:00:07", "2026-07-01T14:00:07"),
        ("Asia/Kathmandu", "2026-07-01T12:00:00", "2026-07-01T17:45:00"),
        pytest.param(
            "Europe/Berlin", "2026-10-24T23:59:59", "2026-10-25T01:59:59", id="before the repeated hour"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T00:00:00", "2026-10-25T02:00:00", id="as it begins: still sharp"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T00:30:00", "2026-10-25T03:00:00", id="its first pass: both"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T01:00:00", "2026-10-25T03:00:00", id="as the second begins: both"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T01:59:59", "2026-10-25T03:00:00", id="its second pass: both"
        ),
        pytest.param(
            "Europe/Berlin", "2026-10-25T02:00:00", "2026-10-25T03:00:00", id="as it ends: sharp again"
        ),
        pytest.param(
            "Europe/Berlin", "2026-03-29T00:59:59", "2026-03-29T01:59:59", id="before the missing hour"
        ),
        pytest.param(
            "Europe/Berlin", "2026-03-29T01:00:00", "2026-03-29T03:00:00", id="after the missing hour"
        ),
        pytest.param(
            "Australia/Lord_Howe", "2026-04-04T14:45:00", "2026-04-05T02:00:00", id="half an hour repeats"
        ),
        pytest.param(
            "America/New_York", "2026-11-01T05:10:00", "2026-11-01T02:00:00", id="another continent"
        ),
    ],
)
def test_every_commit_before_an_instant_lies_below_its_local_time(zone: str, at: str, local: str) -> None:
    assert wall_cut(utc(at), clock_of(zone, utc(at))) == datetime.fromisoformat(local)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"])
@pytest.mark.parametrize("day", ["2026-10-25", "2026-04-04", "2026-11-01"])
def test_the_cut_never_goes_back_and_never_cuts_off_an_earlier_commit(zone: str, day: str) -> None:
    instants = [utc(day) - timedelta(hours=12) + timedelta(minutes=5) * step for step in range(500)]
    cuts = [wall_cut(at, clock_of(zone, at)) for at in instants]
    assert cuts == sorted(cuts)
    walls = [at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for at in instants]
    highest = walls[0]
    for wall, cut in zip(walls[:-1], cuts[1:], strict=True):
        highest = max(highest, wall)
        assert highest < cut


def test_a_server_that_does_not_know_its_zone_keeps_the_offset_of_the_moment() -> None:
    at = utc("2026-07-01T12:34:56")
    assert wall_cut(at, WallClock.shifted(at, timedelta(hours=-5))) == datetime(2026, 7, 1, 7, 34, 56)


def test_an_interval_is_whole_seconds_of_utc() -> None:
    start = datetime(2026, 7, 1, 14, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    interval = DataInterval(start, start + timedelta(hours=1))
    assert (interval.start, interval.end) == (utc("2026-07-01T12:00:00"), utc("2026-07-01T13:00:00"))
    with pytest.raises(ValueError, match="zone"):
        DataInterval(datetime(2026, 7, 1), start)


def lsn(number: int) -> Lsn:
    return Lsn(number)


HOUR = DataInterval(utc("2026-07-01T12:00:00"), utc("2026-07-01T13:00:00"))
EMPTY = DataInterval(HOUR.end, HOUR.end)


@pytest.mark.parametrize(
    ("interval", "lower", "upper", "base_kept", "expected"),
    [
        pytest.param(HOUR, 40, 60, True, Extend(lsn(60)), id="ends above the position: extend"),
        pytest.param(EMPTY, 60, 60, True, Extend(lsn(60)), id="an empty one, too: only its end counts"),
        pytest.param(HOUR, 20, 40, True, Repair(Window(lsn(20), lsn(40))), id="read already: repair"),
        pytest.param(HOUR, 20, 50, False, Repair(Window(lsn(20), lsn(50))), id="up to the position: repair"),
        pytest.param(HOUR, 5, 40, True, Repair(Window(lsn(10), lsn(40))), id="clipped to the base"),
        pytest.param(
            HOUR, None, 40, True, Repair(Window(lsn(10), lsn(40))), id="begins before CDC: from the base"
        ),
        pytest.param(EMPTY, 40, 40, True, "empty", id="an empty one that was read: cannot be repaired"),
        pytest.param(HOUR, 5, 9, True, "before the changes in bronze begin", id="before the base"),
        pytest.param(HOUR, None, None, True, "before the changes in bronze begin", id="before every commit"),
        pytest.param(HOUR, 30, 30, True, "no commit", id="nothing was committed in it"),
        pytest.param(HOUR, None, None, False, RetentionGap, id="forgotten as a whole"),
        pytest.param(HOUR, None, 40, False, RetentionGap, id="forgotten in part"),
    ],
)
def test_what_a_run_does_with_its_interval(
    interval: DataInterval, lower: int | None, upper: int | None, base_kept: bool, expected: object
) -> None:
    coverage = Coverage(lsn(10), lsn(50))
    ends = {"lower": lower and lsn(lower), "upper": upper and lsn(upper)}
    if expected is RetentionGap:
        with pytest.raises(RetentionGap, match="Bronze is unchanged"):
            decide_interval(coverage, interval, base_kept=base_kept, **ends)
        return
    decision = decide_interval(coverage, interval, base_kept=base_kept, **ends)
    if isinstance(expected, str):
        assert isinstance(decision, NothingToDo)
        assert expected in decision.reason
        assert decision.skipped is (expected == "empty")
    else:
        assert decision == expected
