"""Extend coverage (base, changes], judge the horizon, check that the source still has the same history."""

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
"""What to do when a task waits for capture on a database without commits."""
# Entries without changes record the progress of capture in times of low activity (Microsoft Learn,
# "cdc.lsn_time_mapping").


def started_at(position: Lsn) -> Coverage:
    """Return the coverage that begins at a position and holds no changes yet."""
    return Coverage(position, position)


def extended(coverage: Coverage, *, after: Lsn, until: Lsn) -> Coverage:
    """Return coverage after a window of changes ``(after, until]``, by compare-and-set.

    :raises CommitConflict: the position has moved since the window was read.
    :raises ValueError: the window ends below its start.
    """
    if until < after:
        raise ValueError(f"a window must end at or above its start {after}, got {until}")
    if coverage.changes != after:
        raise CommitConflict(
            f"another run moved the position from {after} to {coverage.changes} while the window up to "
            f"{until} was read; the next attempt continues from {coverage.changes}"
        )
    return Coverage(coverage.base, until)


def is_proven_gap(coverage: Coverage | None, low: Lsn | None) -> bool:
    """Whether changes directly after the position have been purged: increment(position) < low.

    :param low: the larger of the low watermark and the instance's start, read on the session that reads
        the changes; None when the server has none yet, which proves nothing.
    """
    return coverage is not None and low is not None and coverage.changes.incremented() < low


def is_usable(state: BronzeState, snapshot: Lsn) -> bool:
    """Whether the changes in bronze continue a snapshot without a hole: it is not below the base."""
    return state.coverage is not None and snapshot >= state.coverage.base


def refuse_superseded(state: BronzeState, snapshot: Lsn) -> None:
    """Refuse a wave or a completion whose snapshot is below the base.

    :raises Superseded: names the newer snapshot, when there is one.
    """
    base = state.coverage.base if state.coverage else None
    if base is not None and snapshot < base:
        newer = (
            f"it was replaced by snapshot {state.newest}"
            if state.newest and state.newest > snapshot
            else "changes were started above it"
        )
        raise Superseded(
            f"snapshot {snapshot} is below {base}, where the changes in bronze begin, and cannot be "
            f"continued: {newer}. Nothing of it is committed; start a new run"
        )


def refuse_changes_above(state: BronzeState, snapshot: Lsn) -> None:
    """Refuse the snapshot of a replacement table when bronze has changes of the replaced one above it.

    :raises Superseded: names both LSNs.
    """
    # Silver would apply those changes to the new table's rows.
    if state.coverage is not None and snapshot < state.coverage.changes:
        raise Superseded(
            f"snapshot {snapshot} was read from another table than bronze was loaded from, and must be at or "
            f"above {state.coverage.changes}, the last change of that table in bronze. Nothing of it is "
            "committed; start a new run, which records a later LSN: mssql_cdc_bootstrap(resnapshot=True)"
        )


_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Say whether the state at a position equals the source row by row, and why."""

    passed: bool
    reason: str


def consistency(horizon: ReadHorizon | None, position: Lsn, *, stamp: CommitStamp | None) -> Consistency:
    """Decide whether position E has passed the horizon of a snapshot's reads.

    It has when a commit above the horizon's LSN, more than a second later, is at or below E.

    :param horizon: of the snapshot's reads; None when nothing was read.
    :param position: E, the end of the changes in bronze.
    :param stamp: the newest commit at or below E whose time bronze recorded.
    """
    if horizon is None:
        return Consistency(True, "no row of the snapshot is newer than its LSN")
    # Commit times are datetime values, in steps of 1/300 s (cdc.lsn_time_mapping.tran_end_time).
    needed = horizon.time + _SECOND
    awaited = f"a commit above {horizon.lsn} and after {needed.isoformat()}"
    if position <= horizon.lsn:
        return Consistency(False, f"changes are at {position} and have not passed {awaited}")
    if stamp is None:
        return Consistency(
            False,
            f"changes are at {position}, and bronze has no commit time for it (this login may not read "
            f"cdc.lsn_time_mapping), so it is unknown whether they have passed {awaited}",
        )
    if stamp.lsn > horizon.lsn and stamp.time > needed:
        return Consistency(True, f"changes are at {position}, {stamp.time.isoformat()}, past the horizon")
    return Consistency(
        False, f"changes are at {position}, {stamp.time.isoformat()}, and have not passed {awaited}"
    )


@dataclass(frozen=True, slots=True)
class HistoryAnswers:
    """Hold what one session answered, in the order of the fields, outside any transaction.

    :param reached: ``now()``; None when capture never ran.
    :param entries: each LSN that bronze holds with a commit time, and its entry in
        ``cdc.lsn_time_mapping``; None where the mapping has none.
    :param smallest: the mapping's lowest entry; None when it is empty or may not be read.
    :param low: the lowest LSN from which changes are kept; None when the server has none yet.
    """

    reached: Lsn | None
    entries: Sequence[tuple[CommitStamp, CommitStamp | None]]
    smallest: Lsn | None
    low: Lsn | None


def other_history(answers: HistoryAnswers) -> str | None:
    """Return a sentence that proves another history; None when the server may have bronze's history."""
    # An LSN whose commit time came from cdc.lsn_time_mapping keeps its entry while an instance keeps
    # changes from that LSN on: cleanup raises low before it deletes, and low is read last
    # (sys.sp_cdc_cleanup_change_table). A mapping that begins above the LSN was trimmed by hand, which
    # proves nothing.
    for stored, found in answers.entries:
        if found is not None:
            if not is_same_commit_time(stored.time, found.time):
                return (
                    f"LSN {stored.lsn} must have the commit time {stored.time.isoformat()} that was read, "
                    f"got {found.time.isoformat()}: the server has assigned the LSN to another commit"
                )
        elif _has_to_be_there(stored.lsn, answers):
            return (
                f"LSN {stored.lsn}, committed at {stored.time.isoformat()} when it was read, is not a commit "
                f"of this server, which keeps all changes from {answers.low} on"
            )
    return None


def _has_to_be_there(lsn: Lsn, answers: HistoryAnswers) -> bool:
    kept = answers.low is not None and lsn >= answers.low
    return kept and answers.smallest is not None and answers.smallest <= lsn


def is_other_object(state: BronzeState, identity: SourceIdentity) -> bool:
    """Whether the source's name now belongs to another table than the one that was loaded."""
    # A rename and a transfer to another schema keep a table's object id, and a restored database keeps all
    # of them; a table that is dropped and created again gets a new one (Microsoft Learn, "sys.objects").
    known = state.source_object is not None and identity.object_id is not None
    return known and state.source_object != identity.object_id


def refuse_object_of_plan(planned: Iterable[int | None], identity: SourceIdentity) -> None:
    """Refuse a plan whose ranges belong to two tables, or to another table than the source's name now has.

    :param planned: the object id that each range was planned for; None when unknown.
    :raises ForeignTable: names the object ids; bronze may be empty.
    """
    others = {each for each in planned if each is not None and each != identity.object_id}
    if others and identity.object_id is not None:
        raise ForeignTable(
            f"{identity.label} must have object id {min(others)}, which the plan was made for, got "
            f"{identity.object_id}: the table was dropped and created again, or renamed. Nothing of the plan "
            "is committed; clear the plan task with downstream"
        )


def refuse_other_object(state: BronzeState, identity: SourceIdentity, *, where: str) -> None:
    """Refuse changes or rows of another table than the one that was loaded.

    :param where: path or URI of bronze, for the message.
    :raises ForeignTable: names both object ids and what to do.
    """
    if is_other_object(state, identity):
        raise ForeignTable(
            f"{identity.label} must have object id {state.source_object}, from which {where} was loaded, got "
            f"{identity.object_id}: the table was dropped and created again, or renamed. Its changes do not "
            "continue the loaded rows. To load this table from now on, take a new snapshot: "
            "mssql_cdc_bootstrap(resnapshot=True); else name the capture instance of the first table, or "
            "another bronze path"
        )
