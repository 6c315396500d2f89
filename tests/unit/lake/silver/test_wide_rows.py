"""Wide rows: memory is bounded in bytes, and images that do not fit are read from bronze again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_mssql_cdc.lake.silver.commits import decide
from airflow_provider_mssql_cdc.lake.silver.images import KeyImages, KeyUpdates
from airflow_provider_mssql_cdc.lake.silver.rows import KeySet, changed_files, named_keys
from airflow_provider_mssql_cdc.lake.storage import BATCH_BYTES, TableLocation, TableStorage, file_batches
from airflow_provider_mssql_cdc.planning.merge import Presence
from tests.support.silver_world import Row, World, change, lsn, snapshot_row
from tests.support.wide_merge import in_child

MOST_MEBIBYTES = 700
"""Measured: 250 to 450. Whole images would take from 1,000 to 4,700."""

TOO_WIDE = [
    pytest.param(3_000, 200_000, id="3,000 of 200 KB", marks=pytest.mark.soak),
    pytest.param(40_000, 15_000, id="40,000 of 15 KB"),
    pytest.param(15_000, 200_000, id="15,000 of 200 KB", marks=pytest.mark.soak),
    pytest.param(36, 64 << 20, id="36 of 64 MiB", marks=pytest.mark.soak),
    pytest.param(100_000, 22_000, id="100,000 of 22 KB", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("rows", "width"), TOO_WIDE)
def test_changed_keys_with_wide_images_take_bounded_memory(tmp_path: Path, rows: int, width: int) -> None:
    told = {step: in_child(step, tmp_path, rows=rows, width=width) for step in ("make", "build")}
    told |= {step: in_child(step, tmp_path, rows=rows, width=width) for step in ("change", "merge", "anew")}
    assert [told[step]["wrong"] for step in ("build", "merge", "anew")] == [0, 0, 0]
    assert {told[step]["rows"] for step in ("build", "merge", "anew")} == {rows}
    assert told["merge"]["rebuilt"] is None
    most = MOST_MEBIBYTES + 12 * (width >> 20)
    assert max(told[step]["peak"] for step in ("build", "merge", "anew")) < most


@pytest.mark.parametrize("row_group", [None, 7, 5000])
@pytest.mark.parametrize("alike", [False, True], ids=["different values", "one value, as a dictionary"])
def test_a_batch_is_bounded_in_bytes(tmp_path: Path, row_group: int | None, alike: bool) -> None:
    """Twenty thousand rows of 8 KB are 160 MB; a dictionary holds one that repeats itself once."""
    rows, width = 20_000, 8_000
    texts = [f"{0 if alike else number:08d}" + "x" * (width - 8) for number in range(rows)]
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("v", pa.string())])
    pq.write_table(
        pa.table([pa.array(range(rows), pa.int64()), pa.array(texts)], schema=schema),
        tmp_path / "wide.parquet",
        row_group_size=row_group,
        use_dictionary=alike,
    )
    storage = TableStorage(TableLocation(str(tmp_path)))
    seen, largest = 0, 0
    for batch in file_batches(storage, "wide.parquet", schema):
        seen, largest = seen + batch.num_rows, max(largest, batch.nbytes)
    assert seen == rows
    assert alike or largest <= BATCH_BYTES * 1.1
    assert row_group != 7 or largest <= BATCH_BYTES * 1.1


def stories(world: World) -> None:
    """Every kind of end that a key can have, each of many keys, some rows twice."""
    rows: list[Row] = []
    for key in range(0, 200, 2):
        rows += [
            change(11, 3, {"id": key, "v": "old"}),
            change(11, 4, {"id": key, "v": f"n{key}"}),
            change(12, 1, {"id": key + 1, "v": "old"}),
        ]
    for key in range(180, 240):
        rows += [
            change(13, 2, {"id": key, "v": f"open {key}"}, seq=3),
            change(13, 1, {"id": key, "v": f"open {key}"}, seq=4),
        ]
    rows += [change(14, 2, {"id": key, "v": f"new {key}"}, seq=5) for key in range(230, 260)]
    world.changes([*rows, *rows[::3]])


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": key, "v": "old"}) for key in range(200)], row_group=40)
    return world


def images_of(world: World, *, images_bytes: int) -> KeyImages:
    bronze = world.bronze
    named = named_keys(bronze, changed_files(bronze, lsn(10)), key=("id",), above=lsn(10))
    assert named is not None
    return KeyImages(bronze, named, schema=world.silver.schema, images_bytes=images_bytes)


def test_images_that_are_read_again_are_those_that_would_be_held(world: World) -> None:
    world.merge()
    stories(world)
    told = []
    for images_bytes in (1, 1 << 20):
        images = images_of(world, images_bytes=images_bytes)
        assert images.are_held is (images_bytes > 1)
        updates, rows = KeyUpdates(images), []
        storage, schema = TableStorage(world.silver.location), world.silver.schema
        for uri in world.silver.table.file_uris():
            for batch in file_batches(storage, Path(uri).name, schema):
                rows += updates.apply(batch).to_pylist()
        for batch in updates.rest():
            rows += batch.to_pylist()
        counts = (updates.updated, updates.inserted, updates.deleted)
        told.append((sorted((row["id"], row["v"], row["_start_lsn"]) for row in rows), counts))
    assert told[0] == told[1]
    assert {id_: value for id_, value, _ in told[0][0]} == {
        key: row["v"] for (key,), row in world.expected().items()
    }


@pytest.mark.parametrize("collected_bytes", [1, 300, 5_000, 1 << 20])
def test_commits_are_looked_at_as_many_at_a_time_as_fit(collected_bytes: int) -> None:
    """Keys 0 to 9 are open in commits 12 to 40 and were gone, there or not named at all before."""
    schema = pa.schema(
        [
            *(pa.field("k", pa.int64()), pa.field("v", pa.string()), pa.field("_start_lsn", pa.string())),
            *(pa.field("_command_id", pa.int32()), pa.field("_seqval", pa.string())),
            pa.field("_operation", pa.int32()),
        ]
    )
    rows = []
    for key in range(10):
        first = {0: 1, 1: 2}.get(key % 3)
        if first is not None:
            rows.append({"k": key, "v": "x", "_start_lsn": "11", "_seqval": "1", "_operation": first})
        for number in range(12, 41):
            for operation in (2, 1):
                own = {"_start_lsn": f"{number}", "_seqval": f"{3 - operation}", "_operation": operation}
                rows.append({"k": key, "v": f"of {number}", **own})
    table = pa.Table.from_pylist([{"_command_id": None, **row} for row in rows], schema)

    def scan(columns: object, until: str | None) -> list[pa.Table]:
        kept = [row for row in table.to_pylist() if until is None or row["_start_lsn"] <= until]
        return [pa.Table.from_pylist(kept[start : start + 50], schema) for start in range(0, len(kept), 50)]

    keys = KeySet(pa.table({"k": pa.array(range(10), pa.int64())}))
    verdicts = decide(
        keys, lambda *asked: iter(scan(*asked)), compared=("v",), collected_bytes=collected_bytes
    )
    ends = {0: Presence.GONE, 1: Presence.THERE, 2: Presence.AS_BEFORE}
    assert verdicts == [ends[key % 3] for key in range(10)]
