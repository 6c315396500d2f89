"""When a snapshot is complete, and whether it is committed or the stored one is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId
from airflow_provider_mssql_cdc.model.staged import ReadHorizon, StagedFile, StagedRange
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.coverage import (
    refuse_changes_above,
    refuse_superseded,
    started_at,
)

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
class KeepStored:
    """Add nothing: this snapshot is in bronze and is what the task returns."""

    snapshot: Lsn


def decide_snapshot_commit(
    state: BronzeState, snapshot: Lsn, *, resnapshot: bool, gap: bool, other_object: bool = False
) -> AddSnapshot | KeepStored:
    """The decision for snapshot S, all of whose ranges are staged and which is still retained.

    :param resnapshot: S is to replace the stored snapshot.
    :param gap: increment(position) is below the low watermark, seen on the session that checked S.
    :param other_object: S is of another table than what bronze was loaded from: coverage begins anew at S.
    :raises Superseded: coverage begins above S, so no changes would lead on from it; or changes of the
        other table were read above S.
    """
    stored = state.snapshot
    if stored is not None and (stored >= snapshot or not resnapshot):
        return KeepStored(stored)
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
