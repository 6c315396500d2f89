"""What a merge does: rebuild, merge since a version, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from airflow_provider_mssql_cdc.model.state import STATE_RULE, BronzeState, SilverPosition
from airflow_provider_mssql_cdc.planning.coverage import is_usable

ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
"""Bronze's columns that put the change rows of a key in order; rows equal in all of them are one."""

SNAPSHOT_ROW, DELETE, INSERT, BEFORE, AFTER = range(5)

ADDS = (INSERT, AFTER)
"""Operations that put an image under a key; the others take one away."""


class Presence(IntEnum):
    """Whether a key is there after a commit. It is there with the image that was added last."""

    GONE = 0
    THERE = 1
    AS_BEFORE = 2


def presence(*, adds: int, removals: int, last_adds: bool, same_image: bool) -> Presence:
    """Whether a key is there after one commit.

    :param adds: different change rows of the commit that put an image under the key.
    :param removals: different ones that take an image away.
    :param last_adds: the last of them puts an image there.
    :param same_image: the image removed last equals the one added last in every column that is compared:
        all but (max), text, ntext, image and xml, which before-images leave out.
    """
    if last_adds or adds > removals:
        return Presence.THERE
    if adds < removals:
        return Presence.GONE
    # As many: SQL Server may show the row that leaves the key after the one that comes to it. Different
    # images were different rows, so the one that came is there; the same row came and went.
    return Presence.AS_BEFORE if same_image else Presence.THERE


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
    position: SilverPosition | None,
    state: BronzeState,
    *,
    bronze: int,
    damage: str | None = None,
    passed: bool = False,
) -> MergeDecision:
    """The decision for one version of bronze.

    :param position: silver's; None when it has none yet.
    :param bronze: the number that stands for bronze's table id.
    :param damage: why silver's rows are not what its position says, when that is so.
    :param passed: changes have passed the snapshot's horizon.
    """
    snapshot = state.snapshot
    if snapshot is None or not is_usable(state, snapshot):
        return NoSnapshot(_awaited(state))
    if position is None:
        return Rebuild("it holds nothing yet")
    if damage is not None:
        return Rebuild(damage)
    if position.rule != STATE_RULE:
        return Rebuild(
            f"its rows were made by {_rule(position.rule)} of the state rule, which loses keys that pass "
            f"from row to row; this is version {STATE_RULE}"
        )
    if position.bronze != bronze:
        return Rebuild("it was built from another bronze table, which was at this place before")
    if position.snapshot != snapshot:
        return Rebuild(f"snapshot {snapshot} is in bronze now, it was built from {position.snapshot}")
    if position.version > state.version:
        return Rebuild(f"it was built from version {position.version}, and bronze is at {state.version}")
    if position.doubled and passed:
        return Rebuild(
            f"{position.doubled:,} key(s) stood twice in the snapshot, which changes have to explain "
            "now that they have passed its horizon"
        )
    return UpToDate() if position.version == state.version else MergeSince(position.version)


def _rule(version: int) -> str:
    return f"version {version}" if version else "a version without a number"


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
