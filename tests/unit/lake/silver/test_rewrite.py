"""Files are written again in several lanes at once: all of it, or nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_provider_mssql_cdc.lake.silver.files import current_files
from tests.support.silver_world import World, change
from tests.unit.lake.silver.test_costs import ROWS_EACH, world_of_files


def test_files_in_several_lanes_hold_every_row_once_and_new_keys_come_last(tmp_path: Path) -> None:
    world = world_of_files(tmp_path, "int64")
    changed = range(0, 20 * ROWS_EACH, ROWS_EACH)
    rows = [change(11, 4, {"k": key, "v": "new"}, seq=key + 1) for key in changed]
    rows += [change(11, 1, {"k": key + 1, "v": "old"}, seq=key + 2) for key in changed]
    rows += [change(11, 2, {"k": 5000 + key, "v": "inserted"}, seq=key + 3) for key in changed]
    world.changes(rows)
    merged = world.merge()
    counts = merged.counts
    assert (counts.updated, counts.deleted, counts.inserted, counts.files_removed) == (20, 20, 20, 20)
    held = {key: row["v"] for (key,), row in world.rows().items()}
    assert len(held) == merged.rows == 20 * ROWS_EACH
    assert {held[key] for key in changed} == {"new"}
    assert {held[5000 + key] for key in changed} == {"inserted"}
    assert not any(key + 1 in held for key in changed)


def test_a_lane_that_fails_takes_what_the_others_wrote_along(tmp_path: Path) -> None:
    """The rows of one file cannot be read; the key columns, by which it was chosen, can."""
    world = world_of_files(tmp_path, "int64")
    last = Path(world.silver_at.uri, "sorted-19.parquet")
    _spoil_values(last)
    world.changes([change(11, 4, {"k": key, "v": "new"}, seq=key + 1) for key in range(0, 1000, ROWS_EACH)])
    before = _names(world)
    with pytest.raises(OSError):
        world.merge()
    assert _names(world) == before
    assert len(current_files(world.silver)) == 20


def _names(world: World) -> set[str]:
    return {path.name for path in Path(world.silver_at.uri).glob("*.parquet")}


def _spoil_values(path: Path) -> None:
    """Overwrite the pages of column ``v``."""
    footer = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(1)
        assert column.path_in_schema == "v"
        start = column.dictionary_page_offset or column.data_page_offset
        data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(data))
