"""Data intervals and LSNs: what a run's interval asks for, on the server's clock. Pure.

Commit times are the server's local clock. An instant becomes the local time below which every commit
before that instant has its commit time; the LSN that belongs to it is the largest one below that time.
Both ends of an interval go the same way, so intervals that touch cover the log without a hole.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import Coverage

GRID_STEP = timedelta(minutes=15)
"""Clocks change at a quarter of an hour of UTC, so a grid of them shows every change."""


@dataclass(frozen=True, slots=True)
class DataInterval:
    """A run's data interval, ``[start, end)`` in UTC, in whole seconds.

    SQL Server's ``datetime`` counts in 1/300 s: whole seconds are exact.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value: datetime = getattr(self, name)
            if value.tzinfo is None:
                raise ValueError(f"a data interval has a zone, {name} has none")
            object.__setattr__(self, name, value.astimezone(UTC).replace(microsecond=0))

    @property
    def is_empty(self) -> bool:
        return self.end <= self.start


@dataclass(frozen=True, slots=True)
class WallClock:
    """The server's local time (no zone) at the instants of a grid around a moment, in order."""

    ticks: tuple[tuple[datetime, datetime], ...]

    @classmethod
    def shifted(cls, at: datetime, offset: timedelta) -> WallClock:
        """A clock that keeps one offset: all that is known of a server that cannot tell its zone."""
        base = grid_start(at)
        return cls(((base, local_of(base, offset)), (base + GRID_STEP, local_of(base + GRID_STEP, offset))))


def grid_start(at: datetime) -> datetime:
    """The quarter hour of UTC that an instant lies in."""
    at = at.astimezone(UTC)
    return at.replace(minute=at.minute - at.minute % 15, second=0, microsecond=0)


def local_of(at: datetime, offset: timedelta) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None) + offset


def wall_cut(at: datetime, clock: WallClock) -> datetime:
    """The local time below which every commit before ``at`` lies.

    In the hour that repeats in autumn local times say nothing about which pass a commit belongs to, so an
    instant in either pass is cut at the end of both: up to an hour more than asked for, never less. In
    spring an hour is missing and nothing is ambiguous.
    """
    at = at.astimezone(UTC)
    local = dict(clock.ticks)[grid_start(at)] + (at - grid_start(at))
    for (before, wall), (after, wall_after) in pairwise(clock.ticks):
        repeated = (after - before) - (wall_after - wall)
        if repeated <= timedelta():
            continue
        begins, ends = wall_after, wall_after + repeated
        if begins < local < ends or (local == begins and at >= after):
            return ends
    return local


@dataclass(frozen=True, slots=True)
class Extend:
    """Read on from the position up to this LSN."""

    until: Lsn


@dataclass(frozen=True, slots=True)
class Repair:
    """Replace exactly these changes."""

    window: Window


@dataclass(frozen=True, slots=True)
class Leave:
    """There is nothing to do; ``skipped`` when the run asked for something that cannot be done."""

    reason: str
    skipped: bool = False


EMPTY_INTERVAL = (
    "the changes up to its end are in bronze already, and its data interval is empty, so there is nothing to "
    "repair: Airflow 3's default cron timetable gives start equal to end. For repairs and backfills schedule "
    "the DAG with CronDataIntervalTimetable, or set [scheduler] create_cron_data_intervals"
)


def decide_interval(
    coverage: Coverage,
    interval: DataInterval,
    *,
    lower: Lsn | None,
    upper: Lsn | None,
    base_kept: bool,
) -> Extend | Repair | Leave:
    """What a run with this interval does at this position.

    :param lower: the last commit before the interval's start; None when the server knows none that early.
    :param upper: the last commit before its end; the same.
    :param base_kept: whether every change above coverage's base can still be read. A time that the server
        knows no commit before then lies before all of them; otherwise commits may have been forgotten.
    :raises RetentionGap: the interval holds commits that the server has purged.
    """
    if upper is not None and upper > coverage.changes:
        return Extend(upper)
    if interval.is_empty:
        return Leave(EMPTY_INTERVAL, skipped=True)
    if upper is None and not base_kept:
        raise _purged(interval)
    if upper is None or upper <= coverage.base:
        return Leave(f"the interval ends before the first change in bronze, above {coverage.base}")
    if lower is None and not base_kept:
        raise _purged(interval)
    after = coverage.base if lower is None else max(lower, coverage.base)
    if after >= upper:
        return Leave("no commit of the database lies in the interval")
    return Repair(Window(after, upper))


def _purged(interval: DataInterval) -> RetentionGap:
    return RetentionGap(
        f"the interval from {interval.start.isoformat()} to {interval.end.isoformat()} reaches below the "
        "first commit whose time the server still knows: its changes have been purged and cannot be read "
        "again. Bronze is left as it is, it still holds what was read then"
    )
