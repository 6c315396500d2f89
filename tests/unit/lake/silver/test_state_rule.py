"""What one commit does to one key: the rule as a table, then the same on real tables, merged and rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.planning.merge import Presence, presence
from tests.support.silver_world import Row, World, change, snapshot_row

GONE, THERE, AS_BEFORE = Presence.GONE, Presence.THERE, Presence.AS_BEFORE


@pytest.mark.parametrize(
    ("adds", "removals", "last_adds", "same_image", "expected"),
    [
        (1, 0, True, False, THERE),
        (1, 1, True, True, THERE),
        (1, 3, True, False, THERE),
        (0, 1, False, False, GONE),
        (1, 2, False, True, GONE),
        (1, 2, False, False, GONE),
        (2, 1, False, True, THERE),
        (3, 2, False, False, THERE),
        (1, 1, False, False, THERE),
        (1, 1, False, True, AS_BEFORE),
        (4, 4, False, True, AS_BEFORE),
    ],
)
def test_adds_removals_their_order_and_their_images_decide(
    adds: int, removals: int, last_adds: bool, same_image: bool, expected: Presence
) -> None:
    told = presence(adds=adds, removals=removals, last_adds=last_adds, same_image=same_image)
    assert told is expected


COLUMNS = (
    LakeColumn("code", "code", "int64", "[code] int"),
    LakeColumn("id", "id", "int64", "[id] int"),
    LakeColumn("v", "v", "string", "[v] nvarchar(40)"),
    LakeColumn("doc", "doc", "string", "[doc] nvarchar(max)"),
    LakeColumn("scan", "scan", "binary", "[scan] varbinary(max), cast to something", large=True),
)


def row(
    code: int, id_: int, v: str | None = "v", *, doc: str | None = "long", scan: bytes | None = b"x"
) -> Row:
    return {"code": code, "id": id_, "v": v, "doc": doc, "scan": scan}


def before(code: int, id_: int, v: str | None = "v") -> Row:
    """A row as the image before an update has it: large objects that did not change are NULL there."""
    return row(code, id_, v, doc=None, scan=None)


def pair(number: int, old: Row, new: Row, *, seq: int, operations: tuple[int, int] = (3, 4)) -> list[Row]:
    return [change(number, operations[0], old, seq=seq), change(number, operations[1], new, seq=seq + 1)]


SHIFT = [
    line
    for number in range(1, 6)
    for line in pair(11, before(number, number), row(number + 1, number), seq=10 * number)
]
DOUBLED = [change(11, 2, row(9, 9), seq=1), change(11, 1, row(9, 9), seq=2)]

# Snapshot 10 holds codes 1 to 5 of ids 1 to 5. What is committed above it, and the ids by code that are left.
START = {code: code for code in range(1, 6)}
STORIES: dict[str, tuple[list[Row], dict[int, int]]] = {
    "codes shift by one, pairs in the table's order": (SHIFT, {code + 1: code for code in START}),
    "codes shift by one, as deletes and inserts": (
        [
            *(change(11, 1, row(code, code), seq=code) for code in START),
            *(change(11, 2, row(code + 1, code), seq=10 + code) for code in START),
        ],
        {code + 1: code for code in START},
    ),
    "codes shift by one, inserts before deletes as in old builds": (
        [
            *(change(11, 2, row(code + 1, code), seq=code) for code in START),
            *(change(11, 1, row(code, code), seq=10 + code) for code in START),
        ],
        {code + 1: code for code in START},
    ),
    "two rows swap their codes": (
        [*pair(11, before(1, 1), row(2, 1), seq=1), *pair(11, before(2, 2), row(1, 2), seq=3)],
        START | {1: 2, 2: 1},
    ),
    "codes move by several statements of one commit": (
        [
            *pair(11, before(1, 1), row(7, 1), seq=1),
            *pair(11, before(2, 2), row(1, 2), seq=3),
            *pair(11, before(7, 1), row(2, 1), seq=5),
            *pair(11, before(1, 2), row(8, 2), seq=7),
        ],
        {3: 3, 4: 4, 5: 5, 2: 1, 8: 2},
    ),
    "insert and delete in one commit leave what was there": (DOUBLED, START),
    "the same change rows twice count once": (
        [*DOUBLED, DOUBLED[0], *SHIFT, *SHIFT],
        {code + 1: code for code in START},
    ),
    "a row is inserted before its delete, with the same image": (
        [change(11, 2, row(1, 1), seq=1), change(11, 1, row(1, 1), seq=2)],
        START,
    ),
    "images that differ in large objects alone are one row's": (
        [change(11, 2, row(9, 9), seq=1), *pair(11, before(9, 9), row(8, 9), seq=2)],
        START | {8: 9},
    ),
    "images that differ in NULL alone are two rows'": (
        [change(11, 2, row(9, 9, None), seq=1), change(11, 1, row(9, 9), seq=2)],
        START | {9: 9},
    ),
    "more removals than adds": (
        [
            *(change(11, 1, row(1, 1), seq=1), change(11, 2, row(1, 7), seq=2)),
            *(change(11, 3, row(1, 7), seq=3), change(11, 4, row(7, 7), seq=4)),
        ],
        {2: 2, 3: 3, 4: 4, 5: 5, 7: 7},
    ),
    "more adds than removals, the last a removal": (
        [
            *(change(11, 2, row(9, 8), seq=1), change(11, 4, row(9, 9), seq=2)),
            change(11, 3, row(9, 8), seq=3),
        ],
        START | {9: 9},
    ),
    "commits that leave a key open, over one that inserts it": (
        [
            change(11, 2, row(9, 9), seq=1),
            *(
                line
                for number in range(12, 20)
                for line in (
                    change(number, 2, row(9, 9, f"of {number}"), seq=1),
                    change(number, 1, row(9, 9, f"of {number}"), seq=2),
                )
            ),
        ],
        START | {9: 9},
    ),
    "commits that leave a key open, over one that deletes it": (
        [
            change(11, 1, row(1, 1), seq=1),
            *(
                line
                for number in range(12, 20)
                for line in (change(number, 2, row(1, 1), seq=1), change(number, 1, row(1, 1), seq=2))
            ),
        ],
        {2: 2, 3: 3, 4: 4, 5: 5},
    ),
}


def loaded(folder: Path) -> World:
    world = World(folder, columns=COLUMNS, key=("code",))
    world.snapshot(10, [snapshot_row(10, row(code, code)) for code in START])
    return world


def ids(world: World) -> dict[int, int]:
    return {code: each["id"] for (code,), each in world.rows().items()}


@pytest.mark.parametrize(("rows", "left"), STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("how", ["merged", "merged commit by commit", "rebuilt"])
def test_a_key_that_passes_from_row_to_row_is_kept(
    tmp_path: Path, rows: list[Row], left: dict[int, int], how: str
) -> None:
    world = loaded(tmp_path)
    if how != "rebuilt":
        world.merge()
    lsns = sorted({each["_start_lsn"] for each in rows})
    for lsn in lsns if how == "merged commit by commit" else [None]:
        world.changes([each for each in rows if lsn in (None, each["_start_lsn"])])
        if how == "merged commit by commit":
            world.merge()
    world.merge()
    assert ids(world) == left


def test_the_image_of_a_key_that_stays_open_is_the_one_added_last(tmp_path: Path) -> None:
    world = loaded(tmp_path)
    world.merge()
    world.changes([change(11, 2, row(1, 1, "new"), seq=1), change(11, 1, row(1, 1, "new"), seq=2)])
    merged = world.merge()
    assert world.rows()[(1,)]["v"] == "new"
    assert (merged.counts.updated, merged.counts.inserted, merged.counts.deleted) == (1, 0, 0)
