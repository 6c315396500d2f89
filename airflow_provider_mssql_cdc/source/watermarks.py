"""Watermarks and times of capture: now(), low(), commit times, horizon."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_mssql_cdc.errors import (
    NotReadyYet,
    PermissionDenied,
    SourceObjectMissing,
    StatementFailed,
)
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, CommitStamp, RepeatedHour
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.planning.coverage import CAPTURE_MOVES
from airflow_provider_mssql_cdc.planning.windows import CLOCK_STEP, WallClock, quarter_hour_of, wall_cut
from airflow_provider_mssql_cdc.source.instances import refreshed
from airflow_provider_mssql_cdc.source.session import Answer, SourceSession
from airflow_provider_mssql_cdc.tsql import cdc

_ASKING = "asking for watermarks"
_NOT_READY = f"capture has not reached it yet. {CAPTURE_MOVES}"


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """Distance of a position from being purged, for the facts; None when the server does not provide it.

    :param low: the lowest position whose changes are retained.
    :param watermark_ts: its commit time.
    :param headroom_hours: hours of log that cleanup would have to purge to reach the position.
    :param newest_commit_ts: commit time of the newest entry that capture wrote.
    :param capture_lag_seconds: that entry's age by the server's clock.
    """

    low: Lsn
    watermark_ts: datetime | None = None
    headroom_hours: float | None = None
    newest_commit_ts: datetime | None = None
    capture_lag_seconds: float | None = None


def now(session: SourceSession, instance: CaptureInstance) -> Lsn:
    """Return the larger of max_lsn and the instance's start_lsn minus one: S, and every stamp.

    On a quiet database max_lsn stays below a new instance's start for some minutes; it is NULL before the
    first capture.

    :raises NotReadyYet: neither is known.
    """
    return _now_of(session, instance, session.value(cdc.max_lsn(), doing=_ASKING))


def _now_of(session: SourceSession, instance: CaptureInstance, max_lsn: str | None) -> Lsn:
    start = instance.start_lsn or refreshed(session, instance).start_lsn
    reached = Lsn.from_server(max_lsn)
    if start is None:
        raise NotReadyYet(f"{session.settings.label}: {instance.name} has no first LSN, {_NOT_READY}")
    # Changes are recorded from start_lsn on, so the LSN just below it is a valid position.
    before_start = start.decremented()
    return before_start if reached is None else max(reached, before_start)


def low(session: SourceSession, instance: CaptureInstance) -> Lsn:
    """Return the larger of fn_cdc_get_min_lsn and start_lsn: the lowest LSN whose changes are retained.

    :raises NotReadyYet: neither is known, which does not prove a gap.
    :raises SourceObjectMissing: the instance is gone.
    """
    return low_of(session, instance, session.value(cdc.min_lsn(instance.name), doing=_ASKING))


@dataclass(frozen=True, slots=True)
class Standing:
    """Hold a server's ``now()`` and ``low()``, and the commit time of an LSN."""

    reached: Lsn
    low: Lsn
    committed_at: datetime | None


def standing(session: SourceSession, instance: CaptureInstance, lsn: Lsn) -> Standing:
    """Query :func:`now`, then :func:`low`, then :func:`commit_time`, in one round trip.

    The order is safe: an LSN that ``now()`` has reached already has its commit time, and a low watermark
    queried after ``now()`` can only be higher, which is the strict side. The instance list comes last; it
    decides when there is no low watermark.

    :raises NotReadyYet: no watermark is known.
    :raises SourceObjectMissing: the instance is gone.
    """
    of_table = cdc.instances((instance.source_schema, instance.source_table))
    reached, lowest, time, listed = session.answers(
        [cdc.max_lsn(), cdc.min_lsn(instance.name), cdc.commit_time(lsn, zone_of(session)), of_table],
        doing=_ASKING,
    )
    return Standing(
        _now_of(session, instance, reached.row["max_lsn"]),
        low_of(session, instance, lowest.row["min_lsn"], listed=listed),
        time_of(session, lsn, time),
    )


def low_and_captured(session: SourceSession, instance: CaptureInstance) -> tuple[Lsn, Lsn | None]:
    """Query :func:`low`, then the LSN that capture has reached (:func:`captured`), in one round trip.

    :raises NotReadyYet: no low watermark is known.
    :raises SourceObjectMissing: the instance is gone.
    """
    (lowest,), (reached,) = session.results([cdc.min_lsn(instance.name), cdc.max_lsn()], doing=_ASKING)
    return low_of(session, instance, lowest["min_lsn"]), Lsn.from_server(reached["max_lsn"])


def low_of(
    session: SourceSession, instance: CaptureInstance, min_lsn: str | None, *, listed: Answer | None = None
) -> Lsn:
    """Return :func:`low` from an answer to :func:`~..tsql.cdc.min_lsn`.

    :param listed: the table's capture instances, if they were queried after it.
    """
    lowest = Lsn.from_server(min_lsn)
    start = (
        instance.start_lsn if lowest is not None else refreshed(session, instance, listed=listed).start_lsn
    )
    # fn_cdc_get_min_lsn reads start_lsn from cdc.change_tables (Microsoft Learn, "sys.fn_cdc_get_min_lsn");
    # it may have moved between the two queries, so the higher value is the current one.
    known = [lsn for lsn in (lowest, start) if lsn is not None]
    if not known:
        raise NotReadyYet(f"{session.settings.label}: {instance.name} has no low watermark, {_NOT_READY}")
    return max(known)


def is_retained(position: Lsn, lowest: Lsn) -> bool:
    """Return whether every change above ``position`` is retained; ``start_lsn - 1`` is such a position."""
    return position.incremented() >= lowest


OFFSET_CHANGE = timedelta(hours=1)
"""Maximum difference between today's UTC offset and the one at a commit, if the server's zone is unknown."""

CLOCKS_APART = timedelta(minutes=5)
"""Maximum lag of a replica's clock behind the primary's, which provides the commit times.

Clocks of a Windows domain must be within five minutes of each other, or Kerberos refuses the login
(learn.microsoft.com, Maximum tolerance for computer clock synchronization).
"""


def horizon(session: SourceSession, instance: CaptureInstance) -> ReadHorizon:
    """Return, after a read's last row, its max LSN and a time above the commit time of every row it saw.

    The time is the server's clock plus the tolerances of comparing it with commit times
    (docs/adr/0017-what-a-clock-can-bear.md).
    """
    row = session.row(cdc.read_horizon(), doing=_ASKING)
    reached = Lsn.from_server(row["max_lsn"]) or now(session, instance)
    time = utc_of(row["utc_time"])
    assert time is not None
    if zone_of(session).name is None:
        time += OFFSET_CHANGE
    if row["updateability"] == "READ_ONLY":
        time += CLOCKS_APART
    return ReadHorizon(reached, time)


def commit_time(session: SourceSession, lsn: Lsn) -> datetime | None:
    """Return an LSN's commit time in UTC; None when it has no entry in ``cdc.lsn_time_mapping``.

    ``cdc.lsn_time_mapping`` holds the server's local time. Servers that know their zone convert it; older
    ones apply the current offset, which is an hour off for commits before a daylight saving change.
    """
    (answer,) = session.answers([cdc.commit_time(lsn, zone_of(session))], doing=_ASKING)
    return time_of(session, lsn, answer)


def time_of(session: SourceSession, lsn: Lsn, answer: Answer) -> datetime | None:
    """Return :func:`commit_time` from an answer to :func:`~..tsql.cdc.commit_time`."""
    return _instant(session, lsn, answer.row) if answer.rows else None


def _instant(session: SourceSession, lsn: Lsn, row: dict[str, Any]) -> datetime | None:
    """Return the time of a row with utc_time and near_change."""
    time = utc_of(row["utc_time"])
    if time is None or not row["near_change"]:
        return time
    return repeated_hour(session, time).instant_of(CommitStamp(lsn, time))


def repeated_hour(session: SourceSession, near: datetime) -> RepeatedHour:
    """Return the clock hour that repeats within two hours of an instant, and where its second pass begins.

    Decided from the whole mapping, so that a commit has the same time in every task. While no entry
    distinguishes the passes, or if this login may not see them, ``second`` is None: times are then read as
    of the first pass, so never too late.
    """
    for hour, begins in _clock_around(session, near).repeated():
        if near < hour.change:
            with contextlib.suppress(PermissionDenied, SourceObjectMissing):
                statement = cdc.second_pass(begins, begins + (hour.change - hour.first))
                second = Lsn.from_server(session.value(statement, doing=_ASKING))
                return replace(hour, second=second)
            return hour
    return RepeatedHour(near, near + timedelta(hours=cdc.NEAR_HOURS))


def retention_status(
    session: SourceSession, instance: CaptureInstance, *, position: Lsn, lowest: Lsn | None = None
) -> RetentionStatus:
    """Return the retention values for the facts; None for those that this login may not read.

    :param lowest: the low watermark, if this session has just queried it.
    :raises NotReadyYet: no low watermark is known.
    """
    lowest = lowest or low(session, instance)
    zone = zone_of(session)
    low_time, position_time, newest_entry = session.answers(
        [cdc.commit_time(lowest, zone), cdc.commit_time(position, zone), cdc.newest_mapping(zone)],
        doing=_ASKING,
    )
    kept_since = time_of(session, lowest, low_time)
    reached = time_of(session, position, position_time)
    newest, age = newest_of(session, newest_entry)
    headroom = None
    if kept_since is not None and reached is not None:
        headroom = (reached - kept_since).total_seconds() / 3600
    return RetentionStatus(lowest, kept_since, headroom, newest, age)


def newest_capture(session: SourceSession) -> tuple[datetime | None, float | None]:
    """Return commit time and age in seconds of the newest entry that capture wrote, idle ones included."""
    (answer,) = session.answers([cdc.newest_mapping(zone_of(session))], doing=_ASKING)
    return newest_of(session, answer)


def newest_of(session: SourceSession, answer: Answer) -> tuple[datetime | None, float | None]:
    """Return :func:`newest_capture` from an answer to :func:`~..tsql.cdc.newest_mapping`.

    (None, None) when the mapping is empty or this login may not read it.
    """
    newest = stamp_of(session, answer)
    if newest is None:
        return None, None
    asked = utc_of(answer.row["utc_now"])
    assert asked is not None
    return newest.time, (asked - newest.time).total_seconds()


def stamp_of(session: SourceSession, answer: Answer) -> CommitStamp | None:
    """Return the entry of ``cdc.lsn_time_mapping`` in an answer; None when it is empty or not visible."""
    if isinstance(answer.error, (PermissionDenied, SourceObjectMissing)) or not answer.rows:
        return None
    lsn = Lsn.parse(answer.row["lsn"])
    time = _instant(session, lsn, answer.row)
    return None if time is None else CommitStamp(lsn, time)


def zone_of(session: SourceSession) -> cdc.ServerZone:
    """Return the server's time zone, queried at most once per session; unknown before SQL Server 2022."""
    if asks_zone(session):
        (answer,) = session.answers([cdc.server_zone()], doing="asking for the server's time zone")
        keep_zone(session, answer)
    known = session.remembered.get(_ZONE)
    return known if isinstance(known, cdc.ServerZone) else cdc.ServerZone()


def asks_zone(session: SourceSession) -> bool:
    """Return whether :func:`~..tsql.cdc.server_zone` still has to be queried."""
    return _ZONE not in session.remembered and session.knows_zone is not False


def keep_zone(session: SourceSession, answer: Answer) -> None:
    """Remember the answer to :func:`~..tsql.cdc.server_zone`; servers before 2022 answer error 195."""
    row = answer.optional
    session.remembered[_ZONE] = cdc.ServerZone(None if row is None else row["zone"])


_ZONE = "zone"


def utc_of(text: str | None) -> datetime | None:
    """Parse a UTC time that the server rendered in style 126; the seventh digit is dropped."""
    if text is None:
        return None
    seconds, _, fraction = text.partition(".")
    return datetime.fromisoformat(f"{seconds}.{fraction[:6]:0<6}").replace(tzinfo=UTC)


STALE_SECONDS = 30 * 60
"""Age of capture's newest entry above which the capture job is reported as stopped."""

_ASKING_CAPTURE = "asking how far capture has come"


def captured(session: SourceSession) -> Lsn | None:
    """Return the last LSN that capture has processed in the database; None before the first."""
    return Lsn.from_server(session.value(cdc.max_lsn(), doing=_ASKING_CAPTURE))


def is_read_only(session: SourceSession) -> bool:
    """Return whether the database that answers is a read-only replica."""
    answer: str | None = session.value(cdc.updateability(), doing=_ASKING_CAPTURE)
    return answer == "READ_ONLY"


def local_cut(session: SourceSession, at: datetime) -> datetime:
    """Return a server-local time such that every commit before ``at`` lies below it."""
    zone = zone_of(session)
    if zone.name is None:
        clock = session.row(cdc.server_clock(), doing=_ASKING_CAPTURE)
        return wall_cut(at, WallClock.shifted(at, timedelta(minutes=int(clock["utc_offset_minutes"]))))
    return wall_cut(at, _clock_around(session, at))


def _clock_around(session: SourceSession, at: datetime) -> WallClock:
    """Return two hours of the server's wall clock on either side of an instant."""
    zone = zone_of(session)
    assert zone.name is not None
    base = quarter_hour_of(at)
    rows = session.rows(cdc.wall_clock(base.replace(tzinfo=None), zone.name), doing=_ASKING_CAPTURE)
    ticks = [
        (base + CLOCK_STEP * int(row["step"]), datetime.fromisoformat(row["local_time"])) for row in rows
    ]
    return WallClock(tuple(ticks))


def commits_before(session: SourceSession, at: datetime) -> tuple[Lsn | None, Lsn | None]:
    """Return the last commit before an instant, and the first entry at or after it.

    The second is None until capture has passed the instant; the first when no earlier commit is known.
    """
    row = session.row(cdc.commits_around(local_cut(session, at)), doing=_ASKING_CAPTURE)
    return Lsn.from_server(row["before_lsn"]), Lsn.from_server(row["passed_lsn"])


def entry_past(session: SourceSession, horizon: ReadHorizon) -> Lsn | None:
    """Return the first entry past a snapshot's horizon; changes up to it make the rebuilt state exact.

    It is above the horizon's LSN and more than a second after its time; None while there is none.
    """
    # Commit times are datetime, which counts in 1/300 s (Microsoft Learn, "datetime"): whole seconds are
    # exact.
    passed = (horizon.time.astimezone(UTC) + timedelta(seconds=1)).replace(microsecond=0)
    local = local_cut(session, passed + timedelta(seconds=1))
    return Lsn.from_server(session.value(cdc.first_entry_past(horizon.lsn, local), doing=_ASKING_CAPTURE))


@dataclass(frozen=True, slots=True)
class CaptureTrouble:
    """A problem of the capture job, in one sentence.

    :param seen: capture looks stopped; False if that could not be determined, as on a new database or for a
        login with few permissions.
    """

    sentence: str
    seen: bool


def how_far(session: SourceSession) -> str:
    """Describe capture's progress, its problem if known, and the remedy."""
    trouble = capture_trouble(session)
    said = f"{trouble.sentence}. " if trouble else ""
    todo = "" if trouble is not None and trouble.seen else f". {CAPTURE_MOVES}"
    return f"{said}capture is at {captured(session) or 'no LSN yet'}{todo}"


def capture_trouble(
    session: SourceSession, *, stale_seconds: float = STALE_SECONDS, told: Answer | None = None
) -> CaptureTrouble | None:
    """Describe what is wrong with capture, as this login sees it; None when it works.

    :param told: the answer to :func:`~..tsql.cdc.newest_mapping`, if it was queried already.
    """
    with contextlib.suppress(PermissionDenied, SourceObjectMissing, StatementFailed):
        newest, age_seconds = newest_capture(session) if told is None else newest_of(session, told)
        if age_seconds is None:
            return CaptureTrouble(
                "whether the capture job runs cannot be told: cdc.lsn_time_mapping is empty or this login "
                "may not read it",
                seen=False,
            )
        if age_seconds <= stale_seconds:
            return None
        return CaptureTrouble(
            f"capture last wrote {age_seconds / 60:.0f} minutes ago ({newest}): the capture job looks "
            "stopped (EXEC sys.sp_cdc_start_job); after a failover it has to be made on the new primary, and "
            "a paused serverless database does not capture",
            seen=True,
        )
    return CaptureTrouble("whether the capture job runs cannot be told with this login's rights", seen=False)
