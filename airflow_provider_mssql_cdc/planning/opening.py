"""Chunked snapshots: which one a run works on, and whether a wave or a completion may still be committed.

Decided from the state on the handle that will commit. A concurrent commit makes that commit fail; the
state is then loaded again and decided again.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import NotReadyYet, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.commit_decision import AddSnapshot, KeepStored
from airflow_provider_mssql_cdc.planning.coverage import refuse_superseded, started_at


@dataclass(frozen=True, slots=True)
class GoOn:
    """A chunked snapshot is being loaded: go on with it, whatever this run was asked for."""

    snapshot: Lsn


@dataclass(frozen=True, slots=True)
class OpenNew:
    """Record a new S, above every S in bronze, and open it."""


def decide_run(
    state: BronzeState, *, resnapshot: bool, snapshot_of_run: Lsn | None
) -> GoOn | KeepStored | OpenNew:
    """What a run of ``plan`` works on.

    :param snapshot_of_run: S that this Airflow run has opened or completed as a resnapshot, if any.
    """
    if resnapshot and snapshot_of_run is None:
        return OpenNew()
    if state.unfinished is not None:
        return GoOn(state.unfinished)
    if state.snapshot is not None:
        return KeepStored(state.snapshot)
    return OpenNew()


def decide_opening(
    state: BronzeState, snapshot: Lsn, *, resnapshot: bool, snapshot_of_run: Lsn | None, gap: bool
) -> GoOn | KeepStored | AddSnapshot:
    """Whether S is opened, on the handle that commits it.

    :param gap: increment(position) is below the low watermark, seen on the session that recorded S.
    :raises NotReadyYet: another snapshot has been opened meanwhile, at or above S.
    :raises Superseded: coverage begins above S.
    """
    decision = decide_run(state, resnapshot=resnapshot, snapshot_of_run=snapshot_of_run)
    if not isinstance(decision, OpenNew):
        return decision
    if state.newest is not None and snapshot <= state.newest:
        raise NotReadyYet(
            f"snapshot {state.newest} was opened or completed while {snapshot} was recorded; the next "
            "attempt records a later LSN"
        )
    rebase = state.coverage is None or (gap and snapshot > state.coverage.changes)
    if not rebase:
        refuse_superseded(state, snapshot)
    return AddSnapshot(rebase)


def coverage_after_opening(state: BronzeState, snapshot: Lsn, *, decision: AddSnapshot) -> Coverage:
    """Coverage as the commit that opens S leaves it: begun at S, or as it was."""
    return started_at(snapshot) if decision.rebase or state.coverage is None else state.coverage


def refuse_ended(state: BronzeState, snapshot: Lsn) -> None:
    """Fail for a wave or a completion that can lead to nothing any more.

    :raises Superseded: coverage has been re-based above S, or S was given up on purpose.
    """
    refuse_superseded(state, snapshot)
    complete = state.snapshot is not None and state.snapshot >= snapshot
    if not complete and state.abandoned is not None and snapshot <= state.abandoned:
        raise Superseded(
            f"snapshot {snapshot} was abandoned on request; nothing more of it is committed. A new run opens "
            "another one"
        )


def decide_completion(state: BronzeState, snapshot: Lsn) -> AddSnapshot | KeepStored:
    """Whether S, all of whose waves are in bronze, becomes the complete snapshot.

    :raises Superseded: no changes lead on from it, or it was given up.
    """
    if state.snapshot is not None and state.snapshot >= snapshot:
        return KeepStored(state.snapshot)
    refuse_ended(state, snapshot)
    return AddSnapshot(rebase=False)
