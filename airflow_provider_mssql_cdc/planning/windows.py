"""Which changes are read next: data intervals, windows, capture instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, CommitStamp, RepeatedHour, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.model.state import Coverage

CLOCK_STEP = timedelta(minutes=15)
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
                raise ValueError(f"{name} must have a time zone")
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
        base = quarter_hour_of(at)
        return cls(((base, local_of(base, offset)), (base + CLOCK_STEP, local_of(base + CLOCK_STEP, offset))))

    def repeated(self) -> Iterator[tuple[RepeatedHour, datetime]]:
        """Each stretch that it shows twice, with the local time at which it begins."""
        for (before, wall), (after, wall_after) in pairwise(self.ticks):
            back = (after - before) - (wall_after - wall)
            if back > timedelta():
                yield RepeatedHour(after - back, after), wall_after


def quarter_hour_of(at: datetime) -> datetime:
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
    local = dict(clock.ticks)[quarter_hour_of(at)] + (at - quarter_hour_of(at))
    for hour, begins in clock.repeated():
        ends = begins + (hour.change - hour.first)
        if begins < local < ends or (local == begins and at >= hour.change):
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
class NothingToDo:
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
) -> Extend | Repair | NothingToDo:
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
        return NothingToDo(EMPTY_INTERVAL, skipped=True)
    if upper is None and not base_kept:
        raise _purged(interval)
    if upper is None or upper <= coverage.base:
        return NothingToDo(f"the interval ends before the first change in bronze, above {coverage.base}")
    if lower is None and not base_kept:
        raise _purged(interval)
    after = coverage.base if lower is None else max(lower, coverage.base)
    if after >= upper:
        return NothingToDo("no commit of the database lies in the interval")
    return Repair(Window(after, upper))


def _purged(interval: DataInterval) -> RetentionGap:
    return RetentionGap(
        f"the interval from {interval.start.isoformat()} to {interval.end.isoformat()} reaches below the "
        "first commit whose time the server still knows: its changes have been purged and cannot be read "
        "again. Bronze is left as it is, it still holds what was read then"
    )


_QUARTER_HOUR = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class InstanceChanges:
    """The part of the log that one capture instance can give, seen on one session.

    :param low: the lowest LSN from which it keeps changes.
    :param captured: up to where capture has worked, of the whole database; None when it never did.
    """

    instance: CaptureInstance
    low: Lsn
    captured: Lsn | None

    @property
    def reached(self) -> Lsn:
        """``now()``: everything of this instance at or below it is in its change table."""
        start = self.instance.start_lsn or self.low
        return max(self.captured or start.decremented(), start.decremented())

    def continues(self, position: Lsn) -> bool:
        """Whether every change above ``position`` is still there."""
        return position.incremented() >= self.low


@dataclass(frozen=True, slots=True)
class Reading:
    """Read ``(position, until]`` from this instance; ``until`` at the position means there is nothing yet."""

    available: InstanceChanges
    until: Lsn


def choose_reading(
    position: Lsn, configured: InstanceChanges, *, others: Sequence[InstanceChanges] = (), bound: Lsn
) -> Reading | None:
    """The instance that leads on from a position; None is a gap.

    The configured instance, when it keeps what follows. Else another one of the same table that does, and
    that no further than the configured one's low end: there the windows are cut. Below its own start the
    configured instance says nothing about how far capture has come, so the other one is read up to what
    capture has reached and not beyond.
    """
    if configured.continues(position):
        return Reading(configured, max(position, min(bound, configured.reached)))
    candidates = [
        available
        for available in others
        if available.continues(position) and not available.instance.drop_pending
    ]
    if not candidates:
        return None
    chosen = max(candidates, key=lambda available: available.low)
    end = min(bound, configured.low.decremented(), chosen.captured or position)
    return Reading(chosen, max(position, end))


def readings_of(
    window: Window, configured: InstanceChanges, *, others: Sequence[InstanceChanges] = ()
) -> Iterator[tuple[InstanceChanges, Window]]:
    """The pieces in which a window of known changes is read again, each by one instance.

    :raises LookupError: a part of it is kept by none; nothing has been read when the caller lists first.
    """
    position = window.after
    while position < window.until:
        reading = choose_reading(position, configured, others=others, bound=window.until)
        if reading is None or reading.until <= position:
            raise LookupError(position.text)
        yield reading.available, Window(position, reading.until)
        position = reading.until


def moves_without_rows(
    position: Lsn,
    until: CommitStamp | None,
    *,
    stamp: CommitStamp | None,
    horizon: ReadHorizon | None,
    quiet_seconds: float,
) -> bool:
    """Whether a position moves although no change was found: seldom, so that a quiet table's log stays short.

    Always when the move carries changes past the horizon of the snapshot, for which a merge may wait.

    :param until: where the position would go; None where that is no mapped commit.
    :param stamp: an LSN at or below the position with its commit time, when bronze recorded one.
    """
    if stamp is None or until is None:
        return True
    if horizon is not None and not _is_past(CommitStamp(position, stamp.time), horizon):
        return _is_past(until, horizon) or _older(stamp, until, quiet_seconds)
    return _older(stamp, until, quiet_seconds)


def _older(stamp: CommitStamp, until: CommitStamp, seconds: float) -> bool:
    return until.time - stamp.time >= timedelta(seconds=seconds)


def _is_past(stamp: CommitStamp, horizon: ReadHorizon) -> bool:
    return stamp.lsn > horizon.lsn and stamp.time > horizon.time + timedelta(seconds=1)


def is_same_commit_time(recorded: datetime | None, mapped: datetime | None) -> bool:
    """Whether a server may still be the one that bronze was read from; what is not known decides nothing.

    Differences of whole quarter hours are those of time zones (a server that does not know its own applies
    the offset of the moment), and zones are 26 hours apart at most. The second is wider than any rounding
    on the way; a restored database gives the LSN to a commit at any other time.
    """
    if recorded is None or mapped is None:
        return True
    apart = abs(recorded - mapped)
    beside = (apart + _ROUNDING) % _QUARTER_HOUR
    return beside <= 2 * _ROUNDING and apart <= _ZONES_APART + _ROUNDING


_ROUNDING, _ZONES_APART = timedelta(seconds=1), timedelta(hours=26)
