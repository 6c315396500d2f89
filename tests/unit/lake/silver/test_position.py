"""What silver was built from: when it is built again, who wins, what another's table or a lost log means."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable, SchemaDrift, StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import add_columns, open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.changes import StagedWindow
from airflow_provider_mssql_cdc.lake.log import LogForgotten
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.silver.merge import SilverMoved, files_since
from airflow_provider_mssql_cdc.lake.silver.table import create_silver, open_silver, refuse_foreign
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import COLUMNS, IDENTITY, Row, World, change, lsn, snapshot_row


def at(key: int, value: str = "x") -> Row:
    return {"id": key, "v": value}


def loaded(number: int, ids: range, value: str = "x") -> list[Row]:
    return [snapshot_row(number, at(key, value)) for key in ids]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.snapshot(10, loaded(10, range(6)))
    world.merge()
    return world


def test_a_newer_snapshot_replaces_every_row_in_one_commit(world: World) -> None:
    world.changes([change(11, 2, at(50)), change(25, 2, at(60)), change(26, 1, at(21))])
    world.snapshot(20, loaded(20, range(20, 24)))
    before = world.silver.version
    merged = world.merge()
    assert merged.rebuilt
    assert merged.version == before + 1
    assert sorted(world.values()) == [20, 22, 23, 60]
    world.check()


def test_an_older_snapshots_rows_stay_out(world: World) -> None:
    world.snapshot(20, loaded(20, range(3), "newer"))
    world.merge()
    assert set(world.values().values()) == {"newer"}
    world.check()


def test_a_rebuild_does_not_take_changes_of_before_its_snapshot(world: World) -> None:
    """After a gap coverage begins at the newer snapshot; what bronze knows of before it is older."""
    world.changes([change(12, 4, at(2, "before the gap"))])
    world.snapshot(20, loaded(20, range(3), "newer"), base=20)
    world.merge()
    assert world.values() == dict.fromkeys(range(3), "newer")
    world.check()


def test_an_empty_snapshot_gives_an_empty_silver_that_fills(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, [])
    assert world.merge().rows == 0
    world.changes([change(11, 2, at(1))])
    assert world.merge().rows == 1
    world.check()


class _Asked(Exception):
    pass


def _ask() -> None:
    raise _Asked


def test_a_rebuild_that_would_empty_a_filled_silver_asks_the_source_first(world: World) -> None:
    world.snapshot(20, [], base=20)
    with pytest.raises(_Asked):
        world.merge(confirm_empty=_ask)
    assert len(world.values()) == 6
    assert world.merge().rows == 0
    assert world.values() == {}


def test_a_silver_whose_log_tells_no_row_counts_is_not_taken_for_empty(world: World) -> None:
    """As a writer without statistics leaves it."""
    table = DeltaTable(world.silver_at.uri)
    (name,) = [Path(uri).name for uri in table.file_uris()]
    size = Path(world.silver_at.uri, name).stat().st_size
    copied = f"copy-{name}"
    shutil.copy(Path(world.silver_at.uri, name), Path(world.silver_at.uri, copied))
    without_statistics = AddAction(copied, size, {}, 0, False, "{}")
    table.create_write_transaction(
        [RemoveAction(name, False, 0), without_statistics], mode="append", schema=table.schema()
    )
    world.changes([], until=12)
    assert world.merge().rows == 6
    world.snapshot(20, [], base=20)
    with pytest.raises(_Asked):
        world.merge(confirm_empty=_ask)


def test_what_leaves_rows_or_was_empty_is_not_asked_for(world: World, tmp_path: Path) -> None:
    world.snapshot(20, loaded(20, range(1)))
    assert world.merge(confirm_empty=_ask).rows == 1
    empty = World(tmp_path / "empty")
    empty.snapshot(10, [])
    assert empty.merge(confirm_empty=_ask).rows == 0


# what happens to silver after a merge has read its position and before it commits; does the merge go through?
MEANWHILE: dict[str, tuple[Callable[[World], object], bool]] = {
    "nothing": (lambda world: None, True),
    "an OPTIMIZE of silver": (lambda world: world.optimize(world.silver_at), True),
    "a property of silver": (
        lambda world: DeltaTable(world.silver_at.uri).alter.set_table_properties(
            {"delta.logRetentionDuration": "interval 60 days"}
        ),
        True,
    ),
    "the same merge by another": (lambda world: world.merge(), False),
    "another's merge of more": (
        lambda world: (world.changes([change(13, 1, at(3))]), world.merge()),
        False,
    ),
    "a rebuild by another": (
        lambda world: (world.snapshot(20, loaded(20, range(2))), world.merge()),
        False,
    ),
}


@pytest.mark.parametrize(("meanwhile", "through"), MEANWHILE.values(), ids=MEANWHILE)
def test_of_two_merges_one_wins_and_nothing_is_doubled(
    world: World, meanwhile: Callable[[World], object], through: bool
) -> None:
    world.changes([change(11, 2, at(8))])
    world.merge()
    world.changes([change(12, 2, at(9)), change(12, 1, at(1), seq=2)])
    silver, bronze = world.silver, world.bronze
    meanwhile(world)
    if through:
        world.merge_with(silver, bronze)
    else:
        with pytest.raises(SilverMoved):
            world.merge_with(silver, bronze)
    world.merge()
    world.check()
    files = {Path(uri).name for uri in DeltaTable(world.silver_at.uri).file_uris()}
    left = {path.name for path in Path(world.silver_at.uri).glob("silver-*.parquet")}
    tombstoned = set(DeltaTable(world.silver_at.uri).vacuum(0, enforce_retention_duration=False))
    assert left - tombstoned == {name for name in files if name.startswith("silver-")}


def test_a_merge_that_was_thought_dead_and_knows_an_older_bronze_gives_way(world: World) -> None:
    world.changes([change(11, 2, at(9))])
    silver, bronze = world.silver, world.bronze
    world.changes([change(12, 1, at(9))])
    world.merge()
    with pytest.raises(SilverMoved):
        world.merge_with(silver, bronze)
    assert 9 not in world.values()


def test_two_rebuilds_at_once_leave_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, loaded(10, range(4)))
    first = create_silver(world.silver_at, world.bronze, key=("id",))
    second = create_silver(world.silver_at, world.bronze, key=("id",))
    world.merge_with(first, world.bronze)
    with pytest.raises(SilverMoved):
        world.merge_with(second, world.bronze)
    assert len(delta_rows(world.silver_at.uri)) == 4


def test_optimize_of_bronze_names_no_key(world: World) -> None:
    world.changes([change(11, 4, at(1, "new"))])
    world.merge()
    world.optimize(world.bronze_at)
    merged = world.merge()
    assert merged.counts.changed_keys == 0
    assert merged.position.version == world.bronze.version


@pytest.mark.parametrize("vacuumed", [False, True])
def test_rows_that_were_optimized_before_they_were_merged_are_merged(world: World, vacuumed: bool) -> None:
    world.changes([change(11, 4, at(1, "new"))])
    world.optimize(world.bronze_at)
    world.changes([change(12, 1, at(2))])
    if vacuumed:
        DeltaTable(world.bronze_at.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)
    merged = world.merge()
    assert merged.rebuilt is None
    assert merged.counts.changed_keys == 2
    world.check()


def test_rows_that_a_repair_put_in_anew_are_read_where_they_are_now(world: World) -> None:
    world.changes([change(11, 4, at(1, "wrong")), change(12, 4, at(2, "kept"))])
    world.merge()
    (file,) = [uri for uri in _files(world) if _holds(world, uri, "wrong")]
    repaired = [change(11, 4, at(1, "right"), batch=2), change(12, 4, at(2, "kept"))]
    world.append_table(world.table(repaired), removed=[RemoveAction(file, True, 0)])
    world.optimize(world.bronze_at)
    world.merge()
    assert world.values() | {1: "right", 2: "kept"} == world.values()
    world.check()


def _replace(world: World, holding: str, rows: list[Row]) -> None:
    """What a repair does: the file with this value is removed, and other rows come."""
    (file,) = [name for name in _files(world) if _holds(world, name, holding)]
    world.append_table(world.table(rows), removed=[RemoveAction(file, True, 0)])


OPEN = [change(11, 2, at(9, "new"), seq=1, batch=2), change(11, 1, at(9, "new"), seq=2, batch=2)]


@pytest.mark.parametrize(
    ("repaired", "left"),
    [
        (OPEN, None),
        ([*OPEN, change(12, 2, at(9, "later"), batch=2)], "later"),
        ([change(11, 2, at(8, "other"), batch=2)], None),
        ([], None),
    ],
    ids=["the key is left open", "a later commit decides", "another key", "nothing"],
)
def test_a_key_that_rows_named_which_a_repair_took_out_is_looked_at_again(
    world: World, repaired: list[Row], left: str | None
) -> None:
    world.changes([change(11, 2, at(9, "wrong"))])
    world.merge()
    assert world.values()[9] == "wrong"
    _replace(world, "wrong", repaired)
    world.merge()
    assert world.values().get(9) == left
    world.check()


def test_a_repair_carries_what_shares_a_file_without_statistics(world: World) -> None:
    """Rows of the snapshot are in the file as well."""
    world.changes([change(11, 4, at(1, "wrong"))])
    world.optimize(world.bronze_at)
    table = DeltaTable(world.bronze_at.uri)
    (name,) = _files(world)
    shutil.copy(Path(world.bronze_at.uri, name), Path(world.bronze_at.uri, f"copy-{name}"))
    size = Path(world.bronze_at.uri, name).stat().st_size
    actions = [RemoveAction(name, False, 0), AddAction(f"copy-{name}", size, {}, 0, False, "{}")]
    table.create_write_transaction(actions, mode="append", schema=table.schema())
    bronze = world.bronze
    replaced = replace_changes(
        bronze,
        StagedWindow(Window(lsn(10), lsn(11)), [], 1),
        identity=IDENTITY,
        prefix="repair",
        position=lsn(11),
    )
    assert (replaced.replaced, replaced.carried) == (1, 6)
    assert sorted(row["_operation"] for row in delta_rows(world.bronze_at.uri)) == [0] * 6


def test_where_a_file_that_was_taken_out_is_gone_silver_is_built_again(world: World) -> None:
    world.changes([change(11, 2, at(9, "wrong"))])
    world.merge()
    _replace(world, "wrong", [change(12, 4, at(1, "new"), batch=2)])
    DeltaTable(world.bronze_at.uri).vacuum(0, enforce_retention_duration=False, dry_run=False)
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "whose rows were taken out, is gone" in merged.rebuilt
    world.check()


def _files(world: World) -> list[str]:
    return [Path(uri).name for uri in DeltaTable(world.bronze_at.uri).file_uris()]


def _holds(world: World, name: str, value: str) -> bool:
    rows = pq.read_table(Path(world.bronze_at.uri) / name, columns=["v"])
    return value in rows.column("v").to_pylist()


def test_rows_that_were_taken_out_again_are_made_good_by_a_rebuild(world: World) -> None:
    """They name a key of which no change is left: only the snapshot knows it."""
    world.changes([change(11, 4, at(1, "withdrawn"))])
    world.optimize(world.bronze_at)
    (optimized,) = _files(world)
    rows = world.table(loaded(10, range(6)))
    world.append_table(rows, removed=[RemoveAction(optimized, True, 0)])
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "taken out again" in merged.rebuilt
    assert world.values()[1] == "x"
    world.check()


def test_a_version_that_the_log_no_longer_holds_is_made_good_by_a_rebuild_that_says_so(world: World) -> None:
    world.changes([change(11, 4, at(1, "new"))])
    world.changes([change(12, 1, at(2))])
    gone = Path(world.bronze_at.uri, "_delta_log", f"{world.bronze.version - 1:020d}.json")
    DeltaTable(world.bronze_at.uri).create_checkpoint()
    gone.unlink()
    with pytest.raises(LogForgotten, match="no longer holds version"):
        files_since(world.bronze, world.bronze.version - 2)
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "no longer holds version" in merged.rebuilt
    world.check()


def test_a_file_that_brought_rows_and_is_gone_is_made_good_by_a_rebuild(world: World) -> None:
    world.changes([change(11, 4, at(1, "new"))])
    since = world.bronze.version - 1
    (added,) = files_since(world.bronze, since).added
    world.optimize(world.bronze_at)
    Path(world.bronze_at.uri, added).unlink()
    for name in _files(world):
        assert files_since(world.bronze, since).added == (name,)


def test_a_bronze_that_was_made_anew_at_the_same_place_is_noticed(world: World) -> None:
    for number in range(11, 15):
        world.changes([change(number, 2, at(number * 10))])
    world.merge()
    shutil.rmtree(world.bronze_at.uri)
    open_or_create(world.bronze_at, IDENTITY, COLUMNS)
    world.snapshot(10, loaded(10, range(2)))
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "another bronze table" in merged.rebuilt
    assert sorted(world.values()) == [0, 1]


def test_a_restore_that_took_silvers_rows_back_is_noticed(world: World) -> None:
    before = world.silver.version
    world.changes([change(11, 2, at(9))])
    world.merge()
    DeltaTable(world.silver_at.uri).restore(before)
    assert 9 not in world.values()
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "RESTORE" in merged.rebuilt
    world.check()


def test_silver_takes_on_a_column_that_bronze_was_given(world: World) -> None:
    add_columns(world.bronze, [LakeColumn("note", "note", "string", "[note] nvarchar(20)")])
    world.changes([change(11, 2, {**at(9), "note": "with a note"})])
    world.merge()
    assert {row["id"]: row["note"] for row in world.rows().values()} == {
        **dict.fromkeys(range(6)),
        9: "with a note",
    }
    comment = next(field for field in DeltaTable(world.silver_at.uri).schema().fields if field.name == "note")
    assert comment.metadata["comment"] == "[note] nvarchar(20)"
    world.check()


def test_a_column_of_another_type_stops_with_the_way_out(world: World, tmp_path: Path) -> None:
    other = (COLUMNS[0], LakeColumn("v", "v", "int64", "[v] bigint"))
    bronze = open_or_create(TableLocation(str(tmp_path / "other")), IDENTITY, other)
    with pytest.raises(SchemaDrift, match="v is string and int64 in bronze"):
        world.silver.take_on_columns(bronze)


def test_a_silver_of_another_source_is_refused(world: World, tmp_path: Path) -> None:
    theirs = SourceIdentity("erp", "sales", "dbo", "customers")
    bronze = open_or_create(TableLocation(str(tmp_path / "theirs")), theirs, COLUMNS)
    with pytest.raises(ForeignTable, match="customers"):
        refuse_foreign(world.silver, bronze)


def test_a_bronze_table_is_no_silver(world: World) -> None:
    with pytest.raises(ForeignTable, match="is a bronze table"):
        open_silver(world.bronze_at)


def test_a_silver_table_is_no_bronze(world: World) -> None:
    with pytest.raises(StateDamaged):
        open_existing(world.silver_at)


def test_a_table_that_is_not_ours_is_no_silver(world: World, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "foreign"), pa.table({"id": [1]}))
    with pytest.raises(ForeignTable):
        open_silver(TableLocation(str(tmp_path / "foreign")))


def test_a_silver_that_would_forget_its_position_is_refused(world: World) -> None:
    DeltaTable(world.silver_at.uri).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 7 days"}
    )
    with pytest.raises(ConfigurationError, match="setTransactionRetentionDuration"):
        open_silver(world.silver_at)


def test_a_silver_with_deletion_vectors_is_refused(world: World) -> None:
    DeltaTable(world.silver_at.uri).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with pytest.raises(ConfigurationError, match="deletion vectors"):
        open_silver(world.silver_at)


def test_half_a_position_is_damage(world: World, tmp_path: Path) -> None:
    silver = create_silver(TableLocation(str(tmp_path / "half")), world.bronze, key=("id",))
    properties = CommitProperties(app_transactions=[Transaction("mssql_cdc#silver.version", 3)])
    silver.table.create_write_transaction(
        [], mode="append", schema=silver.table.schema(), commit_properties=properties
    )
    with pytest.raises(StateDamaged, match="in part only"):
        silver.reload()
