"""Who reads the next window and where it ends; when a quiet position moves; which server is another one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_mssql_cdc.model.capture import CaptureInstance, ChangeCounts, CommitStamp, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.planning.windows import (
    InstanceChanges,
    choose_reading,
    is_same_commit_time,
    moves_without_rows,
    readings_of,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def lsn(number: int) -> Lsn:
    return Lsn(number << 16)


def available(
    name: str, start: int, *, low: int | None = None, captured: int | None = 900, **facts: bool
) -> InstanceChanges:
    instance = CaptureInstance(
        name, "dbo", "t", 1, start, Lsn(start << 16), datetime(2026, 1, 1), ("id",), **facts
    )
    return InstanceChanges(instance, lsn(low or start), None if captured is None else lsn(captured))


V1, V2 = available("v1", 100), available("v2", 500)


@pytest.mark.parametrize(
    ("position", "configured", "others", "expected"),
    [
        pytest.param(lsn(200), V1, (), ("v1", lsn(700)), id="the configured one, up to the bound"),
        pytest.param(
            lsn(100).decremented(), V1, (), ("v1", lsn(700)), id="just below its start nothing is lost"
        ),
        pytest.param(lsn(99), V1, (), None, id="a gap: changes between the position and its start"),
        pytest.param(
            lsn(200), available("v1", 100, low=300), (), None, id="a gap: cleanup has passed the position"
        ),
        pytest.param(lsn(600), V2, (V1,), ("v2", lsn(700)), id="the newer one from its start on"),
        pytest.param(
            lsn(200),
            V2,
            (V1,),
            ("v1", lsn(500).decremented()),
            id="the older one up to the newer one's start",
        ),
        pytest.param(
            lsn(200),
            available("v2", 500, captured=300),
            (available("v1", 100, captured=300),),
            ("v1", lsn(300)),
            id="and no further than capture is, though the newer one has begun",
        ),
        pytest.param(
            lsn(200), V2, (available("v1", 100, low=300),), None, id="a gap: the older one was cleaned too"
        ),
        pytest.param(
            lsn(200),
            V2,
            (available("v1", 100, drop_pending=True),),
            None,
            id="a gap: the older one is being dropped",
        ),
        pytest.param(
            lsn(650), available("v1", 100, captured=600), (), ("v1", lsn(650)), id="nothing new stays put"
        ),
        pytest.param(
            lsn(100).decremented(),
            available("v1", 100, captured=None),
            (),
            ("v1", lsn(100).decremented()),
            id="a new instance that capture has not reached",
        ),
    ],
)
def test_the_instance_that_leads_on(
    position: Lsn,
    configured: InstanceChanges,
    others: tuple[InstanceChanges, ...],
    expected: tuple[str, Lsn] | None,
) -> None:
    reading = choose_reading(position, configured, others=others, bound=lsn(700))
    assert (reading and (reading.available.instance.name, reading.until)) == expected


def test_a_known_window_is_read_again_by_two_instances_that_follow_each_other() -> None:
    pieces = list(readings_of(Window(lsn(200), lsn(800)), V2, others=(V1,)))
    cut = lsn(500).decremented()
    assert [(each.instance.name, window) for each, window in pieces] == [
        ("v1", Window(lsn(200), cut)),
        ("v2", Window(cut, lsn(800))),
    ]


def test_a_window_that_nobody_keeps_is_not_read_in_part() -> None:
    with pytest.raises(LookupError):
        list(readings_of(Window(lsn(200), lsn(800)), V2))


@pytest.mark.parametrize("until", [lsn(5), lsn(4)])
def test_an_empty_window_cannot_be_built(until: Lsn) -> None:
    with pytest.raises(ValueError, match="above its start"):
        Window(lsn(5), until)


HORIZON = ReadHorizon(lsn(300), NOON + timedelta(seconds=30))


@pytest.mark.parametrize(
    ("stamp_seconds", "until_seconds", "horizon", "moves"),
    [
        pytest.param(0, 299, None, False, id="not yet"),
        pytest.param(0, 300, None, True, id="after five minutes"),
        pytest.param(None, 1, None, True, id="when the position's time is not known"),
        pytest.param(0, None, None, True, id="when the end is no mapped commit"),
        pytest.param(0, 32, HORIZON, True, id="at once past the horizon that a merge may wait for"),
        pytest.param(0, 31, HORIZON, False, id="not before it"),
        pytest.param(40, 60, ReadHorizon(lsn(100), NOON), False, id="not again once it is passed"),
    ],
)
def test_a_quiet_position_moves_seldom(
    stamp_seconds: int | None, until_seconds: int | None, horizon: ReadHorizon | None, moves: bool
) -> None:
    position = lsn(200)
    stamp = None if stamp_seconds is None else CommitStamp(position, NOON + timedelta(seconds=stamp_seconds))
    until = None if until_seconds is None else CommitStamp(lsn(400), NOON + timedelta(seconds=until_seconds))
    asked: dict[str, Any] = {"stamp": stamp, "horizon": horizon, "quiet_seconds": 300}
    assert moves_without_rows(position, until, kept_since=NOON - timedelta(days=3), **asked) is moves


@pytest.mark.parametrize(
    ("kept_hours", "rests_seconds"),
    [
        pytest.param(72, 3600, id="an hour of three days"),
        pytest.param(4, 3600, id="an hour is a quarter"),
        pytest.param(2, 1800, id="half an hour of two"),
        pytest.param(0.1, 300, id="five minutes on a young instance"),
        pytest.param(None, 300, id="five minutes where the server does not say"),
    ],
)
def test_a_quiet_position_rests_for_a_quarter_of_retention_at_most(
    kept_hours: float | None, rests_seconds: int
) -> None:
    position = lsn(200)
    for seconds, moves in ((rests_seconds - 1, False), (rests_seconds, True)):
        until = CommitStamp(lsn(400), NOON)
        kept_since = None if kept_hours is None else NOON - timedelta(hours=kept_hours)
        stamp = CommitStamp(position, NOON - timedelta(seconds=seconds))
        asked: dict[str, Any] = {"stamp": stamp, "horizon": None, "quiet_seconds": 3600}
        assert moves_without_rows(position, until, kept_since=kept_since, **asked) is moves


@pytest.mark.parametrize(
    ("mapped", "same"),
    [
        (NOON, True),
        (None, True),
        (NOON + timedelta(hours=1), True),
        (NOON - timedelta(hours=5, minutes=45), True),
        (NOON + timedelta(milliseconds=3), True),
        (NOON - timedelta(milliseconds=1), True),
        (NOON + timedelta(hours=2, milliseconds=-4), True),
        (NOON + timedelta(seconds=3), False),
        (NOON - timedelta(minutes=15, seconds=3), False),
        (NOON + timedelta(days=2), False),
        (NOON + timedelta(minutes=7), False),
    ],
)
def test_an_lsn_that_was_committed_at_another_time_is_of_another_database(
    mapped: datetime | None, same: bool
) -> None:
    assert is_same_commit_time(NOON, mapped) is same


def test_counts_add_up() -> None:
    one, two = ChangeCounts(3, 1, 0, 1, lsn(5), lsn(6)), ChangeCounts(2, 0, 2, 0, lsn(4), lsn(9))
    assert one.plus(two) == ChangeCounts(5, 1, 2, 1, lsn(4), lsn(9))
    assert one.plus(ChangeCounts()) == one
