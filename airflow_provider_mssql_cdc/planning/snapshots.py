"""The life of a snapshot: opened, waves missing, complete, committed or the stored one kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, ReadHorizon, StagedFile, StagedRange
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.coverage import refuse_changes_above, refuse_superseded, started_at

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CompletePlan:
    """Every range of one plan, each exactly once.

    :param ranges: in the order of their index.
    :param ignored: ids of older plans of which Airflow still handed over results.
    """

    plan: PlanId
    ranges: tuple[StagedRange, ...]
    ignored: tuple[PlanId, ...] = ()

    @property
    def snapshot(self) -> Lsn:
        return self.plan.snapshot

    @property
    def resnapshot(self) -> bool:
        return self.ranges[0].resnapshot

    @property
    def done(self) -> bool:
        """Nothing was read, because bronze held the snapshot already."""
        return any(staged.done for staged in self.ranges)

    @property
    def rows(self) -> int:
        return sum(staged.rows for staged in self.ranges)

    @property
    def files(self) -> tuple[StagedFile, ...]:
        return tuple(file for staged in self.ranges for file in staged.files)

    @property
    def horizon(self) -> ReadHorizon | None:
        """What changes must pass until no row can be newer than them: the latest over all reads."""
        horizons = [staged.horizon for staged in self.ranges if staged.horizon is not None]
        return reduce(ReadHorizon.merged, horizons) if horizons else None


def choose_plan(staged: Sequence[StagedRange]) -> CompletePlan:
    """The newest plan of which every range is there exactly once.

    Results of other plans (``plan`` ran again, a mapped index kept its old result) are ignored, and
    named.

    :raises IncompletePlan: no plan is complete; the message names the newest one's missing ranges.
    """
    by_plan: dict[PlanId, list[StagedRange]] = defaultdict(list)
    for outcome in dict.fromkeys(staged):
        by_plan[outcome.plan].append(outcome)
    if not by_plan:
        raise IncompletePlan(
            "no range was handed over: read's output is empty, clear plan and what follows it"
        )
    newest_first = sorted(by_plan, key=lambda plan: plan.snapshot, reverse=True)
    for plan in newest_first:
        if _problem(by_plan[plan]) is None:
            ranges = sorted(by_plan[plan], key=lambda outcome: outcome.index)
            return CompletePlan(plan, tuple(ranges), tuple(other for other in by_plan if other != plan))
    newest = newest_first[0]
    others = f"; {len(by_plan) - 1} other plan(s) are not complete either" if len(by_plan) > 1 else ""
    raise IncompletePlan(
        f"plan {newest}: {_problem(by_plan[newest])}{others}; clear these (map index: the number less one) "
        "with downstream"
    )


def _problem(outcomes: Sequence[StagedRange]) -> str | None:
    """Why these outcomes of one plan are no whole snapshot."""
    counts = {outcome.count for outcome in outcomes}
    if len(counts) > 1:
        return f"its ranges disagree on their number: {sorted(counts)}"
    if len({outcome.resnapshot for outcome in outcomes}) > 1:
        return "its ranges disagree on whether it is a resnapshot"
    indexes = [outcome.index for outcome in outcomes]
    twice = sorted({index for index in indexes if indexes.count(index) > 1})
    if twice:
        return f"{_numbers(twice)} came with different results"
    (count,) = counts
    missing = sorted(set(range(count)) - set(indexes))
    return f"{_numbers(missing)} of {count} missing" if missing else None


def _numbers(indexes: Iterable[int]) -> str:
    """Counted from one, as the labels of the mapped tasks and the logs do."""
    listed = [index + 1 for index in indexes]
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"range(s) {', '.join(map(str, listed[:_SHOWN]))}{more}"


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Commit the files.

    :param rebase: coverage begins (again) at S in the same commit: the table has none yet, or a resnapshot
        follows a proven gap.
    """

    rebase: bool


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """Add nothing: this snapshot is in bronze and is what the task returns."""

    snapshot: Lsn


def decide_snapshot_commit(
    state: BronzeState, snapshot: Lsn, *, resnapshot: bool, gap: bool, other_object: bool = False
) -> AddSnapshot | AlreadyStored:
    """The decision for snapshot S, all of whose ranges are staged and which is still retained.

    :param resnapshot: S is to replace the stored snapshot.
    :param gap: increment(position) is below the low watermark, seen on the session that checked S.
    :param other_object: S is of another table than what bronze was loaded from: coverage begins anew at S.
    :raises Superseded: coverage begins above S, so no changes would lead on from it; or changes of the
        other table were read above S.
    """
    stored = state.snapshot
    if stored is not None and (stored >= snapshot or not resnapshot):
        return AlreadyStored(stored)
    if other_object:
        refuse_changes_above(state, snapshot)
    rebase = state.coverage is None or other_object or (gap and snapshot > state.coverage.changes)
    if not rebase:
        refuse_superseded(state, snapshot)
    return AddSnapshot(rebase)


def coverage_after(state: BronzeState, snapshot: Lsn, *, decision: AddSnapshot) -> Coverage:
    """Coverage as the commit of S leaves it: begun at S, or as it was."""
    if decision.rebase or state.coverage is None:
        return started_at(snapshot)
    return state.coverage


@dataclass(frozen=True, slots=True)
class ResumeLoad:
    """A chunked snapshot is being loaded: go on with it, whatever this run was asked for."""

    snapshot: Lsn


@dataclass(frozen=True, slots=True)
class OpenNew:
    """Record a new S, above every S in bronze, and open it."""


def decide_run(
    state: BronzeState, *, resnapshot: bool, snapshot_of_run: Lsn | None, other_object: bool = False
) -> ResumeLoad | AlreadyStored | OpenNew:
    """What a run of ``plan`` works on.

    :param snapshot_of_run: S that this Airflow run has opened or completed as a resnapshot, if any.
    :param other_object: what bronze holds is of another table; without ``resnapshot`` that was refused.
    """
    if resnapshot and (snapshot_of_run is None or other_object):
        return OpenNew()
    if state.unfinished is not None:
        return ResumeLoad(state.unfinished)
    if state.snapshot is not None:
        return AlreadyStored(state.snapshot)
    return OpenNew()


def decide_opening(
    state: BronzeState,
    snapshot: Lsn,
    *,
    resnapshot: bool,
    snapshot_of_run: Lsn | None,
    gap: bool,
    other_object: bool = False,
) -> ResumeLoad | AlreadyStored | AddSnapshot:
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


def decide_completion(state: BronzeState, snapshot: Lsn) -> AddSnapshot | AlreadyStored:
    """Whether S, all of whose waves are in bronze, becomes the complete snapshot.

    :raises Superseded: no changes lead on from it, or it was given up.
    """
    if state.snapshot is not None and state.snapshot >= snapshot:
        return AlreadyStored(state.snapshot)
    refuse_ended(state, snapshot)
    return AddSnapshot(rebase=False)


MOST_CHUNKS_PER_WAVE = 16
"""What a failed wave reads again at most, unless the user says otherwise: docs/sizing.md."""


def chunks_per_wave(chunks: int, *, max_waves: int, asked: int | None = None) -> int:
    """How many chunks each wave of a new plan has.

    As asked for; else as many as make the plan fit into one run of ``max_waves``, and no more than
    :data:`MOST_CHUNKS_PER_WAVE`: a larger plan takes several runs.
    """
    if chunks < 1 or max_waves < 1 or (asked is not None and asked < 1):
        raise ValueError("chunks, max_waves and chunks_per_wave must be >= 1")
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
class LoadRate:
    """Over the last hour in which waves ended; times in which no run was at work fall out with it."""

    rows_per_second: float
    chunks_per_second: float

    def end(self, *, since: datetime, chunks: int) -> datetime | None:
        """When this many further chunks are there; None at no pace at all."""
        if self.chunks_per_second <= 0:
            return None
        return since + timedelta(seconds=chunks / self.chunks_per_second)


def load_rate(ends: Sequence[WaveEnd]) -> LoadRate | None:
    """None with fewer than two waves, or with two at one moment."""
    if not ends:
        return None
    newest = max(end.time for end in ends)
    recent = sorted((end for end in ends if end.time >= newest - _WINDOW), key=lambda end: end.time)
    seconds = (newest - recent[0].time).total_seconds()
    if seconds <= 0:
        return None
    later = recent[1:]
    return LoadRate(sum(end.rows for end in later) / seconds, sum(end.chunks for end in later) / seconds)
