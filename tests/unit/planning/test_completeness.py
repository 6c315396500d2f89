"""Which results make a snapshot: one plan's ranges, each once, whatever else is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, ReadHorizon, StagedFile, StagedRange
from airflow_provider_mssql_cdc.planning.snapshots import choose_plan

OLD, NEW = PlanId(Lsn(100), "0" * 8, "a" * 8), PlanId(Lsn(200), "0" * 8, "b" * 8)
AGAIN = PlanId(Lsn(200), "0" * 8, "c" * 8)
T = datetime(2026, 1, 1, tzinfo=UTC)


def staged(plan: PlanId, index: int, count: int = 3, **facts: object) -> StagedRange:
    file = StagedFile(f"{plan.text}-r{index}.parquet", 10, 5)
    horizon = ReadHorizon(Lsn(300 + index), T.replace(hour=10 - index))
    values = {"rows": 5, "files": (file,), "horizon": horizon, **facts}
    return StagedRange(plan, index, count, **values)  # type: ignore[arg-type]


def of(plan: PlanId, indexes: Sequence[int], count: int = 3) -> list[StagedRange]:
    return [staged(plan, index, count) for index in indexes]


@pytest.mark.parametrize(
    ("results", "chosen", "ignored"),
    [
        (of(NEW, [0, 1, 2]), NEW, ()),
        (of(NEW, [2, 0, 1]), NEW, ()),
        (of(NEW, [0], count=1), NEW, ()),
        (of(NEW, [0, 1, 2]) + of(NEW, [1]), NEW, ()),
        (of(OLD, [0, 1, 2]) + of(NEW, [0, 1, 2]), NEW, (OLD,)),
        (of(OLD, [2, 3, 4], count=5) + of(NEW, [0, 1, 2]), NEW, (OLD,)),
        (of(OLD, [0, 1, 2]) + of(NEW, [0, 1]), OLD, (NEW,)),
        (of(NEW, [0]) + of(AGAIN, [0, 1, 2]), AGAIN, (NEW,)),
    ],
)
def test_the_newest_complete_plan_is_chosen_by_id_and_the_others_are_named(
    results: list[StagedRange], chosen: PlanId, ignored: tuple[PlanId, ...]
) -> None:
    plan = choose_plan(results)
    assert plan.plan == chosen
    assert plan.ignored == ignored
    assert [outcome.index for outcome in plan.ranges] == list(range(len(plan.ranges)))


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([], "staged must hold at least one range"),
        (of(NEW, [0, 2]), "range(s) 2 of 3 are missing"),
        (of(NEW, [0], count=30), "range(s) 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 19 more of 30 are missing"),
        (of(OLD, [0]) + of(NEW, [1]), "range(s) 1, 3 of 3 are missing; 1 other plan(s)"),
        ([*of(NEW, [0, 1]), staged(NEW, 1, rows=6)], "range(s) 2 returned two different results"),
        (of(NEW, [0, 1, 2]) + of(NEW, [3], count=4), "all ranges must have the same count"),
        ([*of(NEW, [0, 1]), staged(NEW, 2, resnapshot=True)], "all ranges must agree on resnapshot"),
    ],
)
def test_what_is_no_whole_snapshot_says_what_is_missing(results: list[StagedRange], said: str) -> None:
    with pytest.raises(IncompletePlan) as caught:
        choose_plan(results)
    assert said in str(caught.value)


def test_a_plan_sums_up_its_ranges() -> None:
    plan = choose_plan(of(NEW, [1, 0, 2]))
    assert plan.rows == 15
    assert [file.rows for file in plan.files] == [5, 5, 5]
    assert plan.horizon == ReadHorizon(Lsn(302), T.replace(hour=10))
    assert plan.snapshot == Lsn(200)
    assert not plan.done
    assert not plan.resnapshot


def test_ranges_that_found_the_snapshot_in_bronze_say_so() -> None:
    plan = choose_plan([staged(NEW, 0, 1, done=True, rows=0, files=(), horizon=None)])
    assert plan.done
    assert plan.horizon is None
