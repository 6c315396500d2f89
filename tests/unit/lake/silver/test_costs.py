"""What a merge reads, writes and keeps in memory: the files that can hold its keys, and no more."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.lake.add_actions import delta_statistics
from airflow_provider_mssql_cdc.lake.silver.files import current_files
from airflow_provider_mssql_cdc.lake.silver.rows import POSITION, LatestRows
from airflow_provider_mssql_cdc.lake.silver.table import create_silver
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.support.silver_world import Row, World, change, lsn, snapshot_row

FILES, ROWS_EACH = 20, 50


def keys_of(data_type: str) -> list[Any]:
    numbers = range(FILES * ROWS_EACH)
    if data_type == "string":
        return [f"{number:06d}" for number in numbers]
    return [Decimal(number) for number in numbers] if data_type.startswith("decimal") else list(numbers)


def world_of_files(folder: Path, data_type: str, *, row_group: int = 10) -> World:
    """Silver of twenty files in the order of the key, as a bootstrap in key order leaves them."""
    world = World(
        folder, columns=(LakeColumn("k", "k", data_type), LakeColumn("v", "v", "string")), key=("k",)
    )
    keys = keys_of(data_type)
    world.snapshot(10, [snapshot_row(10, {"k": key, "v": "old"}) for key in keys])
    silver = create_silver(world.silver_at, world.bronze, key=("k",))
    world.merge()
    silver.reload()
    schema = silver.schema
    rows = [{"k": key, "v": "old", "_start_lsn": lsn(10).text, "_commit_ts": None} for key in keys]
    added = []
    for number in range(FILES):
        name = f"sorted-{number:02d}.parquet"
        table = pa.Table.from_pylist(rows[number * ROWS_EACH : (number + 1) * ROWS_EACH], schema)
        path = Path(silver.location.uri, name)
        pq.write_table(table, path, row_group_size=row_group)
        stats = delta_statistics(pq.read_metadata(path), silver.statistics_columns)
        added.append(AddAction(name, path.stat().st_size, {}, 0, True, stats))
    table = DeltaTable(silver.location.uri)
    table.create_write_transaction(added, mode="overwrite", schema=table.schema())
    return world


def spoil_all_but(world: World, kept: set[str]) -> None:
    """Every other file is made unreadable: a merge that opens one of them fails."""
    for file in current_files(world.silver):
        if file.path not in kept:
            Path(world.silver_at.uri, file.path).write_bytes(b"not read")


@pytest.mark.parametrize("data_type", ["int64", "string"])
def test_files_that_cannot_hold_a_changed_key_are_not_even_opened(tmp_path: Path, data_type: str) -> None:
    world, keys = world_of_files(tmp_path, data_type), keys_of(data_type)
    spoil_all_but(world, {"sorted-07.parquet"})
    row: Row = {"k": keys[7 * ROWS_EACH + 3], "v": "new"}
    world.changes([change(11, 4, row), change(11, 3, row | {"v": "old"})])
    merged = world.merge()
    assert (merged.counts.files_removed, merged.counts.files_kept) == (1, FILES - 1)
    assert merged.rows == FILES * ROWS_EACH


def test_where_the_log_has_no_bounds_the_footers_have(tmp_path: Path) -> None:
    """Decimal keys carry none in the log, where delta-rs would make floats of them."""
    world, keys = world_of_files(tmp_path, "decimal(18,0)"), keys_of("decimal(18,0)")
    assert all(not file.bounds for file in current_files(world.silver))
    world.changes([change(11, 1, {"k": keys[333], "v": "old"})])
    merged = world.merge()
    assert (merged.counts.files_removed, merged.counts.files_kept) == (1, FILES - 1)
    assert keys[333] not in {key for (key,) in world.rows()}


def test_a_file_that_could_hold_the_key_and_does_not_is_not_written_again(tmp_path: Path) -> None:
    world = world_of_files(tmp_path, "int64")
    gap = [{"k": number, "v": "new"} for number in range(100, 150)]
    world.changes([change(11, 1, row | {"v": "old"}, seq=number) for number, row in enumerate(gap[1:-1])])
    world.merge()
    world.changes([change(12, 2, row, seq=number) for number, row in enumerate(gap[10:20])])
    merged = world.merge()
    assert (merged.counts.inserted, merged.counts.files_removed) == (10, 0)


def test_new_keys_alone_write_no_file_again(tmp_path: Path) -> None:
    world = world_of_files(tmp_path, "int64")
    world.changes([change(11, 2, {"k": 10_000 + number, "v": "new"}, seq=number) for number in range(30)])
    merged = world.merge()
    assert (merged.counts.inserted, merged.counts.files_added, merged.counts.files_removed) == (30, 1, 0)


def test_files_that_are_written_again_stay_in_the_order_of_the_key(tmp_path: Path) -> None:
    world = world_of_files(tmp_path, "int64")
    changed = [5, 333, 777]
    world.changes([change(11, 4, {"k": key, "v": "new"}, seq=key) for key in changed])
    merged = world.merge()
    assert merged.counts.files_removed == 3
    assert [world.rows()[(key,)]["v"] for key in (*changed, 4)] == ["new", "new", "new", "old"]


def test_memory_for_the_latest_rows_grows_with_the_keys_and_not_with_the_changes() -> None:
    """A million changes of a thousand keys."""
    keys, batch_rows, batches = 1000, 20_000, 50
    schema = pa.schema(
        [
            pa.field("_start_lsn", pa.string()),
            pa.field("_command_id", pa.int32()),
            pa.field("_seqval", pa.string()),
            pa.field("_operation", pa.int32()),
            pa.field("v", pa.string()),
        ]
    )
    latest, before, peak = LatestRows(schema), pa.total_allocated_bytes(), 0
    for number in range(batches):
        rows = pa.table(
            [
                pa.repeat(f"0x{number:020X}", batch_rows),
                pa.nulls(batch_rows, pa.int32()),
                pa.array([f"0x{seq:020X}" for seq in range(batch_rows)]),
                pa.repeat(pa.scalar(4, pa.int32()), batch_rows),
                pa.repeat(f"value {number}", batch_rows),
            ],
            schema=schema,
        )
        latest.add(rows, pa.array([row % keys for row in range(batch_rows)], pa.int32()))
        peak = max(peak, pa.total_allocated_bytes() - before)
    kept = latest.table()
    assert kept.column(POSITION).to_pylist() == list(range(keys))
    assert set(kept.column("v").to_pylist()) == {f"value {batches - 1}"}
    assert peak < 40_000_000, "a million rows of these would be 80 MB"
