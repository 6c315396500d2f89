"""Decide what a merge does: rebuild silver, merge since a version, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from airflow_provider_mssql_cdc.model.state import STATE_RULE, BronzeState, Fold, SilverPosition
from airflow_provider_mssql_cdc.planning.coverage import is_usable

ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
"""Bronze's columns that order the change rows of a key; rows equal in all of them are one row."""

SNAPSHOT_ROW, DELETE, INSERT, BEFORE, AFTER = range(5)

ADDS = (INSERT, AFTER)
"""Operations that add an image to a key; the others remove one."""


class Presence(IntEnum):
    """Say whether a key exists after a commit; if so, with the image that was added last."""

    GONE = 0
    THERE = 1
    AS_BEFORE = 2


def presence(*, adds: int, removals: int, last_adds: bool, same_image: bool) -> Presence:
    """Decide whether a key exists after one commit (ADR 10).

    :param adds: number of different change rows of the commit that add an image to the key.
    :param removals: number of different ones that remove an image.
    :param last_adds: the last change row adds an image.
    :param same_image: the image removed last equals the one added last in every compared column:
        all but (max), text, ntext, image and xml, which before-images leave out.
    """
    if last_adds or adds > removals:
        return Presence.THERE
    if adds < removals:
        return Presence.GONE
    # Equal numbers: SQL Server may log the row that leaves the key after the one that takes it (ADR 10).
    # Different images were different rows, so the key exists; equal images were one row, added and removed.
    return Presence.AS_BEFORE if same_image else Presence.THERE


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Replace every row, in one commit, with the snapshot and the changes above it."""

    reason: str


@dataclass(frozen=True, slots=True)
class MergeSince:
    """Update the keys of change rows that were added after this version of bronze."""

    version: int


@dataclass(frozen=True, slots=True)
class UpToDate:
    """Do nothing: silver was built from this version."""


@dataclass(frozen=True, slots=True)
class NoSnapshot:
    """Leave silver unchanged: bronze holds no snapshot that its changes continue."""

    reason: str


MergeDecision = Rebuild | MergeSince | UpToDate | NoSnapshot


def decide_merge(
    position: SilverPosition | None,
    state: BronzeState,
    *,
    bronze: int,
    damage: str | None = None,
    passed: bool = False,
    fold: Fold | None = None,
) -> MergeDecision:
    """Decide for one version of bronze.

    :param position: silver's position; None before the first commit.
    :param bronze: the number derived from bronze's table id.
    :param damage: why silver's rows do not match its position; None when they do.
    :param passed: changes have passed the snapshot's horizon.
    :param fold: what wrote bronze's snapshot; None when it was read from the source.
    """
    snapshot = state.snapshot
    if snapshot is None or not is_usable(state, snapshot):
        return NoSnapshot(_awaited(state))
    if position is None:
        return Rebuild("silver is empty")
    if damage is not None:
        return Rebuild(damage)
    if position.rule != STATE_RULE:
        return Rebuild(
            f"silver was built by {_rule(position.rule)} of the state rule, which loses keys that pass "
            f"from row to row; the current version is {STATE_RULE}"
        )
    if position.bronze != bronze:
        return Rebuild("silver was built from another bronze table, which had the same path")
    if position.snapshot != snapshot and not _continues(position, fold):
        return Rebuild(f"silver was built from snapshot {position.snapshot}, bronze now holds {snapshot}")
    if position.version > state.version:
        # Versions of one table only grow: bronze was restored to an older version.
        return Rebuild(f"silver was built from version {position.version}, bronze is at {state.version}")
    if position.doubled and passed:
        return Rebuild(
            f"{position.doubled:,} key(s) occurred twice in the snapshot; changes have now passed its "
            "horizon and decide which row is current"
        )
    return UpToDate() if position.version == state.version else MergeSince(position.version)


def _continues(position: SilverPosition, fold: Fold | None) -> bool:
    """Whether a fold changed nothing for this silver: it had merged all that the fold took out."""
    return fold is not None and fold.older == position.snapshot and fold.version <= position.version


def _rule(version: int) -> str:
    return f"version {version}" if version else "an unnumbered version"


def _awaited(state: BronzeState) -> str:
    """Say which snapshot silver waits for, and which run loads it."""
    unfinished = state.unfinished
    if unfinished is not None and is_usable(state, unfinished):
        return f"snapshot {unfinished} is being loaded in chunks and is not complete yet"
    if state.coverage is None:
        return "bronze holds no complete snapshot: run mssql_cdc_bootstrap"
    held = f"its snapshot is {state.snapshot}" if state.snapshot else "it has no complete snapshot"
    return (
        f"changes in bronze begin at {state.coverage.base}, and no complete snapshot is at or above that LSN "
        f"({held}): run mssql_cdc_bootstrap" + ("(resnapshot=True)" if state.snapshot else "")
    )
