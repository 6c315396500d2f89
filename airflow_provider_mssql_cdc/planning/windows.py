"""Which capture instance reads the next window, where it ends, and whether a quiet position moves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import CommitStamp, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon

_QUARTER_HOUR = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Reach:
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

    def keeps(self, position: Lsn) -> bool:
        """Whether every change above ``position`` is still there."""
        return position.incremented() >= self.low


@dataclass(frozen=True, slots=True)
class Reading:
    """Read ``(position, until]`` from this instance; ``until`` at the position means there is nothing yet."""

    reach: Reach
    until: Lsn


def choose_reading(
    position: Lsn, configured: Reach, *, others: Sequence[Reach] = (), bound: Lsn
) -> Reading | None:
    """The instance that leads on from a position; None is a gap.

    The configured instance, when it keeps what follows. Else another one of the same table that does, and
    that no further than the configured one's low end: there the windows are cut. Below its own start the
    configured instance says nothing about how far capture has come, so the other one is read up to what
    capture has reached and not beyond.
    """
    if configured.keeps(position):
        return Reading(configured, max(position, min(bound, configured.reached)))
    bridges = [reach for reach in others if reach.keeps(position) and not reach.instance.drop_pending]
    if not bridges:
        return None
    bridge = max(bridges, key=lambda reach: reach.low)
    end = min(bound, configured.low.decremented(), bridge.captured or position)
    return Reading(bridge, max(position, end))


def readings_of(
    window: Window, configured: Reach, *, others: Sequence[Reach] = ()
) -> Iterator[tuple[Reach, Window]]:
    """The pieces in which a window of known changes is read again, each by one instance.

    :raises LookupError: a part of it is kept by none; nothing has been read when the caller lists first.
    """
    position = window.after
    while position < window.until:
        reading = choose_reading(position, configured, others=others, bound=window.until)
        if reading is None or reading.until <= position:
            raise LookupError(position.text)
        yield reading.reach, Window(position, reading.until)
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
    the offset of the moment); a restored database gives the LSN to a commit at any other time.
    """
    if recorded is None or mapped is None:
        return True
    return (recorded - mapped) % _QUARTER_HOUR == timedelta()
