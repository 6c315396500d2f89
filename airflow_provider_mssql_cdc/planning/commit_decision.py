"""Whether a whole snapshot is committed: one wins, whoever else completes returns the winner's.

Decided from the state on the handle that will commit. A concurrent commit makes that commit fail; the
state is then loaded again and decided again.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.coverage import refuse_superseded, started_at


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Commit the files.

    :param rebase: coverage begins (again) at S in the same commit: the table has none yet, or a resnapshot
        follows a proven gap.
    """

    rebase: bool


@dataclass(frozen=True, slots=True)
class KeepStored:
    """Add nothing: this snapshot is in bronze and is what the task returns."""

    snapshot: Lsn


def decide_snapshot_commit(
    state: BronzeState, snapshot: Lsn, *, resnapshot: bool, gap: bool
) -> AddSnapshot | KeepStored:
    """The decision for snapshot S, all of whose ranges are staged and which is still retained.

    :param resnapshot: S is to replace the stored snapshot.
    :param gap: increment(position) is below the low watermark, seen on the session that checked S.
    :raises Superseded: coverage begins above S, so no changes would lead on from it.
    """
    stored = state.snapshot
    if stored is not None and (stored >= snapshot or not resnapshot):
        return KeepStored(stored)
    rebase = state.coverage is None or (gap and snapshot > state.coverage.changes)
    if not rebase:
        refuse_superseded(state, snapshot)
    return AddSnapshot(rebase)


def coverage_after(state: BronzeState, snapshot: Lsn, *, decision: AddSnapshot) -> Coverage:
    """Coverage as the commit of S leaves it: begun at S, or as it was."""
    if decision.rebase or state.coverage is None:
        return started_at(snapshot)
    return state.coverage
