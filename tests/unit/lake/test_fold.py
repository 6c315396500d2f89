"""A fold in the lake: the state at F exactly, and what must not have come meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake import fold as fold_module
from airflow_provider_mssql_cdc.lake.fold import CannotFold, FoldRequest, fold
from airflow_provider_mssql_cdc.lake.transactions import OPEN, lsn_transactions
from airflow_provider_mssql_cdc.model.capture import CommitStamp
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import World, change, lsn, snapshot_row
from tests.support.upkeep_world import meanwhile


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Key 1 changes before and after LSN 30, key 2 before, key 3 is new after it."""
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": number, "v": "first"}) for number in (1, 2)])
    for number in (20, 30, 40):
        world.changes([change(number, 4, {"id": 1, "v": f"at {number}"})])
    world.changes([change(25, 1, {"id": 2, "v": "first"}), change(45, 2, {"id": 3, "v": "new"})])
    world.merge()
    return world


def request(world: World, at: int = 30) -> FoldRequest:
    silver = world.silver
    assert silver.position is not None
    stamp = CommitStamp(lsn(at), datetime(2026, 1, 1, tzinfo=UTC))
    return FoldRequest(world.bronze, stamp, silver.key, silver.position, take_up_to=lsn(at), run_id="up")


def folded(world: World) -> list[tuple[int, str]]:
    rows = delta_rows(world.bronze_at.uri, "_operation = 0")
    return sorted((row["id"], row["v"]) for row in rows)


def test_the_snapshot_is_the_state_at_its_lsn_and_later_changes_stay(world: World) -> None:
    done = fold(request(world))
    assert folded(world) == [(1, "at 30")]
    assert (done.rows, done.changes) == (1, 3)
    left = delta_rows(world.bronze_at.uri, "_operation > 0")
    assert sorted(row["_start_lsn"] for row in left) == [lsn(40).text, lsn(45).text]
    assert world.merge().rebuilt is None
    assert world.values() == {1: "at 40", 3: "new"}


def test_changes_up_to_an_older_lsn_may_leave_alone(world: World) -> None:
    given = request(world)
    fold(FoldRequest(given.bronze, given.at, given.key, given.silver, take_up_to=lsn(20), run_id="up"))
    left = delta_rows(world.bronze_at.uri, "_operation > 0")
    assert sorted(row["_start_lsn"] for row in left) == [lsn(n).text for n in (25, 30, 40, 45)]
    assert folded(world) == [(1, "at 30")]
    assert world.merge().rebuilt is None
    world.check()


def a_change_below(world: World) -> None:
    world.changes([change(22, 4, {"id": 1, "v": "late"})])


def rows_of_a_snapshot(world: World) -> None:
    world.append([snapshot_row(35, {"id": 1, "v": "wave"}, chunk=0)])


def an_open(world: World) -> None:
    world.append([], transactions=lsn_transactions(OPEN, lsn(50)))


def a_snapshot(world: World) -> None:
    world.snapshot(50, [])


def a_new_base(world: World) -> None:
    world.snapshot(10, [], base=50)


@pytest.mark.parametrize("act", [a_change_below, rows_of_a_snapshot, an_open, a_snapshot, a_new_base])
def test_what_would_make_the_fold_wrong_meanwhile_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[World], None]
) -> None:
    meanwhile(monkeypatch, fold_module, lambda: act(world))
    with pytest.raises(CannotFold):
        fold(request(world))
    assert world.bronze.fold is None
    assert not list(Path(world.bronze_at.uri).glob("fold-*"))


@pytest.mark.parametrize("act", [a_change_below, rows_of_a_snapshot])
def test_what_silver_has_not_merged_is_not_taken_out(world: World, act: Callable[[World], None]) -> None:
    given = request(world)
    act(world)
    given.bronze.reload()
    with pytest.raises(CannotFold, match="run the merge first"):
        fold(given)


def test_a_key_of_several_snapshot_rows_is_not_folded(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": 1, "v": v}) for v in ("one", "other")])
    world.changes([change(20, 2, {"id": 2, "v": "new"})])
    world.merge()
    with pytest.raises(StateDamaged, match="stand in several rows"):
        fold(request(world, at=20))
    assert len(folded(world)) == 2


def test_rows_of_older_snapshots_leave_with_it(world: World) -> None:
    world.snapshot(41, [snapshot_row(41, {"id": 1, "v": "again"})])
    world.changes([change(50, 4, {"id": 1, "v": "at 50"})])
    world.merge()
    fold(request(world, at=50))
    assert folded(world) == [(1, "at 50"), (3, "new")]
    assert delta_rows(world.bronze_at.uri, "_operation > 0") == []


def test_an_empty_state_is_a_snapshot_too(world: World) -> None:
    removed: list[dict[str, Any]] = [
        change(60, 1, {"id": 1, "v": "at 40"}),
        change(60, 1, {"id": 3, "v": "new"}, seq=2),
    ]
    world.changes(removed)
    world.merge()
    assert fold(request(world, at=60)).rows == 0
    assert delta_rows(world.bronze_at.uri) == []
    assert world.merge().rebuilt is None
    assert world.values() == {}
