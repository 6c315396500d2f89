"""Coverage (base, changes] and the horizon: what may be committed and merged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_mssql_cdc.errors import CommitConflict, Superseded
from airflow_provider_mssql_cdc.model.changes import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage

CAPTURE_MOVES = (
    "Capture moves with the next commit: on a quiet database commit something in a tracked table, or wait "
    "for the idle entry that capture writes about every five minutes. If it does not come, look at the "
    "capture job (EXEC sys.sp_cdc_help_jobs; on Azure SQL Database a scheduler runs it, unless the database "
    "is paused)"
)
"""What to do where something waits for capture on a database without commits."""


def started_at(position: Lsn) -> Coverage:
    """Coverage that begins: changes lead on from this position, and none is here yet."""
    return Coverage(position, position)


def extended(coverage: Coverage, *, after: Lsn, until: Lsn) -> Coverage:
    """Coverage after a window of changes ``(after, until]``, by compare-and-set.

    :raises CommitConflict: the position has moved since the window was read.
    :raises ValueError: the window goes backwards.
    """
    if until < after:
        raise ValueError(f"a window of changes ends at {until}, below its start {after}")
    if coverage.changes != after:
        raise CommitConflict(
            f"the position has moved from {after} to {coverage.changes} while the window up to {until} was "
            "read: another run extended it; the next attempt goes on from there"
        )
    return Coverage(coverage.base, until)


def is_proven_gap(coverage: Coverage | None, low: Lsn | None) -> bool:
    """Whether changes that would follow the position have been purged: increment(position) < low.

    :param low: the larger of the low watermark and the instance's start, seen on the session that will
        read; None when the server does not know one yet, which proves nothing.
    """
    return coverage is not None and low is not None and coverage.changes.incremented() < low


def is_usable(state: BronzeState, snapshot: Lsn) -> bool:
    """Whether changes lead from a snapshot without a hole: it is not below the base."""
    return state.coverage is not None and snapshot >= state.coverage.base


def refuse_superseded(state: BronzeState, snapshot: Lsn) -> None:
    """Fail for a wave or a complete whose snapshot lies below the base.

    :raises Superseded: with the snapshot that took its place, when there is one.
    """
    base = state.coverage.base if state.coverage else None
    if base is not None and snapshot < base:
        newer = (
            f"snapshot {state.newest} has taken its place"
            if state.newest and state.newest > snapshot
            else ("changes were started above it")
        )
        raise Superseded(
            f"snapshot {snapshot} lies below {base}, where the changes in bronze begin, so none lead on "
            f"from it: {newer}. Nothing of it is committed; start a new run"
        )


def refuse_changes_above(state: BronzeState, snapshot: Lsn) -> None:
    """Fail when bronze has changes of the table before above the snapshot of the one that takes its place.

    Silver would take them for changes of the new table's rows.

    :raises Superseded: with both LSNs.
    """
    if state.coverage is not None and snapshot < state.coverage.changes:
        raise Superseded(
            f"snapshot {snapshot} is of another table than the one that was loaded so far, and changes of "
            f"that one were read up to {state.coverage.changes} meanwhile. Nothing of it is committed; start "
            "a new run, which records a later LSN: mssql_cdc_bootstrap(resnapshot=True)"
        )


_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether the state at a position is the source's, row by row, and why."""

    passed: bool
    reason: str


def consistency(horizon: ReadHorizon | None, position: Lsn, *, stamp: CommitStamp | None) -> Consistency:
    """E is past the horizon when an entry above its LSN, more than a second later, is at or below E.

    :param horizon: of the snapshot's reads; None when nothing was read, so that nothing can be mixed.
    :param position: E, how far the changes in bronze reach.
    :param stamp: the newest commit at or below E whose time bronze recorded.
    """
    if horizon is None:
        return Consistency(True, "no row of the snapshot can be newer than it")
    needed = horizon.time + _SECOND
    awaited = f"an entry above {horizon.lsn} that was committed after {needed.isoformat()}"
    if position <= horizon.lsn:
        return Consistency(False, f"changes are at {position} and have not passed {awaited}")
    if stamp is None:
        return Consistency(
            False,
            f"changes are at {position}, of which bronze has no commit time (this login may not read "
            f"cdc.lsn_time_mapping), so it cannot be told whether they have passed {awaited}",
        )
    if stamp.lsn > horizon.lsn and stamp.time > needed:
        return Consistency(True, f"changes are at {position}, {stamp.time.isoformat()}, past the horizon")
    return Consistency(
        False, f"changes are at {position}, {stamp.time.isoformat()}, and have not passed {awaited}"
    )
