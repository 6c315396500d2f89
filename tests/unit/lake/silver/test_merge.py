"""Changes into silver: what each order of changes leaves of a row, on real tables, merge after merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.errors import StateDamaged
from tests.support.silver_world import Row, World, change, snapshot_row

OLD, NEW, THIRD = {"id": 1, "v": "old"}, {"id": 1, "v": "new"}, {"id": 1, "v": "third"}


def at(key: int, value: str | None = None) -> Row:
    return {"id": key, "v": value or f"of {key}"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Snapshot 10 holds ids 0 to 5."""
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, at(key)) for key in range(6)])
    world.merge()
    return world


UNTOUCHED = {key: f"of {key}" for key in (0, 3, 4, 5)}

# what is committed after snapshot 10, and what ids 1, 2 and those above 5 are then
STORIES: dict[str, tuple[list[Row], dict[int, str]]] = {
    "an update": ([change(11, 3, at(1)), change(11, 4, NEW)], {1: "new", 2: "of 2"}),
    "a delete": ([change(11, 1, at(1))], {2: "of 2"}),
    "an insert": ([change(11, 2, at(9))], {1: "of 1", 2: "of 2", 9: "of 9"}),
    "a delete and an insert of the same key in one commit": (
        [change(11, 1, at(1)), change(11, 2, NEW, seq=2)],
        {1: "new", 2: "of 2"},
    ),
    "a delete and an insert in two commits": (
        [change(12, 2, NEW), change(11, 1, at(1))],
        {1: "new", 2: "of 2"},
    ),
    "an insert and a delete of a key that was not there": (
        [change(11, 2, at(9)), change(12, 3, at(9)), change(12, 4, at(9, "x")), change(13, 1, at(9, "x"))],
        {1: "of 1", 2: "of 2"},
    ),
    "a key update as delete and insert": (
        [change(11, 1, at(1)), change(11, 2, at(7, "of 1"))],
        {2: "of 2", 7: "of 1"},
    ),
    "a key update as two images": (
        [change(11, 3, at(1)), change(11, 4, at(7, "of 1"))],
        {2: "of 2", 7: "of 1"},
    ),
    "a chain of key updates within one commit, as images": (
        [
            *(change(11, 3, at(1), seq=1), change(11, 4, at(7, "a"), seq=1)),
            *(change(11, 3, at(7, "a"), seq=2), change(11, 4, at(8, "b"), seq=2)),
            *(change(11, 3, at(8, "b"), seq=3), change(11, 4, at(1, "c"), seq=3)),
        ],
        {1: "c", 2: "of 2"},
    ),
    "a chain of key updates within one commit, as pairs": (
        [
            *(change(11, 1, at(1), seq=1), change(11, 2, at(7, "a"), seq=1)),
            *(change(11, 1, at(7, "a"), seq=2), change(11, 2, at(8, "b"), seq=2)),
        ],
        {2: "of 2", 8: "b"},
    ),
    "two rows that swap their keys by one statement, as pairs": (
        [
            *(change(11, 1, at(1), seq=1), change(11, 1, at(2), seq=2)),
            *(change(11, 2, at(2, "of 1"), seq=3), change(11, 2, at(1, "of 2"), seq=4)),
        ],
        {1: "of 2", 2: "of 1"},
    ),
    "two rows that swap their keys by way of a third": (
        [
            *(change(11, 3, at(1), seq=1), change(11, 4, at(-1, "of 1"), seq=1)),
            *(change(11, 3, at(2), seq=2), change(11, 4, at(1, "of 2"), seq=2)),
            *(change(11, 3, at(-1, "of 1"), seq=3), change(11, 4, at(2, "of 1"), seq=3)),
        ],
        {1: "of 2", 2: "of 1"},
    ),
    "commands in order though sequences are not": (
        [
            *(change(11, 4, NEW, seq=9, command=1), change(11, 3, at(1), seq=9, command=1)),
            *(change(11, 4, THIRD, seq=2, command=2), change(11, 3, NEW, seq=2, command=2)),
        ],
        {1: "third", 2: "of 2"},
    ),
    "sequences in order where an old build knows no commands": (
        [
            *(change(11, 4, THIRD, seq=2, command=None), change(11, 3, NEW, seq=2, command=None)),
            *(change(11, 4, NEW, seq=1, command=None), change(11, 3, at(1), seq=1, command=None)),
        ],
        {1: "third", 2: "of 2"},
    ),
    "a later commit though its sequence is smaller": (
        [change(12, 4, THIRD, seq=1), change(11, 4, NEW, seq=5), change(11, 3, at(1), seq=5)],
        {1: "third", 2: "of 2"},
    ),
}


@pytest.mark.parametrize(("rows", "left"), STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("together", [True, False], ids=["one merge", "a merge per commit"])
def test_each_order_of_changes_leaves_what_the_source_has(
    world: World, rows: list[Row], left: dict[int, str], together: bool
) -> None:
    commits = [rows]
    if not together:
        lsns = sorted({row["_start_lsn"] for row in rows})
        commits = [[row for row in rows if row["_start_lsn"] == one] for one in lsns]
    for commit in commits:
        world.changes(commit)
        world.merge()
        world.check()
    assert world.values() == UNTOUCHED | left


@pytest.mark.parametrize(("rows", "left"), STORIES.values(), ids=STORIES)
def test_a_rebuild_leaves_the_same(tmp_path: Path, rows: list[Row], left: dict[int, str]) -> None:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, at(key)) for key in range(6)], row_group=2)
    world.changes(rows)
    assert world.merge().rebuilt
    assert world.values() == UNTOUCHED | left
    world.check()


def test_the_row_tells_which_change_made_it(world: World) -> None:
    row = change(11, 2, at(9))
    world.changes([row])
    world.merge()
    held = world.rows()[(9,)]
    assert held["_start_lsn"] == row["_start_lsn"]
    assert held["_commit_ts"] is None


def test_a_late_window_brings_no_deleted_key_back(world: World) -> None:
    """Commits 11 and 12 arrive after 13, as a repair or another order of backfilled runs brings them."""
    world.changes([change(13, 1, at(1, "newest"))])
    world.merge()
    world.changes([change(11, 3, at(1)), change(11, 4, NEW)])
    world.changes([change(12, 3, NEW), change(12, 4, at(1, "newest"))])
    merged = world.merge()
    assert merged.counts.changed_keys == 1
    assert 1 not in world.values()
    world.check()


def test_a_late_window_puts_no_older_image_over_a_newer_one(world: World) -> None:
    world.changes([change(13, 4, THIRD), change(13, 3, NEW)])
    world.merge()
    world.changes([change(11, 3, at(1)), change(11, 4, NEW)])
    world.merge()
    assert world.values()[1] == "third"
    world.check()


def test_a_window_that_comes_twice_changes_nothing(world: World) -> None:
    rows = [change(11, 3, at(1)), change(11, 4, NEW), change(12, 1, at(2)), change(12, 2, at(8))]
    for _ in range(3):
        world.changes(rows)
        world.merge()
        assert world.values() == UNTOUCHED | {1: "new", 8: "of 8"}
    world.check()


def test_rows_below_the_snapshot_name_no_key(world: World) -> None:
    """A repair may carry changes of before a gap into a new file: they are older than the snapshot's rows."""
    world.changes([change(9, 4, at(1, "before the gap")), change(8, 1, at(2))])
    merged = world.merge()
    assert merged.counts.changed_keys == 0
    assert merged.counts.files_removed == 0
    world.check()


def test_changes_above_the_snapshot_are_replayed_over_a_chunk_whatever_its_stamp(tmp_path: Path) -> None:
    """The chunk was stamped 12 and read what 13 wrote; until 13 is there the state is one on the way."""
    world = World(tmp_path)
    world.snapshot(10, [])
    world.snapshot(10, [snapshot_row(12, at(1, "of 13"), snapshot=10, chunk=0)])
    states = []
    for number in (11, 12, 13):
        before, after = at(1, f"of {number - 1}"), at(1, f"of {number}")
        world.changes([change(number, 3, before), change(number, 4, after)])
        world.merge()
        states.append(world.values()[1])
    assert states == ["of 11", "of 12", "of 13"]


def test_a_key_that_a_torn_read_loaded_twice_is_one_row_once_its_change_is_there(tmp_path: Path) -> None:
    """Ranges that are cut on another column than the key can meet a row before and after it moved."""
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, at(1, "here")), snapshot_row(10, at(1, "there"))])
    world.merge()
    world.changes([change(11, 3, at(1, "here")), change(11, 4, at(1, "there"))])
    world.merge()
    assert world.values() == {1: "there"}


def test_without_new_change_rows_the_position_moves_and_no_row_is_read(world: World) -> None:
    world.changes([], until=20)
    before = world.silver
    merged = world.merge()
    assert merged.version == before.version + 1
    assert merged.counts.files_removed == merged.counts.files_added == 0
    assert world.silver.position == merged.position
    assert merged.position.version == world.bronze.version


def test_a_merge_that_is_run_again_commits_nothing(world: World) -> None:
    world.changes([change(11, 1, at(1))])
    first = world.merge()
    again = world.merge()
    assert again.version == first.version == world.silver.version
    assert again.rows == first.rows == 5


def test_a_key_that_is_null_in_a_change_row_is_refused(world: World) -> None:
    world.changes([change(11, 2, {"id": None, "v": "lost"})])
    before = world.silver.version
    with pytest.raises(StateDamaged, match="id are NULL in change rows"):
        world.merge()
    assert world.silver.version == before


def test_a_key_that_is_null_in_a_snapshot_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": None, "v": "lost"})])
    with pytest.raises(StateDamaged, match="id are NULL in rows of the snapshot"):
        world.merge()
