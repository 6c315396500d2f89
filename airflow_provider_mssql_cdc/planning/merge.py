"""What a merge does: rebuild, merge since a version, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.state import BronzeState, SilverPosition
from airflow_provider_mssql_cdc.planning.coverage import is_usable

ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
"""Bronze's columns that put the rows of a key in order."""

SNAPSHOT_ROW, DELETE, INSERT, BEFORE, AFTER = range(5)

GONE = (DELETE, BEFORE)
"""Operations of a latest row under which the key has gone."""

OWN_COLUMNS = ("_start_lsn", "_commit_ts")
"""What silver holds beside the captured columns: of the row that is the key's state."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Replace every row, in one commit, by the snapshot and the changes above it."""

    reason: str


@dataclass(frozen=True, slots=True)
class MergeSince:
    """Bring the keys up to date that change rows added after this version of bronze name."""

    version: int


@dataclass(frozen=True, slots=True)
class UpToDate:
    """Silver was built from this very version."""


@dataclass(frozen=True, slots=True)
class NoSnapshot:
    """Bronze holds no snapshot from which its changes lead on; silver stays as it is."""

    reason: str


MergeDecision = Rebuild | MergeSince | UpToDate | NoSnapshot


def decide_merge(
    position: SilverPosition | None, state: BronzeState, *, bronze: int, damage: str | None = None
) -> MergeDecision:
    """The decision for one version of bronze.

    :param position: silver's; None when it has none yet.
    :param bronze: the number that stands for bronze's table id.
    :param damage: why silver's rows are not what its position says, when that is so.
    """
    snapshot = state.snapshot
    if snapshot is None or not is_usable(state, snapshot):
        return NoSnapshot(_awaited(state))
    if position is None:
        return Rebuild("it holds nothing yet")
    if damage is not None:
        return Rebuild(damage)
    if position.bronze != bronze:
        return Rebuild("it was built from another bronze table, which was at this place before")
    if position.snapshot != snapshot:
        return Rebuild(f"snapshot {snapshot} is in bronze now, it was built from {position.snapshot}")
    if position.version > state.version:
        return Rebuild(f"it was built from version {position.version}, and bronze is at {state.version}")
    return UpToDate() if position.version == state.version else MergeSince(position.version)


def _awaited(state: BronzeState) -> str:
    """For which snapshot silver waits, and what brings it."""
    unfinished = state.unfinished
    if unfinished is not None and is_usable(state, unfinished):
        return f"snapshot {unfinished} is being loaded in chunks and is not complete yet"
    if state.coverage is None:
        return "bronze holds no complete snapshot yet: run mssql_cdc_bootstrap"
    held = f"the one it holds is at {state.snapshot}" if state.snapshot else "it holds none"
    return (
        f"the changes in bronze begin at {state.coverage.base} and lead on from no complete snapshot "
        f"({held}): run mssql_cdc_bootstrap" + ("(resnapshot=True)" if state.snapshot else "")
    )
