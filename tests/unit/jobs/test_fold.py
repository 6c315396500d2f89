"""Folds: the source at an LSN becomes the snapshot; silver goes on, or the fold is not made and says why."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import Superseded
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.lake import fold as fold_module
from airflow_provider_mssql_cdc.lake import join_files
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from tests.support.changes_world import ChangesWorld
from tests.support.upkeep_world import (
    built_again,
    folding,
    follow,
    kept_up,
    lake,
    meanwhile,
    repair,
    rows_of,
    world,
)
from tests.unit.jobs.test_merge_silver import Lake
from tests.unit.lake.test_readers import duck

__all__ = ["duck", "lake", "world"]  # fixtures


def test_a_fold_is_the_source_at_its_lsn_and_silver_goes_on_without_a_rebuild(
    world: ChangesWorld, lake: Lake
) -> None:
    follow(lake)
    at = world.position()
    source = world.source()
    told = folding(lake)
    assert told["lsn"] == at
    assert told["rows"] == len(source)
    rows = world.bronze()
    assert {row["_operation"] for row in rows} == {0}
    assert {(row["_start_lsn"], row["_snapshot"]) for row in rows} == {(at, at)}
    assert {(row["id"],): {n: row[n] for n in ("id", "name", "amount")} for row in rows} == source
    assert world.state.coverage is not None
    assert world.state.coverage.base.text == at
    follow(lake)
    merged = lake.merged()
    assert merged.rebuilt is None
    assert lake.rows() == world.source() == built_again(lake)


def test_other_readers_find_each_row_of_a_fold_by_its_key(
    world: ChangesWorld, lake: Lake, duck: duckdb.DuckDBPyConnection
) -> None:
    follow(lake)
    folding(lake)
    scanned = pl.scan_delta(world.table.bronze)
    for (number,), row in world.source().items():
        found = duck.sql(f"SELECT name, amount FROM delta_scan('{world.table.bronze}') WHERE id = {number}")
        assert found.fetchall() == [(row["name"], row["amount"])]
        assert scanned.filter(pl.col("id") == number).collect()["name"].to_list() == [row["name"]]


def test_silver_goes_on_when_what_a_fold_took_out_is_removed(world: ChangesWorld, lake: Lake) -> None:
    follow(lake)
    folding(lake)
    kept_up(lake, silver=None, vacuum_hours=0)
    follow(lake, merged=False)
    assert lake.merged().rebuilt is None
    assert lake.rows() == world.source()


def test_another_silver_is_built_again_once(world: ChangesWorld, lake: Lake) -> None:
    other = Lake(world)
    other.silver = f"{lake.silver}-other"
    other.merged()
    follow(lake)
    folding(lake)
    rebuilt = other.merged().rebuilt
    assert rebuilt is not None
    assert "bronze now holds" in rebuilt
    assert other.rows() == world.source()
    follow(other)
    assert other.merged().rebuilt is None


def test_folds_follow_each_other_and_write_one_facts_row_each(world: ChangesWorld, lake: Lake) -> None:
    lsns = []
    for _ in range(3):
        follow(lake)
        lsns.append(folding(lake)["lsn"])
        assert lake.merged().rebuilt is None
    told = world.facts("fold")
    assert sorted(row["end_lsn"] for row in told) == lsns
    assert {row["rows"] for row in told} == {len(world.source())}
    assert len(world.facts("bootstrap")) == 1
    assert lake.rows() == world.source() == built_again(lake)


def test_a_facts_row_that_a_killed_run_left_out_is_written_by_the_next(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(lake)
    with monkeypatch.context() as killed:
        killed.setattr("airflow_provider_mssql_cdc.jobs.upkeep._write_facts", lambda *_: None)
        at = folding(lake)["lsn"]
    assert world.facts("fold") == []
    folding(lake)
    assert [row["end_lsn"] for row in world.facts("fold")] == [at]


def test_a_load_that_runs_again_finds_the_fold_and_writes_no_bootstrap_row(
    world: ChangesWorld, lake: Lake
) -> None:
    follow(lake)
    at = folding(lake)["lsn"]
    before = rows_of(world.table.bronze)
    assert world.bootstrap(run_id="again").snapshot.text == at
    assert rows_of(world.table.bronze) == before
    assert len(world.facts("bootstrap")) == 1
    assert len(world.facts("fold")) == 1


def test_a_resnapshot_read_below_a_fold_is_superseded(world: ChangesWorld, lake: Lake) -> None:

    follow(lake)
    attempt = world.attempt("plan", "slow")
    request = PlanRequest(
        world.table, attempt, max_ranges=2, rows_per_range=20, resnapshot=True, wait_seconds=0
    )
    items = plan_snapshot(request, connect=world.session)
    staged = [read_range(world.table, item, attempt=attempt, connect=world.session) for item in items]
    follow(lake)
    folding(lake)
    before = rows_of(world.table.bronze)
    with pytest.raises(Superseded, match="was folded at"):
        complete_snapshot(world.table, staged, attempt=attempt, connect=world.session)
    assert rows_of(world.table.bronze) == before
    world.insert(66)
    world.bootstrap(resnapshot=True, run_id="new")
    world.tick()
    world.changes(quiet_seconds=0)
    lake.merged()
    assert lake.rows() == world.source()


def test_a_resnapshot_that_was_completed_and_then_folded_may_be_cleared(
    world: ChangesWorld, lake: Lake
) -> None:
    world.insert(99)
    world.bootstrap(resnapshot=True, run_id="again")
    world.tick()
    follow(lake)
    at = folding(lake)["lsn"]
    assert world.bootstrap(resnapshot=True, run_id="again").snapshot.text == at


def test_changes_may_stay_as_history(world: ChangesWorld, lake: Lake) -> None:
    follow(lake)
    changes = world.change_rows()
    told = folding(lake, keep_changes_days=1, compact=False)
    assert "0 change row(s) would leave" in told["reason"]
    told = folding(lake, keep_changes_days=0)
    assert told["changes_removed"] == changes.total()


@pytest.mark.parametrize("hours", [1, 5])
def test_what_is_younger_stays(world: ChangesWorld, lake: Lake, hours: int) -> None:
    follow(lake)
    world.server.clock.shift(timedelta(hours=hours))
    world.server.idle()
    at = world.position()
    follow(lake)
    young = world.source()
    started = datetime.now(UTC) + timedelta(hours=hours)
    told = folding(lake, fold_after_hours=hours // 2 or 1, started_at=started + timedelta(minutes=1))
    assert told["lsn"] <= at
    assert {row["_start_lsn"] for row in world.bronze("_operation > 0")} > {at} - {at}
    assert lake.merged().rebuilt is None
    assert built_again(lake) == young == lake.rows()


def test_a_fold_keeps_the_younger_changes_of_a_file_that_holds_both(world: ChangesWorld, lake: Lake) -> None:
    follow(lake)
    world.server.clock.shift(timedelta(hours=2))
    follow(lake)
    kept_up(lake)  # old and young changes are in one file now
    lake.merged()
    before = {row["_start_lsn"] for row in world.bronze("_operation > 0")}
    told = folding(lake, fold_after_hours=1, started_at=datetime.now(UTC) + timedelta(hours=2))
    after = {row["_start_lsn"] for row in world.bronze("_operation > 0")}
    assert after == {lsn for lsn in before if lsn > told["lsn"]}
    assert after
    assert after < before
    assert lake.merged().rebuilt is None
    assert built_again(lake) == lake.rows() == world.source()


# -- folds that are not possible


def not_merged(world: ChangesWorld, lake: Lake) -> None:
    shutil.rmtree(lake.silver)


def loading_in_chunks(world: ChangesWorld, lake: Lake) -> None:

    world.insert(77)
    attempt = world.attempt("plan", "chunks")
    plan_chunks(ChunkedRequest(world.table, attempt, resnapshot=True, chunk_rows=5), connect=world.session)


def of_another_snapshot(world: ChangesWorld, lake: Lake) -> None:
    world.insert(78)
    world.bootstrap(resnapshot=True, run_id="again")


def a_repair_after_the_merge(world: ChangesWorld, lake: Lake) -> None:
    end = world.tick()
    world.interval(end - timedelta(minutes=30), end - timedelta(seconds=1))


def files_of_silver_gone(world: ChangesWorld, lake: Lake) -> None:
    for uri in DeltaTable(lake.silver).file_uris():
        Path(uri.removeprefix("file://")).unlink()


@pytest.mark.parametrize(
    ("happened", "said"),
    [
        (not_merged, "was not built from this bronze; run the merge first"),
        (loading_in_chunks, "is being loaded"),
        (of_another_snapshot, "run the merge first"),
        (a_repair_after_the_merge, "run the merge first"),
        (files_of_silver_gone, "are gone although its log names them"),
    ],
)
def test_a_fold_that_could_lose_something_is_not_made(
    world: ChangesWorld,
    lake: Lake,
    happened: Callable[[ChangesWorld, Lake], None],
    said: str,
) -> None:
    follow(lake)
    happened(world, lake)
    before = rows_of(world.table.bronze)
    told = folding(lake, compact=False)
    assert said in told["reason"]
    assert rows_of(world.table.bronze) == before


def test_a_fold_waits_until_it_is_worth_its_rewrite_and_old_enough(world: ChangesWorld, lake: Lake) -> None:
    follow(lake)
    assert "fewer than fold_share=1.0" not in str(folding(lake, fold_share=0.9, compact=False))
    follow(lake, rounds=1)
    assert "fewer than fold_share=0.9" in folding(lake, fold_share=0.9)["reason"]
    assert "older than 168 hours" in folding(lake, fold_after_hours=168)["reason"]


def test_a_fold_before_the_horizon_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(5))
        server.enable_cdc("dbo.orders")
        server.clock.freeze(datetime.now(UTC))
        world.bootstrap()
        world.insert(100)
        world.changes()
        lake = Lake(world)
        lake.merged()
        assert "have not passed" in folding(lake)["reason"]


# -- others commit meanwhile


@pytest.mark.parametrize("module", [join_files, fold_module], ids=["compact", "fold"])
def test_changes_and_merges_that_commit_meanwhile_do_not_starve_upkeep(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    follow(lake, rounds=3)
    meanwhile(monkeypatch, module, lambda: follow(lake, rounds=2))
    if module is fold_module:
        assert folding(lake, compact=False)["changes_removed"]
    else:
        assert kept_up(lake)["bronze"]["compact"]["files_removed"] == 3
    assert lake.merged().rebuilt is None
    assert lake.rows() == world.source() == built_again(lake)


def resnapshot(world: ChangesWorld) -> None:
    world.insert(88)
    world.bootstrap(resnapshot=True, run_id="again")


@pytest.mark.parametrize("act", [repair, resnapshot])
def test_a_fold_gives_way_to_a_repair_and_to_a_resnapshot(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[ChangesWorld], object]
) -> None:
    follow(lake)
    meanwhile(monkeypatch, fold_module, lambda: act(world))
    told = folding(lake, compact=False)
    assert "reason" in told
    assert open_existing(TableLocation.bronze_of(world.table)).fold is None
    assert not list(Path(world.table.bronze).glob("fold-*"))
    world.tick()
    world.changes(quiet_seconds=0)
    lake.merged()
    assert lake.rows() == world.source() == built_again(lake)
