"""Which files are written together, and how often a row is written again by it."""

from __future__ import annotations

import random
from math import log2

import pytest

from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage, Fold, SilverPosition
from airflow_provider_mssql_cdc.planning.merge import MergeSince, Rebuild, decide_merge
from airflow_provider_mssql_cdc.planning.upkeep import groups_to_join, why_not_fold

TARGET = 1000


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([10], []),
        ([10, 10], [range(2)]),
        ([10, 10, 900, 10, 10], [range(2), range(3, 5)]),  # a full file stays where it is
        ([400, 10, 10], [range(1, 3)]),  # a large one is not written again for little
        ([10, 400, 10], []),
        ([10, 10, 400, 10, 10], [range(2), range(3, 5)]),
        ([400, 300, 200], [range(3)]),
        ([400, 400, 400, 10, 10], [range(3), range(3, 5)]),
        ([100] * 25, [range(10), range(10, 20), range(20, 25)]),
    ],
)
def test_adjacent_small_files_are_joined(sizes: list[int], groups: list[range]) -> None:
    assert groups_to_join(sizes, target=TARGET) == groups


@pytest.mark.parametrize("seed", range(20))
def test_few_small_files_are_left_and_a_row_is_seldom_written_again(seed: int) -> None:
    rng = random.Random(seed)
    files: list[tuple[int, int]] = []  # size, and how often its rows were written
    for _ in range(400):
        files += [(rng.randrange(5, 40), 1) for _ in range(rng.randrange(1, 8))]
        for group in reversed(groups_to_join([size for size, _ in files], target=TARGET)):
            joined = [files[index] for index in group]
            files[group.start : group.stop] = [
                (sum(size for size, _ in joined), 1 + max(times for _, times in joined))
            ]
        small = [size for size, _ in files if size < TARGET / 2]
        assert len(small) <= 1 + log2(TARGET)
    assert max(times for _, times in files) <= 2 + log2(TARGET / 5)


S, F = Lsn(100), Lsn(200)
POSITION = SilverPosition(7, 5, S, Lsn(300))
STATE = BronzeState(9, snapshot=S, coverage=Coverage(S, Lsn(300)))


def test_a_fold_needs_a_silver_of_this_bronze_and_snapshot() -> None:
    assert why_not_fold(STATE, POSITION, bronze=7) is None
    assert why_not_fold(STATE, None, bronze=7) is not None
    assert why_not_fold(STATE, POSITION, bronze=8) is not None
    assert why_not_fold(STATE, SilverPosition(7, 5, S, Lsn(300), rule=0), bronze=7) is not None
    assert why_not_fold(STATE, SilverPosition(7, 5, S, Lsn(300), doubled=1), bronze=7) is not None
    assert why_not_fold(STATE, SilverPosition(7, 5, F, Lsn(300)), bronze=7) is not None
    assert why_not_fold(BronzeState(9), POSITION, bronze=7) is not None
    loading = BronzeState(9, snapshot=S, open=F, coverage=Coverage(S, Lsn(300)))
    assert why_not_fold(loading, POSITION, bronze=7) is not None


@pytest.mark.parametrize(
    ("fold", "goes_on"),
    [
        (None, False),
        (Fold(F, S, 5), True),
        (Fold(F, S, 4), True),
        (Fold(F, S, 6), False),  # it took out rows that this silver has not merged
        (Fold(F, Lsn(99), 5), False),  # a fold of a fold, of which this silver has missed one
    ],
)
def test_a_silver_goes_on_after_a_fold_of_what_it_has_merged(fold: Fold | None, goes_on: bool) -> None:
    state = BronzeState(9, snapshot=F, coverage=Coverage(F, Lsn(300)))
    decision = decide_merge(POSITION, state, bronze=7, fold=fold)
    assert isinstance(decision, MergeSince if goes_on else Rebuild)
