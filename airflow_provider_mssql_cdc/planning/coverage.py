"""Coverage: every change in ``(base, changes]`` is in bronze, none is missing.

Pure rules; who applies them reads the state with the handle that commits.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.errors import CommitConflict, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage


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
