"""Coverage (base, changes], the horizon, and whether the source still has the history that bronze covers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_mssql_cdc.errors import CommitConflict, ForeignTable, Superseded
from airflow_provider_mssql_cdc.model.capture import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage, SourceIdentity
from airflow_provider_mssql_cdc.planning.windows import is_same_commit_time

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


@dataclass(frozen=True, slots=True)
class HistoryAnswers:
    """What one session said, in the order of the fields, outside any transaction.

    :param reached: ``now()``; None where capture never ran.
    :param entries: of each LSN that bronze holds with a commit time, the mapping's entry for it; its
        ``time`` is None where there is none.
    :param smallest: the mapping's lowest entry; None where it is empty or may not be read.
    :param low: the lowest LSN from which changes are kept; None where no one knows yet.
    """

    reached: Lsn | None
    entries: Sequence[tuple[CommitStamp, CommitStamp | None]]
    smallest: Lsn | None
    low: Lsn | None


def other_history(answers: HistoryAnswers) -> str | None:
    """What proves another history, as a sentence; None for a server that may be the same one.

    An LSN whose commit time came from ``cdc.lsn_time_mapping`` has an entry for as long as an instance
    keeps changes from there on: cleanup raises ``low`` before it deletes, and ``low`` is asked last. A
    mapping that begins above the LSN was trimmed by somebody, which proves nothing.
    """
    for stored, found in answers.entries:
        if found is not None:
            if not is_same_commit_time(stored.time, found.time):
                return (
                    f"LSN {stored.lsn} was committed at {stored.time.isoformat()} when it was read, and the "
                    f"server now says {found.time.isoformat()}: it has been given out again"
                )
        elif _has_to_be_there(stored.lsn, answers):
            return (
                f"LSN {stored.lsn}, committed at {stored.time.isoformat()} when it was read, is no commit of "
                f"this server, although it keeps all changes from {answers.low} on"
            )
    return None


def _has_to_be_there(lsn: Lsn, answers: HistoryAnswers) -> bool:
    kept = answers.low is not None and lsn >= answers.low
    return kept and answers.smallest is not None and answers.smallest <= lsn


def is_other_object(state: BronzeState, identity: SourceIdentity) -> bool:
    """Whether another table has the source's name now than the one that was loaded.

    A rename and a transfer to another schema keep a table's object id, and a restored database keeps all of
    them; a table that is dropped and created again gets a new one (Microsoft Learn, "sys.objects").
    """
    known = state.source_object is not None and identity.object_id is not None
    return known and state.source_object != identity.object_id


def refuse_object_of_plan(planned: Iterable[int | None], identity: SourceIdentity) -> None:
    """Fail when rows that one plan asked for would come from two tables, or from another one than it saw.

    :param planned: the object id that each range was planned for; None is not known.
    :raises ForeignTable: with the object ids; nothing need be in bronze yet.
    """
    others = {each for each in planned if each is not None and each != identity.object_id}
    if others and identity.object_id is not None:
        raise ForeignTable(
            f"this plan was made for the table with object id {min(others)}, and {identity.label} is the "
            f"table with object id {identity.object_id} now: another table has taken its name since. Nothing "
            "of the plan is committed; clear the plan task with downstream"
        )


def refuse_other_object(state: BronzeState, identity: SourceIdentity, *, where: str) -> None:
    """Fail when changes, or rows, of another table would go on from those that were loaded.

    :param where: of bronze, for the message.
    :raises ForeignTable: with both object ids and the way on.
    """
    if is_other_object(state, identity):
        raise ForeignTable(
            f"{where} was loaded from the table with object id {state.source_object}, and {identity.label} "
            f"is the table with object id {identity.object_id} now: it was dropped and created again, or "
            "another table has taken its name. Its changes do not continue the rows that were loaded. If it "
            "is the one to load from now on, take a new snapshot: mssql_cdc_bootstrap(resnapshot=True); else "
            "name the capture instance of the first one, or another bronze path"
        )
