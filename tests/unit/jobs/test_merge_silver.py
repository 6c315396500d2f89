"""The merge job: when it asks the source, what it refuses, what it waits for, what it reports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable, StateDamaged, UnsupportedKey
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.plan import Attempt
from tests.support.changes_world import ChangesWorld
from tests.support.delta_rows import delta_rows


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    """``dbo.orders`` with ids 0 to 29, older than its CDC."""
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(30))
        server.enable_cdc("dbo.orders")
        yield world


class Lake:
    """The merges of one table."""

    def __init__(self, world: ChangesWorld, table: MssqlCdcTable | None = None) -> None:
        self.world, self.table = world, table or world.table
        self.silver = str(Path(world.table.bronze).parent.parent / "silver" / world.name)
        self.asked = 0

    def connect(self) -> Any:
        self.asked += 1
        return self.world.session()

    def order(self, **asked: Any) -> MergeOrder:
        given: dict[str, Any] = {"silver": self.silver, "attempt": Attempt("dag", "run", "merge")}
        return MergeOrder(self.table, **(given | asked))

    def merge(self, **asked: Any) -> Any:
        return merge_silver(self.order(**asked), connect=self.connect)

    def merged(self, **asked: Any) -> MergedSilver:
        merged = self.merge(**asked)
        assert isinstance(merged, MergedSilver), merged
        return merged

    def rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        columns = "id, name, amount"
        return {(row["id"],): row for row in delta_rows(self.silver, columns=columns)}

    def facts(self) -> list[dict[str, Any]]:
        return delta_rows(self.table.facts, "event = 'merge'")


@pytest.fixture
def lake(world: ChangesWorld) -> Lake:
    return Lake(world)


def test_silver_is_the_source_once_changes_have_passed_the_horizon(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    world.execute("UPDATE dbo.orders SET id = id + 1000 WHERE id % 7 = 0")
    world.execute("DELETE FROM dbo.orders WHERE id = 1")
    world.insert(50, 51)
    world.changes()
    first = lake.merged()
    # Whether a second has passed since the read is up to the machine.
    assert first.consistency.passed or "have not passed" in first.consistency.reason
    world.tick()
    world.changes(quiet_seconds=0)
    second = lake.merged()
    assert second.consistency.passed
    assert lake.rows() == world.source()
    assert second.rows == len(world.source())


def test_the_source_is_asked_when_silver_is_built_and_not_again(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    lake.merged()
    assert lake.asked == 1
    for number in range(3):
        world.insert(100 + number)
        world.changes()
        assert lake.merged().counts.inserted == 1
    lake.merged()
    assert lake.asked == 1


def test_a_resnapshot_is_built_from_and_what_it_found_gone_is_gone(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    lake.merged()
    world.execute("DELETE FROM dbo.orders WHERE id < 10")
    world.bootstrap(resnapshot=True, run_id="again")
    merged = lake.merged()
    assert merged.rebuilt is not None
    assert "bronze now holds" in merged.rebuilt
    world.tick()
    world.changes(quiet_seconds=0)
    assert lake.merged().consistency.passed
    assert lake.rows() == world.source()


def test_a_run_again_does_nothing_and_says_the_same(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    first = lake.merged()
    again = lake.merged()
    assert (again.version, again.rows, again.position) == (first.version, first.rows, first.position)
    assert len(lake.facts()) == 1


def test_a_handle_on_bronze_that_another_merge_has_overtaken_is_no_restored_bronze(
    world: ChangesWorld, lake: Lake
) -> None:
    world.bootstrap()
    lake.merged()
    before = open_existing(TableLocation(lake.table.bronze))
    world.insert(100)
    world.changes()
    ahead = lake.merged()
    assert ahead.position.version > before.version
    merged = merge_silver(lake.order(), connect=lake.connect, bronze=before)
    assert isinstance(merged, MergedSilver), merged
    assert (merged.rebuilt, merged.version) == (None, ahead.version)


def test_changes_that_came_after_a_handle_on_bronze_was_opened_are_merged(
    world: ChangesWorld, lake: Lake
) -> None:
    world.bootstrap()
    lake.merged()
    world.insert(100)
    world.changes()
    before = open_existing(TableLocation(lake.table.bronze))
    world.insert(101)
    world.changes()
    merged = merge_silver(lake.order(), connect=lake.connect, bronze=before)
    assert isinstance(merged, MergedSilver), merged
    assert merged.counts.inserted == 2


def test_without_bronze_or_snapshot_silver_is_left_alone(world: ChangesWorld, lake: Lake) -> None:
    skipped = lake.merge()
    assert isinstance(skipped, Skipped)
    assert "no bronze table" in skipped.reason
    world.changes(start_now=True)
    skipped = lake.merge()
    assert isinstance(skipped, Skipped)
    assert "run mssql_cdc_bootstrap" in skipped.reason
    assert isinstance(lake.merge(wait_consistent=True), Waiting)
    assert not Path(lake.silver).exists()


def test_it_waits_for_the_horizon_and_leaves_silver_as_it_is(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    awaited = lake.merge(wait_consistent=True)
    assert isinstance(awaited, Waiting)
    assert "have not passed" in awaited.reason
    assert not Path(lake.silver).exists()
    world.tick()
    world.changes(quiet_seconds=0)
    assert lake.merged(wait_consistent=True).consistency.passed


def test_a_table_without_a_key_stays_in_bronze(world: ChangesWorld, tmp_path: Path) -> None:
    world.execute("CREATE TABLE dbo.heap (id int NOT NULL, name nvarchar(40) NULL, amount int NULL)")
    world.execute("INSERT INTO dbo.heap VALUES (1, 'a', 1), (1, 'b', 1)")
    world.server.enable_cdc("dbo.heap")
    heap = MssqlCdcTable("erp", "dbo_heap", str(tmp_path / "heap"), str(tmp_path / "facts"))
    world.table = heap
    world.bootstrap()
    lake = Lake(world, heap)
    with pytest.raises(UnsupportedKey, match="silver needs a key"):
        lake.merge()
    assert not Path(lake.silver).exists()
    named = replace(heap, key=("id",))
    with pytest.raises(UnsupportedKey, match="must include the columns of an unfiltered unique index"):
        Lake(world, named).merge()
    with pytest.raises(UnsupportedKey, match="1 values for 2 rows"):
        Lake(world, replace(named, allow=("key_without_unique_index",))).merge()


def test_a_key_beside_which_no_captured_column_tells_rows_apart_is_refused_unless_allowed(
    world: ChangesWorld, tmp_path: Path
) -> None:
    world.execute(
        "CREATE TABLE dbo.parts (id int NOT NULL PRIMARY KEY, code int NOT NULL, "
        "CONSTRAINT by_code UNIQUE (code))"
    )
    world.execute("INSERT INTO dbo.parts VALUES (1, 1), (2, 2)")
    world.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'parts', @role_name = NULL, "
        "@supports_net_changes = 1, @index_name = N'by_code', @captured_column_list = N'code'"
    )
    parts = MssqlCdcTable("erp", "dbo_parts", str(tmp_path / "parts"), str(tmp_path / "facts"))
    world.table = parts
    world.bootstrap()
    lake = Lake(world, parts)
    with pytest.raises(UnsupportedKey, match=r"\(id\), which CDC does not capture"):
        lake.merge()
    allowed = Lake(world, replace(parts, allow=("key_of_indistinct_rows",)))
    allowed.silver = str(tmp_path / "silver")
    assert allowed.merged().rows == 2


def test_a_key_whose_seventh_digit_was_cut_is_refused_unless_it_is_text(
    world: ChangesWorld, tmp_path: Path
) -> None:
    world.execute("CREATE TABLE dbo.ticks (at datetime2(7) NOT NULL PRIMARY KEY, n int NULL)")
    for digit in (1, 2):
        world.execute(f"INSERT INTO dbo.ticks VALUES ('2024-01-01T00:00:00.123456{digit}', {digit})")
    world.server.enable_cdc("dbo.ticks")
    cut = MssqlCdcTable("erp", "dbo_ticks", str(tmp_path / "cut"), str(tmp_path / "facts"))
    world.table = cut
    world.bootstrap()
    lake = Lake(world, cut)
    with pytest.raises(UnsupportedKey, match="at most 6 fractional digits"):
        lake.merge()
    world.table = replace(cut, bronze=str(tmp_path / "text"), casts={"at": "varchar(34)"})
    world.bootstrap()
    lake = Lake(world, world.table)
    lake.merged()
    assert sorted(row["n"] for row in delta_rows(lake.silver)) == [1, 2]


def test_a_rebuild_that_would_empty_silver_is_refused_while_the_source_counts_rows(
    world: ChangesWorld, lake: Lake
) -> None:
    """The rows are deleted, a resnapshot finds none, and they are there again before silver is built."""
    world.bootstrap()
    lake.merged()
    world.execute("DELETE FROM dbo.orders")
    world.bootstrap(resnapshot=True, run_id="again")
    world.insert(7)
    with pytest.raises(StateDamaged, match="the source counts 1 rows"):
        lake.merge()
    assert len(lake.rows()) == 30
    world.changes()
    lake.merged()
    assert sorted(lake.rows()) == [(7,)]


def test_a_source_that_counts_none_may_empty_silver(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    lake.merged()
    world.execute("DELETE FROM dbo.orders")
    world.bootstrap(resnapshot=True, run_id="again")
    assert lake.merged().rows == 0


def test_silver_at_the_place_of_bronze_is_refused(lake: Lake, world: ChangesWorld) -> None:
    world.bootstrap()
    with pytest.raises(ConfigurationError, match="one path"):
        lake.merge(silver=world.table.bronze + "/")


def test_a_bronze_by_another_connection_is_refused(lake: Lake, world: ChangesWorld) -> None:
    world.bootstrap()
    lake.table = replace(world.table, mssql_conn_id="other")
    with pytest.raises(ForeignTable, match="names connection other"):
        lake.merge()


def test_another_key_than_silvers_is_refused(world: ChangesWorld, tmp_path: Path) -> None:
    world.execute("CREATE TABLE dbo.pairs (a int NOT NULL PRIMARY KEY, b int NOT NULL UNIQUE)")
    world.execute("INSERT INTO dbo.pairs VALUES (1, 10), (2, 20)")
    world.server.enable_cdc("dbo.pairs")
    world.table = MssqlCdcTable(
        "erp", "dbo_pairs", str(tmp_path / "bronze" / "pairs"), str(tmp_path / "facts")
    )
    world.bootstrap()
    lake = Lake(world)
    lake.merged()
    world.execute("UPDATE dbo.pairs SET b = 30 WHERE a = 1")
    lake.table = world.table = replace(world.table, key=("b",))
    world.bootstrap(resnapshot=True, run_id="again")
    with pytest.raises(ConfigurationError, match=r"is keyed on \(a\), but the configured key is \(b\)"):
        lake.merge()


def test_its_facts_row_tells_what_was_done(lake: Lake, world: ChangesWorld) -> None:
    world.server.clock.freeze()  # the changes are not past the horizon, however long the reads take
    world.bootstrap()
    lake.merged()
    world.execute("DELETE FROM dbo.orders WHERE id = 3")
    world.changes()
    lake.merged()
    built, merged = sorted(lake.facts(), key=lambda row: row["written_at"])
    assert (built["rows"], built["deletes"], merged["rows"], merged["deletes"]) == (30, 0, 29, 1)
    assert merged["target"] == lake.silver
    assert merged["end_lsn"] == world.position()
    assert '"consistent": false' in merged["detail"]
    assert '"rebuilt": "silver is empty"' in built["detail"]


def test_a_facts_row_that_the_run_did_not_live_to_write_is_written_by_the_next(
    lake: Lake, world: ChangesWorld
) -> None:
    world.bootstrap()
    first = lake.merged()
    shutil.rmtree(world.table.facts)
    again = lake.merged()
    (row,) = lake.facts()
    assert (row["rows"], row["inserts"], row["started_at"]) == (30, 0, None)
    assert again.version == first.version
    lake.merged()
    assert len(lake.facts()) == 1


LATER = datetime.now(UTC) + timedelta(days=1)
FEW: dict[str, Any] = {"min_changed_share": 0.2, "max_delay_seconds": 3600}


def test_few_changes_are_left_to_a_later_merge_until_they_are_many_or_old(
    world: ChangesWorld, lake: Lake
) -> None:
    world.bootstrap()
    lake.merged()
    world.insert(101, 102)
    world.changes()
    held, version = lake.rows(), DeltaTable(lake.silver).version()
    left = lake.merge(**FEW)
    assert isinstance(left, Skipped)
    assert "2 change row(s) wait, fewer than the 6 that min_changed_share=0.2 asks for at 30" in left.reason
    assert (lake.rows(), DeltaTable(lake.silver).version()) == (held, version)

    assert lake.merged(**FEW, started_at=LATER).counts.inserted == 2
    assert lake.rows() == world.source()

    for some in ((201, 202, 203), (204, 205, 206)):
        world.insert(*some)
        world.changes()
    assert isinstance(lake.merge(**(FEW | {"min_changed_share": 0.5})), Skipped)
    assert lake.merged(**FEW | {"min_changed_share": 0.18}).counts.inserted == 6
    assert lake.rows() == world.source()


def test_a_position_that_moves_without_rows_is_merged_at_once(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    lake.merged()
    world.tick()
    world.changes(quiet_seconds=0)
    assert lake.merged(**FEW).position.version == world.state.version


def test_neither_a_new_silver_nor_a_repair_is_left_to_a_later_merge(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    assert lake.merged(**FEW).rebuilt
    begin = world.tick(60)
    world.insert(101)
    world.tick(60)
    world.changes()
    assert isinstance(lake.merge(**FEW), Skipped)
    lake.merged()
    repaired = world.interval(begin - timedelta(seconds=30), begin + timedelta(seconds=30))
    assert isinstance(repaired, ChangesDone)
    assert repaired.event == "repair"
    assert lake.merged(**FEW).counts.updated == 1
    assert lake.rows() == world.source()


def test_a_merge_says_how_many_bytes_it_wrote(world: ChangesWorld, lake: Lake) -> None:
    world.bootstrap()
    lake.merged()
    world.insert(101)
    world.changes()
    merged = lake.merged()
    newest = max(Path(lake.silver).glob("silver-*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    assert merged.counts.files_added == 1
    assert merged.counts.bytes_added == newest.stat().st_size
    details = [json.loads(row["detail"]) for row in lake.facts()]
    assert [each["bytes_added"] for each in details if each["silver_version"] == merged.version] == [
        merged.counts.bytes_added
    ]
