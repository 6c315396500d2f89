"""Rows of bronze that another tool removed: noticed, on record, and never the ground of a silver."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import NotReadyYet, StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from tests.support.changes_world import ChangesWorld
from tests.support.chunked import ChunkedLoad
from tests.unit.jobs.test_merge_silver import Lake


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    """``dbo.orders`` with ids 0 to 9 in a snapshot; then 1 deleted and 2 updated, in bronze as changes."""
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(10))
        server.enable_cdc("dbo.orders")
        world.bootstrap()
        world.execute("DELETE FROM dbo.orders WHERE id = 1")
        world.execute("UPDATE dbo.orders SET name = N'new' WHERE id = 2")
        go_on(world)
        yield world


@pytest.fixture
def lake(world: ChangesWorld) -> Lake:
    return Lake(world)


def go_on(world: ChangesWorld) -> None:
    """Changes past everything that was committed so far."""
    world.tick()
    world.changes(quiet_seconds=0)


def opened(world: ChangesWorld) -> Bronze:
    return open_existing(TableLocation.bronze_of(world.table))


def theirs(world: ChangesWorld) -> DeltaTable:
    return DeltaTable(world.table.bronze)


def _merge(table: DeltaTable) -> None:
    ids = pa.table({"id": pa.array([1], pa.int64())})
    merger = table.merge(ids, "t.id = s.id AND t._operation > 0", source_alias="s", target_alias="t")
    merger.when_matched_delete().execute()


def _overwrite(table: DeltaTable) -> None:
    rows = table.to_pyarrow_table(filters=[("_operation", "=", 0)])
    write_deltalake(table, rows, mode="overwrite")


REMOVALS: dict[str, Callable[[DeltaTable], object]] = {
    "DELETE of changes": lambda table: table.delete("_operation > 0"),
    "DELETE of one change": lambda table: table.delete("_operation = 1"),
    "DELETE of a row of the snapshot": lambda table: table.delete("_operation = 0 AND id = 7"),
    "DELETE of everything": lambda table: table.delete(),
    "UPDATE": lambda table: table.update(predicate="_operation = 1", new_values={"id": "3"}),
    "MERGE": _merge,
    "overwrite": _overwrite,
    "overwrite of a part": lambda table: write_deltalake(
        table,
        table.to_pyarrow_table(filters=[("id", "=", 2), ("_operation", "=", 0)]),
        mode="overwrite",
        predicate="id = 2",
    ),
}


def forget_the_log(world: ChangesWorld) -> None:
    """What Delta does by itself once a commit is older than the log's retention."""
    table = theirs(world)
    table.create_checkpoint()
    for version in range(table.version()):
        Path(world.table.bronze, "_delta_log", f"{version:020d}.json").unlink(missing_ok=True)


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_a_silver_is_not_built_from_a_bronze_that_was_thinned(
    world: ChangesWorld, lake: Lake, remove: Callable[[DeltaTable], object]
) -> None:
    before = theirs(world).version()
    remove(theirs(world))
    with pytest.raises(StateDamaged, match=rf"in version {before + 1} .*RESTORE bronze to version {before} "):
        lake.merge()
    assert not Path(lake.silver).exists()


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_later_commits_and_a_cleaned_log_do_not_forget_it(
    world: ChangesWorld, lake: Lake, remove: Callable[[DeltaTable], object]
) -> None:
    remove(theirs(world))
    version = theirs(world).version()
    world.insert(20)
    go_on(world)
    theirs(world).alter.set_table_properties({"note": "foreign noise"}, raise_if_not_exists=False)
    forget_the_log(world)
    with pytest.raises(StateDamaged, match=rf"in version {version}, .*resnapshot=True") as raised:
        lake.merge()
    assert "RESTORE" not in str(raised.value)  # it would take rows of ours back
    assert not Path(lake.silver).exists()


def test_changes_that_silver_has_not_merged_may_be_gone(world: ChangesWorld, lake: Lake) -> None:
    lake.merged()
    kept = lake.rows()
    world.execute("DELETE FROM dbo.orders WHERE id = 5")
    go_on(world)
    theirs(world).delete("_operation = 1 AND id = 5")
    for _ in range(2):  # as it stands, and with a commit of ours above it
        with pytest.raises(StateDamaged, match="removed by another tool"):
            lake.merge()
        world.insert(30 + _)
        go_on(world)
    assert lake.rows() == kept


def test_a_rebuild_that_starts_by_itself_is_refused(world: ChangesWorld, lake: Lake) -> None:
    lake.merged()
    kept = lake.rows()
    theirs(world).delete("_operation > 0")
    world.insert(20)
    go_on(world)
    forget_the_log(world)
    with pytest.raises(StateDamaged, match="removed by another tool"):
        lake.merge()
    assert lake.rows() == kept
    shutil.rmtree(lake.silver)
    with pytest.raises(StateDamaged, match="removed by another tool"):
        lake.merge()


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
@pytest.mark.parametrize("files", [0, 1])
def test_a_commit_of_ours_that_was_decided_before_a_removal_is_a_conflict(
    world: ChangesWorld, remove: Callable[[DeltaTable], object], files: int
) -> None:
    """So none of ours stands above a removal that it has not seen; what is decided again records it."""
    late = opened(world)
    Path(world.table.bronze, "a.parquet").write_bytes(b"")
    added = [AddAction("a.parquet", 0, {}, 0, True, '{"numRecords": 0}')] * files
    remove(theirs(world))
    with pytest.raises(CommitFailedError):
        late.commit(added, transactions=[], event="changes", user_metadata={})
    late.reload().commit([], transactions=[], event="changes", user_metadata={})
    assert opened(world).thinned is not None


def test_a_thinned_bronze_that_an_earlier_package_went_over_is_not_merged_from(
    world: ChangesWorld, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is on record then; the versions that silver has not merged still tell."""
    lake.merged()
    theirs(world).delete("_operation > 0")
    with monkeypatch.context() as earlier:
        earlier.setattr("airflow_provider_mssql_cdc.lake.bronze.noticed", lambda *_, **__: None)
        world.insert(20)
        go_on(world)
    assert opened(world).thinned is None
    with pytest.raises(StateDamaged, match=r"\(DELETE\)"):
        lake.merge()


def test_a_resnapshot_mends_it(world: ChangesWorld, lake: Lake) -> None:
    lake.merged()
    theirs(world).delete("_operation > 0")
    world.tick()
    world.bootstrap(resnapshot=True, run_id="again")
    go_on(world)
    assert lake.merged().consistency.passed
    assert lake.rows() == world.source()
    world.execute("DELETE FROM dbo.orders WHERE id = 4")
    go_on(world)
    assert lake.merged().counts.deleted == 1
    assert lake.rows() == world.source()


def test_a_resnapshot_waits_for_an_lsn_above_all_that_was_removed(world: ChangesWorld) -> None:
    theirs(world).delete("_operation > 0")
    thinned = opened(world).thinned
    assert thinned is not None
    assert thinned.position.text == world.position()
    with pytest.raises(NotReadyYet):
        world.bootstrap(resnapshot=True, run_id="again")  # capture stands where changes do
    world.tick()
    snapshot = world.bootstrap(resnapshot=True, run_id="again").snapshot
    assert snapshot > thinned.position


def test_what_is_removed_after_the_resnapshot_counts_anew(world: ChangesWorld, lake: Lake) -> None:
    """Even rows of the older snapshot, which silver would not need: what a predicate takes is not known."""
    theirs(world).delete("_operation > 0")
    world.tick()
    world.bootstrap(resnapshot=True, run_id="again")
    lake.merged()
    go_on(world)
    stale = world.bronze("_operation = 0")[0]["_snapshot"]
    theirs(world).delete(f"_operation = 0 AND _snapshot <= '{stale}'")
    with pytest.raises(StateDamaged, match="removed by another tool"):
        lake.merge()


def test_a_restore_to_the_version_before_undoes_it(world: ChangesWorld, lake: Lake) -> None:
    before = theirs(world).version()
    theirs(world).delete("_operation > 0")
    with pytest.raises(StateDamaged):
        lake.merge()
    theirs(world).restore(before)
    assert opened(world).thinned is None
    assert lake.merged().consistency.passed
    assert lake.rows() == world.source()
    world.insert(20)
    go_on(world)
    lake.merged()
    assert lake.rows() == world.source()


def test_a_restore_to_the_thinned_version_does_not_undo_it(world: ChangesWorld, lake: Lake) -> None:
    theirs(world).delete("_operation > 0")
    thinned = theirs(world).version()
    theirs(world).alter.set_table_properties({"note": "1"}, raise_if_not_exists=False)
    theirs(world).restore(thinned)
    with pytest.raises(StateDamaged, match=f"in version {thinned} "):
        lake.merge()


def test_optimize_properties_and_our_own_repairs_are_no_removals(world: ChangesWorld, lake: Lake) -> None:
    start = world.server.clock.utc()
    world.insert(20)
    end = world.tick()
    go_on(world)
    theirs(world).optimize.compact()
    theirs(world).optimize.z_order(["id"])
    theirs(world).vacuum(0, enforce_retention_duration=False, dry_run=False)
    theirs(world).alter.set_table_properties({"note": "1"}, raise_if_not_exists=False)
    assert opened(world).thinned is None
    lake.merged()
    world.interval(start, end)
    assert opened(world).thinned is None
    assert theirs(world).transaction_version("mssql_cdc#thinned.hi") is None
    go_on(world)
    lake.merged()
    assert lake.rows() == world.source()


def test_changes_go_on_and_warn_once_a_run(world: ChangesWorld, caplog: pytest.LogCaptureFixture) -> None:
    theirs(world).delete("_operation > 0")
    for number in range(2):
        world.insert(20 + number)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            go_on(world)
        said = [record.message for record in caplog.records if "removed by another tool" in record.message]
        assert len(said) == 1, said
    assert len(world.bronze("id >= 20")) == 2


def test_a_bronze_whose_newest_commit_is_ours_is_opened_without_reading_the_log_anew(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: TableStorage, name: str) -> object:
        raise AssertionError(f"{name} is read")

    monkeypatch.setattr(TableStorage, "open", read)
    assert opened(world).thinned is None


def test_rows_of_an_abandoned_snapshot_that_we_delete_are_no_removal_by_another_tool(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(40)])
    server.enable_cdc("dbo.orders")
    load = ChunkedLoad(server, tmp_path, instance="dbo_orders")
    load.all()
    server.execute("INSERT INTO dbo.orders VALUES (900, N'moves capture')")
    waves = load.planned(chunk_rows=20, resnapshot=True)
    load.chunk(waves[0])
    assert load.abandon(rows=True).rows == 20
    bronze = open_existing(TableLocation.bronze_of(load.table))
    assert bronze.thinned is None
    load.changes()
    assert bronze.reload().thinned is None
