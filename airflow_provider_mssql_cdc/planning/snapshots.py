"""Decide whether a snapshot is opened, completed or committed, and which waves are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, Superseded, listed
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, ReadHorizon, StagedFile, StagedRange
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.coverage import refuse_changes_above, refuse_superseded, started_at

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CompletePlan:
    """Hold every range of one plan, each exactly once.

    :param ranges: in the order of their index.
    :param ignored: ids of older plans whose results Airflow passed as well.
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
        """Whether nothing was read, because bronze already held the snapshot."""
        return any(staged.done for staged in self.ranges)

    @property
    def rows(self) -> int:
        return sum(staged.rows for staged in self.ranges)

    @property
    def files(self) -> tuple[StagedFile, ...]:
        return tuple(file for staged in self.ranges for file in staged.files)

    @property
    def horizon(self) -> ReadHorizon | None:
        """The latest horizon of all reads: once changes pass it, no row can be newer than they are."""
        horizons = [staged.horizon for staged in self.ranges if staged.horizon is not None]
        return reduce(ReadHorizon.merged, horizons) if horizons else None


def choose_plan(staged: Sequence[StagedRange]) -> CompletePlan:
    """Choose the newest plan that has every range exactly once.

    Results of other plans are listed in ``ignored``.

    :raises IncompletePlan: no plan is complete; the message names the missing ranges of the newest one.
    """
    # Results of more than one plan arrive when plan ran again with fewer ranges: Airflow keeps the XCom of
    # a mapped index that the new plan no longer has (ADR 2).
    by_plan: dict[PlanId, list[StagedRange]] = defaultdict(list)
    for outcome in dict.fromkeys(staged):
        by_plan[outcome.plan].append(outcome)
    if not by_plan:
        raise IncompletePlan(
            "staged must hold at least one range, got none: clear the plan task with downstream"
        )
    newest_first = sorted(by_plan, key=lambda plan: plan.snapshot, reverse=True)
    for plan in newest_first:
        if _problem(by_plan[plan]) is None:
            ranges = sorted(by_plan[plan], key=lambda outcome: outcome.index)
            return CompletePlan(plan, tuple(ranges), tuple(other for other in by_plan if other != plan))
    newest = newest_first[0]
    others = f"; {len(by_plan) - 1} other plan(s) are not complete either" if len(by_plan) > 1 else ""
    raise IncompletePlan(
        f"plan {newest}: {_problem(by_plan[newest])}{others}; clear these mapped tasks (map index = number "
        "- 1) with downstream"
    )


def _problem(outcomes: Sequence[StagedRange]) -> str | None:
    """Say why these outcomes of one plan are not a whole snapshot."""
    counts = {outcome.count for outcome in outcomes}
    if len(counts) > 1:
        return f"all ranges must have the same count, got {sorted(counts)}"
    if len({outcome.resnapshot for outcome in outcomes}) > 1:
        return "all ranges must agree on resnapshot"
    indexes = [outcome.index for outcome in outcomes]
    twice = sorted({index for index in indexes if indexes.count(index) > 1})
    if twice:
        return f"{_numbers(twice)} returned two different results"
    (count,) = counts
    missing = sorted(set(range(count)) - set(indexes))
    return f"{_numbers(missing)} of {count} are missing" if missing else None


def _numbers(indexes: Iterable[int]) -> str:
    """List range numbers from 1, like the labels of the mapped tasks and the logs."""
    return f"range(s) {listed([index + 1 for index in indexes], most=_SHOWN)}"


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Commit the files.

    :param rebase: the same commit sets coverage to begin at S: the table has none yet, or a resnapshot
        follows a proven gap.
    """

    rebase: bool


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """Commit nothing: bronze already holds this snapshot, which the task returns."""

    snapshot: Lsn


def decide_snapshot_commit(
    state: BronzeState, snapshot: Lsn, *, resnapshot: bool, gap: bool, other_object: bool = False
) -> AddSnapshot | AlreadyStored:
    """Decide for snapshot S, whose ranges are all staged and which CDC still retains.

    :param resnapshot: S replaces the stored snapshot.
    :param gap: increment(position) is below the low watermark, read on the session that checked S.
    :param other_object: S was read from another table than bronze was loaded from; coverage restarts at S.
    :raises Superseded: coverage begins above S, so changes do not continue S; or changes of the other
        table were read above S.
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
    """Return coverage after the commit of S: restarted at S, or unchanged."""
    if decision.rebase or state.coverage is None:
        return started_at(snapshot)
    return state.coverage


@dataclass(frozen=True, slots=True)
class ResumeLoad:
    """Continue the chunked snapshot that is being loaded, also when the run asked for another one."""

    snapshot: Lsn


@dataclass(frozen=True, slots=True)
class OpenNew:
    """Record a new S, above every S in bronze, and open it."""


def decide_run(
    state: BronzeState, *, resnapshot: bool, snapshot_of_run: Lsn | None, other_object: bool = False
) -> ResumeLoad | AlreadyStored | OpenNew:
    """Decide what a run of ``plan`` works on.

    :param snapshot_of_run: S that this Airflow run has opened or completed as a resnapshot, if any.
    :param other_object: bronze was loaded from another table; without ``resnapshot`` that was refused.
    """
    # One resnapshot per Airflow run: a retry or a clear of plan must find the S it opened, not open another.
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
    """Decide whether S is opened, from the state of the handle that commits it.

    :param gap: increment(position) is below the low watermark, read on the session that recorded S.
    :param other_object: S was read from another table than bronze was loaded from; coverage restarts at S.
    :raises NotReadyYet: another run has opened a snapshot at or above S.
    :raises Superseded: coverage begins above S, or changes of the other table were read above S.
    """
    decision = decide_run(
        state, resnapshot=resnapshot, snapshot_of_run=snapshot_of_run, other_object=other_object
    )
    if not isinstance(decision, OpenNew):
        return decision
    if state.newest is not None and snapshot <= state.newest:
        raise NotReadyYet(
            f"the LSN of a new snapshot must be above {state.newest}, which another run opened or completed, "
            f"got {snapshot}; the next attempt records a later LSN"
        )
    if other_object:
        refuse_changes_above(state, snapshot)
    rebase = state.coverage is None or other_object or (gap and snapshot > state.coverage.changes)
    if not rebase:
        refuse_superseded(state, snapshot)
    return AddSnapshot(rebase)


def coverage_after_opening(state: BronzeState, snapshot: Lsn, *, decision: AddSnapshot) -> Coverage:
    """Return coverage after the commit that opens S: restarted at S, or unchanged."""
    return started_at(snapshot) if decision.rebase or state.coverage is None else state.coverage


def refuse_ended(state: BronzeState, snapshot: Lsn) -> None:
    """Refuse a wave or a completion of a snapshot that can no longer be committed.

    :raises Superseded: coverage restarted above S, or S was abandoned.
    """
    refuse_superseded(state, snapshot)
    complete = state.snapshot is not None and state.snapshot >= snapshot
    if not complete and state.abandoned is not None and snapshot <= state.abandoned:
        raise Superseded(
            f"snapshot {snapshot} was abandoned by MssqlCdcAbandonOperator; nothing more of it is committed. "
            "Start a new run, which opens another snapshot"
        )


def decide_completion(state: BronzeState, snapshot: Lsn) -> AddSnapshot | AlreadyStored:
    """Decide whether S, whose waves are all in bronze, becomes the complete snapshot.

    :raises Superseded: changes do not continue S, or it was abandoned.
    """
    if state.snapshot is not None and state.snapshot >= snapshot:
        return AlreadyStored(state.snapshot)
    refuse_ended(state, snapshot)
    return AddSnapshot(rebase=False)


MOST_CHUNKS_PER_WAVE = 16
"""Chunks that a failed wave reads again at most, unless ``chunks_per_wave`` is given: docs/sizing.md."""


def chunks_per_wave(chunks: int, *, max_waves: int, asked: int | None = None) -> int:
    """Return how many chunks each wave of a new plan has.

    ``asked`` where it is given; else as many as fit the plan into one run of ``max_waves``, limited to
    :data:`MOST_CHUNKS_PER_WAVE`: a larger plan takes several runs.
    """
    if chunks < 1 or max_waves < 1 or (asked is not None and asked < 1):
        raise ValueError("chunks, max_waves and chunks_per_wave must be >= 1")
    if asked is not None:
        return min(asked, chunks)
    return min(-(-chunks // max_waves), MOST_CHUNKS_PER_WAVE)


def missing_waves(waves: int, landed: Collection[int]) -> list[int]:
    """List the waves of a plan that bronze does not hold."""
    return [wave for wave in range(waves) if wave not in landed]


def refuse_missing(missing: Sequence[int], *, snapshot: Lsn, waves: int) -> None:
    """Refuse to complete a plan with waves that are not in bronze.

    :raises IncompletePlan: names the waves, counted from 1 like the labels of the mapped tasks.
    """
    if missing:
        numbers = listed([wave + 1 for wave in missing], most=_SHOWN)
        raise IncompletePlan(
            f"snapshot {snapshot}: {len(missing)} of {waves} wave(s) are not in bronze: {numbers}. "
            "Trigger a new run, which reads only the missing waves, or clear them"
        )


_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """Hold when the read of a committed wave ended, with its rows and chunks."""

    time: datetime
    rows: int
    chunks: int


@dataclass(frozen=True, slots=True)
class LoadRate:
    """Hold rows and chunks per second over the last hour in which waves ended."""

    rows_per_second: float
    chunks_per_second: float

    def end(self, *, since: datetime, chunks: int) -> datetime | None:
        """Return when this many further chunks will be committed; None at a rate of 0."""
        if self.chunks_per_second <= 0:
            return None
        return since + timedelta(seconds=chunks / self.chunks_per_second)


def load_rate(ends: Sequence[WaveEnd]) -> LoadRate | None:
    """Return the rate over the last hour; None for fewer than two waves, or two at one moment."""
    if not ends:
        return None
    # Only the hour before the newest wave counts: pauses between the runs of a load would lower the rate.
    newest = max(end.time for end in ends)
    recent = sorted((end for end in ends if end.time >= newest - _WINDOW), key=lambda end: end.time)
    seconds = (newest - recent[0].time).total_seconds()
    if seconds <= 0:
        return None
    later = recent[1:]
    return LoadRate(sum(end.rows for end in later) / seconds, sum(end.chunks for end in later) / seconds)
