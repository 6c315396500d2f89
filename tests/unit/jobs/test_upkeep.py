"""Upkeep next to changes, merges and loads: rows stay the same, and silver goes on."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import CommitConflict, ConfigurationError, StateDamaged
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.jobs.upkeep import upkeep
from airflow_provider_mssql_cdc.lake import join_files
from tests.support.changes_world import ChangesWorld
from tests.support.delta_rows import delta_rows
from tests.support.upkeep_world import (
    built_again,
    files_of,
    follow,
    kept_up,
    lake,
    meanwhile,
    order,
    repair,
    rows_of,
    world,
)
from tests.unit.jobs.test_merge_silver import Lake
from tests.unit.lake.test_readers import duck

__all__ = ["duck", "lake", "world"]  # fixtures


# -- compact


def test_small_files_are_joined_and_every_reader_sees_the_same_rows(
    world: ChangesWorld, lake: Lake, duck: duckdb.DuckDBPyConnection
) -> None:
    follow(lake, rounds=3)
    tables = (world.table.bronze, lake.silver, world.table.facts)
    before = {uri: (rows_of(uri), files_of(uri), others_rows(uri, duck)) for uri in tables}
    done = kept_up(lake)
    for uri in tables:
        assert rows_of(uri) == before[uri][0]
        assert others_rows(uri, duck) == before[uri][2]
    assert done["bronze"]["compact"]["files_removed"] == 3
    assert files_of(world.table.bronze) == before[world.table.bronze][1] - 2
    assert files_of(world.table.facts) == 1 < before[world.table.facts][1]


def others_rows(uri: str, duck: duckdb.DuckDBPyConnection) -> tuple[list[str], list[str]]:
    """What Polars and DuckDB, which have Delta readers of their own, see."""
    by_duckdb = duck.sql(f"SELECT * FROM delta_scan('{uri}')").fetchall()
    return sorted(map(str, pl.scan_delta(uri).collect().to_dicts())), sorted(map(str, by_duckdb))


def test_the_log_says_that_no_row_changed(world: ChangesWorld, lake: Lake) -> None:
    follow(lake, rounds=3)
    version = DeltaTable(world.table.bronze).version()
    kept_up(lake, silver=None)
    log = (Path(world.table.bronze) / f"_delta_log/{version + 1:020d}.json").read_text()
    assert log.count('"dataChange":false') == 4
    assert '"dataChange":true' not in log


def test_a_row_is_not_written_again_by_every_run(world: ChangesWorld, lake: Lake) -> None:
    follow(lake, rounds=3)
    kept_up(lake)
    for part in ("bronze", "silver", "facts"):
        assert kept_up(lake)[part]["compact"]["files_removed"] == 0


@pytest.mark.parametrize("behind", [False, True], ids=["up to date", "behind"])
def test_silver_goes_on_after_files_were_joined_and_removed(
    world: ChangesWorld, lake: Lake, behind: bool
) -> None:
    follow(lake, rounds=3, merged=not behind)
    kept_up(lake, vacuum_hours=0)
    assert lake.merged().rebuilt is None
    follow(lake)
    merged = lake.merged()
    assert merged.rebuilt is None
    assert lake.rows() == world.source()


def test_a_silver_that_was_restored_is_left_to_the_merge(world: ChangesWorld, lake: Lake) -> None:
    for number in range(6):
        world.insert(2000 + number)
        world.changes()
        lake.merged()
    DeltaTable(lake.silver).restore(5)
    version = DeltaTable(lake.silver).version()
    with pytest.raises(StateDamaged, match="RESTORE"):
        kept_up(lake)
    assert DeltaTable(lake.silver).version() == version
    assert "RESTORE" in (lake.merged().rebuilt or "")
    assert lake.rows() == world.source()


def test_files_that_a_repair_takes_out_meanwhile_are_chosen_anew(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(lake, rounds=3)
    rows = world.change_rows()
    meanwhile(monkeypatch, join_files, lambda: repair(world))
    kept_up(lake)
    assert world.change_rows() == rows == world.recorded_rows()
    lake.merged()
    assert lake.rows() == world.source() == built_again(lake)


def test_files_joined_by_two_runs_at_once_are_joined_once(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(lake, rounds=3)
    before = rows_of(world.table.bronze)
    meanwhile(monkeypatch, join_files, lambda: kept_up(lake))
    kept_up(lake)
    assert rows_of(world.table.bronze) == before
    assert list(Path(world.table.bronze).glob("compact-*"))
    assert lake.merged().rebuilt is None


def test_a_part_that_fails_leaves_the_others_alone(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(lake, rounds=3)

    def fails(*_: Any, **__: Any) -> None:
        raise CommitConflict("another commit was first")

    monkeypatch.setattr("airflow_provider_mssql_cdc.jobs.upkeep.compact_bronze", fails)
    with pytest.raises(CommitConflict):
        kept_up(lake)
    assert files_of(world.table.facts) == 1


# -- vacuum and checkpoints


def test_files_that_left_are_removed_and_staged_ones_of_live_tasks_are_kept(
    world: ChangesWorld, lake: Lake
) -> None:
    follow(lake)
    bronze, silver = Path(world.table.bronze), Path(lake.silver)
    position = world.state.snapshot
    assert position is not None
    alive = [
        bronze / f"{position.incremented().text}-0123abcd-0123abcd-r00001-a1-0.parquet",
        bronze / f"changes-{10**11:012d}-{position.text}-0123456789ab-0.parquet",
        silver / f"silver-{10**7:08d}-0123abcd-0123abcd-0.parquet",
        silver / "of-somebody-else.parquet",
    ]
    dead = [
        bronze / f"{position.text}-0123abcd-0123abcd-r00001-a1-0.parquet",
        bronze / f"changes-{1:012d}-{position.text}-0123456789ab-0.parquet",
        bronze / "compact-000000000001-0123456789ab-0.parquet",
        bronze / "fold-000000000001-0123456789ab-s-0.parquet",
        silver / "silver-00000001-0123abcd-0123abcd-0.parquet",
    ]
    young = bronze / "compact-000000000001-0123456789ac-0.parquet"
    for path in (*alive, *dead, young):
        path.write_bytes(b"")
    for path in (*alive, *dead):
        os.utime(path, (0, 0))
    done = kept_up(lake, vacuum_hours=24)
    assert done["bronze"]["vacuum"]["staged_files"] == 4
    assert done["silver"]["vacuum"]["staged_files"] == 1
    assert all(path.exists() for path in (*alive, young))
    assert not any(path.exists() for path in dead)


def test_a_silver_that_is_behind_finds_what_a_repair_took_out(world: ChangesWorld, lake: Lake) -> None:
    follow(lake)
    repair(world)
    kept_up(lake, vacuum_hours=0)
    assert lake.merged().rebuilt is None
    assert lake.rows() == world.source()


def test_a_checkpoint_is_written_when_many_commits_have_come(world: ChangesWorld, lake: Lake) -> None:
    assert kept_up(lake)["bronze"]["checkpoint"]["version"] is None
    follow(lake, rounds=25)
    version = kept_up(lake)["bronze"]["checkpoint"]["version"]
    assert list((Path(world.table.bronze) / "_delta_log").glob(f"{version:020d}.checkpoint*"))
    assert kept_up(lake)["bronze"]["checkpoint"]["version"] is None
    follow(lake)
    assert lake.rows() == world.source()


# -- facts


def test_old_facts_of_daily_events_go_and_the_newest_of_each_table_stays(
    world: ChangesWorld, lake: Lake
) -> None:
    follow(lake, rounds=3)
    events = [(row["event"], row["written_at"]) for row in delta_rows(world.table.facts)]
    newest = {event: max(at for name, at in events if name == event) for event in dict(events)}
    done = kept_up(lake, facts_keep_days=1, started_at=datetime.now(UTC) + timedelta(days=2))
    left = [(row["event"], row["written_at"]) for row in delta_rows(world.table.facts)]
    assert sorted(left) == sorted(newest.items())
    assert done["facts"]["trim"]["rows"] == len(events) - len(left) > 0
    lake.merged()  # writes rows that an earlier run left out
    world.changes(quiet_seconds=0)
    assert len(world.facts("changes")) <= 2


# -- what cannot be looked after


def test_without_bronze_there_is_nothing_to_do(world: ChangesWorld, lake: Lake) -> None:
    shutil.rmtree(world.table.bronze)
    assert isinstance(upkeep(order(lake)), Skipped)


def test_bronze_is_not_its_own_silver(world: ChangesWorld, lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="one path"):
        kept_up(lake, silver=world.table.bronze + "/")
