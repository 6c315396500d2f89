"""Keys that stand in several rows of a snapshot: held once, explained by changes, or damage."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.silver.merge import MergeCommit, MergeRequest, rebuild
from airflow_provider_mssql_cdc.lake.silver.snapshot import find_doubled
from airflow_provider_mssql_cdc.lake.silver.table import create_silver, open_silver
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.planning.merge import MergeSince, Rebuild, UpToDate, decide_merge
from tests.support.silver_world import World, change, lsn, snapshot_row


def torn(folder: Path) -> World:
    """Key 1 was read in two chunks: the later one is stamped 15."""
    world = World(folder)
    rows = [
        snapshot_row(12, {"id": 1, "v": "early"}, snapshot=10, chunk=0),
        snapshot_row(15, {"id": 1, "v": "late"}, snapshot=10, chunk=1),
        snapshot_row(13, {"id": 1, "v": "between"}, snapshot=10, chunk=2),
        *(snapshot_row(15, {"id": key, "v": "x"}, snapshot=10, chunk=1) for key in (2, 3)),
    ]
    world.snapshot(10, [])
    world.snapshot(10, rows, row_group=2)
    return world


def built(world: World, *, passed: bool) -> MergeCommit:
    bronze = world.bronze
    silver = open_silver(world.silver_at) or create_silver(world.silver_at, bronze, key=world.key)
    assert bronze.state.snapshot is not None
    request = MergeRequest(
        silver,
        bronze,
        bronze.state.snapshot,
        decided_on=silver.position,
        prefix=f"silver-{silver.version}",
        run_id="manual__1",
        passed=passed,
    )
    return rebuild(request, reason="asked for", confirm_empty=lambda: None)


def test_of_rows_that_share_a_key_the_largest_stamp_is_kept(tmp_path: Path) -> None:
    world = torn(tmp_path)
    merged = built(world, passed=False)
    assert world.values() == {1: "late", 2: "x", 3: "x"}
    assert merged.rows == 3
    assert merged.position.doubled == 1


def test_past_the_horizon_a_key_that_no_change_names_is_damage(tmp_path: Path) -> None:
    world = torn(tmp_path)
    with pytest.raises(StateDamaged, match=r"1 key\(s\) \(id\) stand in several rows of snapshot"):
        built(world, passed=True)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([change(14, 3, {"id": 1, "v": "early"}), change(14, 4, {"id": 1, "v": "late"})], "late"),
        ([change(14, 1, {"id": 1, "v": "early"}), change(14, 2, {"id": 1, "v": "late"}, seq=2)], "late"),
        ([change(20, 1, {"id": 1, "v": "late"})], None),
    ],
)
def test_a_key_that_changes_name_is_what_they_make_of_it(
    tmp_path: Path, changes: list[dict[str, Any]], left: str | None
) -> None:
    world = torn(tmp_path)
    world.changes(changes)
    merged = built(world, passed=True)
    assert world.values().get(1) == left
    assert merged.position.doubled == 0


def test_a_doubled_key_is_looked_at_again_once_changes_have_passed_the_horizon(tmp_path: Path) -> None:
    world = torn(tmp_path)
    position = built(world, passed=False).position
    world.changes([change(16, 1, {"id": 2, "v": "x"})])
    merged = world.merge()
    assert merged.rebuilt is None
    assert merged.position.doubled == position.doubled == 1
    state = world.bronze.state
    told = [
        decide_merge(each, state, bronze=position.bronze, passed=passed)
        for each in (position, merged.position)
        for passed in (False, True)
    ]
    assert [type(decision) for decision in told] == [MergeSince, Rebuild, UpToDate, Rebuild]


def test_rows_of_the_same_stamp_are_held_once_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": 1, "v": value}) for value in ("a", "b", "c")])
    assert built(world, passed=False).rows == 1


KEYS: dict[str, Callable[[int], Any]] = {
    "int64": int,
    "string": "{:05d}".format,
    "decimal(18,4)": lambda number: Decimal(number) / 4,
    "date": lambda number: dt.date(2000, 1, 1) + dt.timedelta(days=number),
    "timestamp": lambda number: dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number),
    "float64": lambda number: number / 8,
    "binary": lambda number: b"%05d" % number,
}


@pytest.mark.parametrize("order", ["as loaded", "at random"])
@pytest.mark.parametrize("data_type", KEYS)
def test_doubled_keys_are_found_range_by_range(tmp_path: Path, data_type: str, order: str) -> None:
    """Five hundred rows, some forty at a time."""
    rng = random.Random(data_type)
    columns = (LakeColumn("k", "k", data_type), LakeColumn("n", "n", "int32"), LakeColumn("v", "v", "string"))
    world = World(tmp_path, columns=columns, key=("k", "n"))
    numbers = list(range(450))
    doubled = rng.sample(numbers, 25)
    every = [*numbers, *doubled, *doubled]
    every.sort() if order == "as loaded" else rng.shuffle(every)
    rows = [snapshot_row(10, {"k": KEYS[data_type](each), "n": each % 3, "v": "x"}) for each in every]
    world.snapshot(10, rows[:200], row_group=20)
    world.append(rows[200:], row_group=20)
    found = find_doubled(world.bronze, lsn(10), key=("k", "n"), but=None, rows_at_once=40)
    assert len(found) == len(doubled)
    assert built(world, passed=False).rows == len(numbers)
