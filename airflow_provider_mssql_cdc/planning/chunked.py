"""A chunked snapshot's life: opened, waves missing, ended, completed; its rate."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.completion import AddSnapshot, KeepStored
from airflow_provider_mssql_cdc.planning.coverage import (
    refuse_changes_above,
    refuse_superseded,
    started_at,
)


@dataclass(frozen=True, slots=True)
class GoOn:
    """A chunked snapshot is being loaded: go on with it, whatever this run was asked for."""

    snapshot: Lsn


@dataclass(frozen=True, slots=True)
class OpenNew:
    """Record a new S, above every S in bronze, and open it."""


def decide_run(
    state: BronzeState, *, resnapshot: bool, snapshot_of_run: Lsn | None, other_object: bool = False
) -> GoOn | KeepStored | OpenNew:
    """What a run of ``plan`` works on.

    :param snapshot_of_run: S that this Airflow run has opened or completed as a resnapshot, if any.
    :param other_object: what bronze holds is of another table; without ``resnapshot`` that was refused.
    """
    if resnapshot and (snapshot_of_run is None or other_object):
        return OpenNew()
    if state.unfinished is not None:
        return GoOn(state.unfinished)
    if state.snapshot is not None:
        return KeepStored(state.snapshot)
    return OpenNew()


def decide_opening(
    state: BronzeState,
    snapshot: Lsn,
    *,
    resnapshot: bool,
    snapshot_of_run: Lsn | None,
    gap: bool,
    other_object: bool = False,
) -> GoOn | KeepStored | AddSnapshot:
    """Whether S is opened, on the handle that commits it.

    :param gap: increment(position) is below the low watermark, seen on the session that recorded S.
    :param other_object: S is of another table than what bronze was loaded from: coverage begins anew at S.
    :raises NotReadyYet: another snapshot has been opened meanwhile, at or above S.
    :raises Superseded: coverage begins above S, or changes of the other table were read above S.
    """
    decision = decide_run(
        state, resnapshot=resnapshot, snapshot_of_run=snapshot_of_run, other_object=other_object
    )
    if not isinstance(decision, OpenNew):
        return decision
    if state.newest is not None and snapshot <= state.newest:
        raise NotReadyYet(
            f"snapshot {state.newest} was opened or completed while {snapshot} was recorded; the next "
            "attempt records a later LSN"
        )
    if other_object:
        refuse_changes_above(state, snapshot)
    rebase = state.coverage is None or other_object or (gap and snapshot > state.coverage.changes)
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


MOST_CHUNKS_PER_WAVE = 16
"""What a failed wave reads again at most, unless the user says otherwise: docs/sizing.md."""

_SHOWN = 10


def chunks_per_wave(chunks: int, *, max_waves: int, asked: int | None = None) -> int:
    """How many chunks each wave of a new plan has.

    As asked for; else as many as make the plan fit into one run of ``max_waves``, and no more than
    :data:`MOST_CHUNKS_PER_WAVE`: a larger plan takes several runs.
    """
    if chunks < 1 or max_waves < 1 or (asked is not None and asked < 1):
        raise ValueError("chunks, max_waves and chunks_per_wave are at least 1")
    if asked is not None:
        return min(asked, chunks)
    return min(-(-chunks // max_waves), MOST_CHUNKS_PER_WAVE)


def missing_waves(waves: int, landed: Collection[int]) -> list[int]:
    """The waves of a plan that bronze does not hold."""
    return [wave for wave in range(waves) if wave not in landed]


def refuse_missing(missing: Sequence[int], *, snapshot: Lsn, waves: int) -> None:
    """Fail when waves of a plan are not in bronze.

    :raises IncompletePlan: naming them, counted from one, as the labels of the mapped tasks do.
    """
    if missing:
        listed = ", ".join(str(wave + 1) for wave in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise IncompletePlan(
            f"snapshot {snapshot}: {len(missing)} of {waves} wave(s) are not in bronze: {listed}{more}. "
            "Those that are there stay; trigger a new run, which reads the missing ones alone, or clear them"
        )


_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """A wave that is in bronze: when its read ended, and what it brought."""

    time: datetime
    rows: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Over the last hour in which waves ended; times in which no run was at work fall out with it."""

    rows_per_second: float
    chunks_per_second: float

    def end(self, *, since: datetime, chunks: int) -> datetime | None:
        """When this many further chunks are there; None at no pace at all."""
        if self.chunks_per_second <= 0:
            return None
        return since + timedelta(seconds=chunks / self.chunks_per_second)


def pace_of(ends: Sequence[WaveEnd]) -> Pace | None:
    """None with fewer than two waves, or with two at one moment."""
    if not ends:
        return None
    newest = max(end.time for end in ends)
    recent = sorted((end for end in ends if end.time >= newest - _WINDOW), key=lambda end: end.time)
    seconds = (newest - recent[0].time).total_seconds()
    if seconds <= 0:
        return None
    later = recent[1:]
    return Pace(sum(end.rows for end in later) / seconds, sum(end.chunks for end in later) / seconds)
