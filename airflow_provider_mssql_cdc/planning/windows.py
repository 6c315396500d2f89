"""Decide which changes are read next, from data intervals, windows and capture instances."""

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
"""Step of a :class:`WallClock`: clocks change at a quarter of an hour of UTC."""


@dataclass(frozen=True, slots=True)
class DataInterval:
    """Hold a run's data interval, ``[start, end)`` in UTC, in whole seconds."""

    # SQL Server's datetime counts in 1/300 s, so only whole seconds are exact (Microsoft Learn, "datetime").

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
    """Hold the server's local time (no zone) at each quarter hour of UTC around a moment, in order."""

    ticks: tuple[tuple[datetime, datetime], ...]

    @classmethod
    def shifted(cls, at: datetime, offset: timedelta) -> WallClock:
        """Build a clock with a constant offset, for a server that does not report its time zone."""
        base = quarter_hour_of(at)
        return cls(((base, local_of(base, offset)), (base + CLOCK_STEP, local_of(base + CLOCK_STEP, offset))))

    def repeated(self) -> Iterator[tuple[RepeatedHour, datetime]]:
        """Yield each period that the clock shows twice, with the local time at which it begins."""
        for (before, wall), (after, wall_after) in pairwise(self.ticks):
            back = (after - before) - (wall_after - wall)
            if back > timedelta():
                yield RepeatedHour(after - back, after), wall_after


def quarter_hour_of(at: datetime) -> datetime:
    """Round an instant down to a quarter hour of UTC."""
    at = at.astimezone(UTC)
    return at.replace(minute=at.minute - at.minute % 15, second=0, microsecond=0)


def local_of(at: datetime, offset: timedelta) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None) + offset


def wall_cut(at: datetime, clock: WallClock) -> datetime:
    """Return the local time that every commit before ``at`` is below.

    In the hour that repeats in autumn, the result is the end of its second pass.
    """
    # cdc.lsn_time_mapping holds local times, which do not say which pass of the repeated hour a commit
    # belongs to: an instant in either pass is cut at the end of both, up to an hour too late, never too
    # early (ADR 17). The hour that is missing in spring is not ambiguous.
    at = at.astimezone(UTC)
    local = dict(clock.ticks)[quarter_hour_of(at)] + (at - quarter_hour_of(at))
    for hour, begins in clock.repeated():
        ends = begins + (hour.change - hour.first)
        if begins < local < ends or (local == begins and at >= hour.change):
            return ends
    return local


@dataclass(frozen=True, slots=True)
class Extend:
    """Read changes from the position up to this LSN."""

    until: Lsn


@dataclass(frozen=True, slots=True)
class Repair:
    """Replace exactly these changes."""

    window: Window


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Read nothing; ``skipped`` when the run asked for something that cannot be done."""

    reason: str
    skipped: bool = False


EMPTY_INTERVAL = (
    "bronze already holds the changes up to the end of the data interval, and a repair needs an interval "
    "that "
    "is not empty: Airflow 3's default cron timetable sets start equal to end. For repairs and backfills "
    "schedule the DAG with CronDataIntervalTimetable, or set [scheduler] create_cron_data_intervals"
)


def decide_interval(
    coverage: Coverage,
    interval: DataInterval,
    *,
    lower: Lsn | None,
    upper: Lsn | None,
    base_kept: bool,
) -> Extend | Repair | NothingToDo:
    """Decide what a run with this data interval does at this position.

    :param lower: the last commit before the interval's start; None when the server has none that early.
    :param upper: the last commit before the interval's end; None when the server has none that early.
    :param base_kept: whether every change above coverage's base can still be read.
    :raises RetentionGap: the interval may hold commits that the server has purged.
    """
    # A time without an earlier commit is before all changes if the server still keeps those above the
    # base; otherwise cleanup may have removed the commits.
    if upper is not None and upper > coverage.changes:
        return Extend(upper)
    if interval.is_empty:
        return NothingToDo(EMPTY_INTERVAL, skipped=True)
    if upper is None and not base_kept:
        raise _purged(interval)
    if upper is None or upper <= coverage.base:
        return NothingToDo(f"the data interval ends before the changes in bronze begin, at {coverage.base}")
    if lower is None and not base_kept:
        raise _purged(interval)
    after = coverage.base if lower is None else max(lower, coverage.base)
    if after >= upper:
        return NothingToDo("the data interval holds no commit of the database")
    return Repair(Window(after, upper))


def _purged(interval: DataInterval) -> RetentionGap:
    return RetentionGap(
        f"the data interval from {interval.start.isoformat()} to {interval.end.isoformat()} begins before "
        "the "
        "oldest commit in cdc.lsn_time_mapping: CDC cleanup has purged its changes, and they cannot be read "
        "again. Bronze is unchanged and still holds what was read before"
    )


_QUARTER_HOUR = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class InstanceChanges:
    """Hold the LSN range whose changes one capture instance can return, as one session sees it.

    :param low: the lowest LSN from which the instance keeps changes.
    :param captured: the LSN up to which capture has processed the database; None before its first run.
    """

    instance: CaptureInstance
    low: Lsn
    captured: Lsn | None

    @property
    def reached(self) -> Lsn:
        """``now()``: the change table holds every change of this instance at or below it."""
        start = self.instance.start_lsn or self.low
        return max(self.captured or start.decremented(), start.decremented())

    def continues(self, position: Lsn) -> bool:
        """Whether the instance keeps every change above ``position``."""
        return position.incremented() >= self.low


@dataclass(frozen=True, slots=True)
class Reading:
    """Read ``(position, until]`` from this instance; nothing yet when ``until`` is the position."""

    available: InstanceChanges
    until: Lsn


def choose_reading(
    position: Lsn, configured: InstanceChanges, *, others: Sequence[InstanceChanges] = (), bound: Lsn
) -> Reading | None:
    """Choose the capture instance that continues a position; None means a gap.

    That is the configured instance, when it keeps the changes above the position; else another instance
    of the same table, up to the configured one's low end.
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
    # Below its own start the configured instance does not show what capture has processed: the other one is
    # read only up to what capture has processed.
    chosen = max(candidates, key=lambda available: available.low)
    end = min(bound, configured.low.decremented(), chosen.captured or position)
    return Reading(chosen, max(position, end))


def readings_of(
    window: Window, configured: InstanceChanges, *, others: Sequence[InstanceChanges] = ()
) -> Iterator[tuple[InstanceChanges, Window]]:
    """Yield the pieces in which a window is read again, each with the instance that keeps it.

    :raises LookupError: no instance keeps a part of the window.
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
    kept_since: datetime | None,
) -> bool:
    """Decide whether a position moves although no change was found.

    :param until: the new position; None when its commit time is unknown.
    :param stamp: an LSN at or below the position with its commit time, when bronze recorded one.
    :param quiet_seconds: seconds of commit time between two such moves, at most.
    :param kept_since: commit time of the oldest change that is retained; None when it is unknown.
    """
    # Each move is a Delta commit: rare moves keep the log of a table without changes short. A move past the
    # horizon of the snapshot is always made, since a merge may wait for it. CDC cleanup would purge past a
    # position that stays, and such a gap cannot be told from a loss: so it moves well before.
    if stamp is None or until is None:
        return True
    quiet_seconds = min(quiet_seconds, _longest_rest(until, kept_since))
    if horizon is not None and not _is_past(CommitStamp(position, stamp.time), horizon):
        return _is_past(until, horizon) or _older(stamp, until, quiet_seconds)
    return _older(stamp, until, quiet_seconds)


def _longest_rest(until: CommitStamp, kept_since: datetime | None) -> float:
    """Return a quarter of the retained time in seconds.

    Nothing has been purged of a new instance, so the retained time is short there and says nothing.
    """
    kept_seconds = 0.0 if kept_since is None else (until.time - kept_since).total_seconds()
    return max(_SHORTEST_REST_SECONDS, kept_seconds / 4)


_SHORTEST_REST_SECONDS = 300.0


def _older(stamp: CommitStamp, until: CommitStamp, seconds: float) -> bool:
    return until.time - stamp.time >= timedelta(seconds=seconds)


def _is_past(stamp: CommitStamp, horizon: ReadHorizon) -> bool:
    return stamp.lsn > horizon.lsn and stamp.time > horizon.time + timedelta(seconds=1)


def is_same_commit_time(recorded: datetime | None, mapped: datetime | None) -> bool:
    """Whether two commit times of one LSN can be the same commit; an unknown time cannot differ."""
    # Differences of whole quarter hours are time zones (a server without a known zone applies the current
    # offset), and zones are at most 26 hours apart. One second is wider than any rounding. A restored
    # database assigns the LSN to a commit at any other time.
    if recorded is None or mapped is None:
        return True
    apart = abs(recorded - mapped)
    beside = (apart + _ROUNDING) % _QUARTER_HOUR
    return beside <= 2 * _ROUNDING and apart <= _ZONES_APART + _ROUNDING


_ROUNDING, _ZONES_APART = timedelta(seconds=1), timedelta(hours=26)
