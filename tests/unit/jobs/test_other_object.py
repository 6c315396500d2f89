"""Another table has the source's name now: renamed, transferred, or dropped and created again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ForeignTable
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import SOURCE_OBJECT
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows
from tests.support.renames import rename

COLUMNS = "(id bigint NOT NULL PRIMARY KEY, name nvarchar(40) NULL)"


class World:
    """``dbo.orders`` with CDC, ids 0 to 9, and a lake that it is loaded into."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, driver: DriverName) -> None:
        self.server, self.folder, self.driver = server, folder, driver
        server.execute("CREATE SCHEMA archive")
        server.execute("CREATE SCHEMA staging")
        server.execute(f"CREATE TABLE dbo.orders {COLUMNS}")
        self.fill("dbo.orders", *range(10))
        server.enable_cdc("dbo.orders")
        server.execute(f"CREATE TABLE dbo.orders_next {COLUMNS}")
        self.fill("dbo.orders_next", *range(4, 14))
        server.enable_cdc("dbo.orders_next")

    def fill(self, table: str, *ids: int) -> None:
        self.server.executemany(
            f"INSERT INTO {table} VALUES (?, ?)", [(number, f"{table} {number}") for number in ids]
        )

    def load(self, instance: str = "dbo_orders", run_id: str = "first") -> ChunkedLoad:
        return ChunkedLoad(self.server, self.folder, instance=instance, driver=self.driver, run_id=run_id)

    def merged(self, instance: str) -> MergedSilver:
        load = self.load(instance)
        order = MergeOrder(load.table, silver=self.silver, attempt=Attempt("dag", "run", "merge"))
        merged = merge_silver(order, connect=load.connect)
        assert isinstance(merged, MergedSilver), merged
        return merged

    @property
    def silver(self) -> str:
        return str(self.folder / "silver")

    @property
    def state(self) -> BronzeState:
        return open_existing(TableLocation(str(self.folder / "bronze"))).state

    def object_id(self) -> int:
        return int(self.server.execute("SELECT OBJECT_ID('dbo.orders')")[0][0])

    def source(self) -> list[tuple[Any, ...]]:
        return sorted(self.server.execute("SELECT id, name FROM dbo.orders"))

    def silver_rows(self) -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["name"]) for row in delta_rows(self.silver))


def by_rename(world: World) -> str:
    world.server.execute(f"CREATE TABLE dbo.orders_new {COLUMNS}")
    world.fill("dbo.orders_new", *range(5, 12))
    world.server.enable_cdc("dbo.orders_new", capture_instance="dbo_orders_v2")
    rename(world.server, "dbo.orders", "dbo.orders_old")
    rename(world.server, "dbo.orders_new", "dbo.orders")
    return "dbo_orders_v2"


def by_a_table_that_was_tracked_all_along(world: World) -> str:
    """No gap tells it: its instance keeps what follows the position."""
    rename(world.server, "dbo.orders", "dbo.orders_old")
    rename(world.server, "dbo.orders_next", "dbo.orders")
    return "dbo_orders_next"


def by_transfer(world: World) -> str:
    world.server.execute(f"CREATE TABLE staging.orders {COLUMNS}")
    world.fill("staging.orders", 3, 11)
    world.server.enable_cdc("staging.orders")
    rename(world.server, "dbo.orders", "archive.orders")
    rename(world.server, "staging.orders", "dbo.orders")
    return "staging_orders"


def by_drop(world: World) -> str:
    world.server.execute("DROP TABLE dbo.orders")
    world.server.execute(f"CREATE TABLE dbo.orders {COLUMNS}")
    world.fill("dbo.orders", 1, 20)
    world.server.enable_cdc("dbo.orders")
    return "dbo_orders"


def by_a_successor(world: World) -> str:
    by_rename(world)
    world.server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v3")
    return "dbo_orders_v3"


WAYS = (by_rename, by_a_table_that_was_tracked_all_along, by_transfer, by_drop, by_a_successor)


@pytest.fixture(params=("mssql-python", "pymssql"))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(datetime(2026, 5, 11, 9, 30, tzinfo=UTC))
        yield World(server, tmp_path, request.param)


def refused(world: World, call: Callable[[], object], *, loaded: int) -> None:
    before = DeltaTable(str(world.folder / "bronze")).version()
    with pytest.raises(ForeignTable, match=r"mssql_cdc_bootstrap\(resnapshot=True\)") as caught:
        call()
    assert f"must have object id {loaded}," in str(caught.value)
    assert f"got {world.object_id()}:" in str(caught.value)
    assert caught.value.retryable is False
    assert DeltaTable(str(world.folder / "bronze")).version() == before


@pytest.mark.parametrize("way", WAYS)
def test_changes_and_snapshots_of_another_table_of_the_same_name_are_refused(
    world: World, way: Callable[[World], str]
) -> None:
    first = world.load()
    first.all()
    world.fill("dbo.orders", 10)
    first.changes()
    loaded = world.object_id()
    assert world.state.source_object == loaded
    load = world.load(way(world), "second")
    world.fill("dbo.orders", 30)
    refused(world, load.changes, loaded=loaded)
    refused(world, load.plan, loaded=loaded)
    refused(world, load.planned, loaded=loaded)


def test_waves_and_their_completion_of_another_table_are_refused(world: World) -> None:
    first = world.load()
    waves = first.planned(chunk_rows=5)
    outcomes = [first.chunk(wave) for wave in waves]
    loaded = world.object_id()
    load = world.load(by_rename(world), "second")
    refused(world, lambda: load.finish(outcomes), loaded=loaded)


def test_a_wave_of_another_table_reads_nothing(world: World) -> None:
    first = world.load()
    waves = first.planned(chunk_rows=5)
    first.chunk(waves[0])
    loaded = world.object_id()
    load = world.load(by_transfer(world), "second")
    reads = len(world.server.faults.log())
    refused(world, lambda: load.chunk(waves[1]), loaded=loaded)
    assert not [each for each in world.server.faults.log()[reads:] if "FROM [dbo].[orders]" in each.sql]
    refused(world, load.planned, loaded=loaded)


def test_a_range_and_its_completion_of_another_table_are_refused(world: World) -> None:
    first = world.load()
    ranges = first.plan(rows_per_range=5)
    outcomes = [first.read(planned) for planned in ranges]
    request = ChangesRequest(first.table, first.attempt("changes"), start_now=True)
    run_changes(request, connect=first.connect)
    loaded = world.object_id()
    load = world.load(by_rename(world), "second")
    refused(world, lambda: load.read(ranges[0]), loaded=loaded)
    refused(world, lambda: load.complete(outcomes), loaded=loaded)


@pytest.mark.parametrize("resnapshot", [False, True], ids=["first", "resnapshot"])
def test_a_plan_of_one_table_is_not_read_from_the_next(world: World, *, resnapshot: bool) -> None:
    """Also where bronze does not know any table yet, and where a resnapshot may change it."""
    first = world.load()
    if resnapshot:
        first.all()
        world.fill("dbo.orders", 10)
        first.run_id = "again"
    ranges = first.plan(rows_per_range=5, resnapshot=resnapshot)
    outcomes = [first.read(planned) for planned in ranges]
    loaded = world.object_id()
    load = world.load(by_a_table_that_was_tracked_all_along(world), "again")
    for call in (lambda: load.read(ranges[0]), lambda: load.complete(outcomes)):
        with pytest.raises(ForeignTable, match="clear the plan task") as caught:
            call()
        assert f"must have object id {loaded}, which the plan was made for" in str(caught.value)
    assert load.all(rows_per_range=5, resnapshot=resnapshot).rows == 10


@pytest.mark.parametrize(
    ("chunked", "world"),
    [(False, "mssql-python"), (True, "pymssql")],  # the drivers take turns
    ids=["whole", "chunked"],
    indirect=["world"],
)
@pytest.mark.parametrize("way", WAYS)
def test_a_resnapshot_goes_on_with_the_new_table_and_no_row_of_the_old_one_stays(
    world: World, way: Callable[[World], str], *, chunked: bool
) -> None:
    first = world.load()
    first.all()
    world.fill("dbo.orders", 10)
    first.changes()
    world.merged("dbo_orders")
    world.fill("dbo.orders", 11, 12)  # recorded, and read by nobody
    instance = way(world)
    load = world.load(instance, "second")
    done = load.load(resnapshot=True) if chunked else load.all(resnapshot=True)
    assert (world.state.snapshot, world.state.source_object) == (done.snapshot, world.object_id())
    assert world.state.coverage is not None
    assert world.state.coverage.base == done.snapshot
    world.fill("dbo.orders", 40)
    world.server.execute("DELETE FROM dbo.orders WHERE id = 11")
    world.server.execute("UPDATE dbo.orders SET name = 'changed' WHERE id IN (1, 3, 6)")
    load.changes()
    world.merged(instance)
    assert world.silver_rows() == world.source()


def test_a_chunked_load_that_was_open_is_given_up_for_the_new_table(world: World) -> None:
    first = world.load()
    waves = first.planned(chunk_rows=5)
    first.chunk(waves[0])
    world.fill("dbo.orders", 10)
    instance = by_rename(world)
    load = world.load(instance, "second")
    opened = load.planned(resnapshot=True, chunk_rows=5)
    assert opened[0].snapshot > waves[0].snapshot
    again = load.planned(resnapshot=True, chunk_rows=5)
    assert [wave.snapshot for wave in again] == [wave.snapshot for wave in opened]
    load.finish([load.chunk(wave) for wave in again])
    load.changes()
    world.merged(instance)
    assert world.silver_rows() == world.source()


def test_a_table_that_was_renamed_and_got_its_name_back_is_gone_on_with(world: World) -> None:
    load = world.load()
    load.all()
    rename(world.server, "dbo.orders", "archive.old")
    world.fill("archive.old", 10)
    rename(world.server, "archive.old", "dbo.orders")
    world.fill("dbo.orders", 11)
    load.changes()
    world.merged("dbo_orders")
    assert world.silver_rows() == world.source()


def forget_object(world: World) -> None:
    """Bronze as versions before left it: no commit says from which table it was loaded."""
    for file in (world.folder / "bronze" / "_delta_log").glob("*.json"):
        lines = [line for line in file.read_text().splitlines() if line]
        kept = [line for line in lines if json.loads(line).get("txn", {}).get("appId") != SOURCE_OBJECT]
        file.write_text("".join(f"{line}\n" for line in kept))
    assert world.state.source_object is None


def test_a_bronze_of_a_version_before_takes_the_table_over_with_its_next_commit(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    load = world.load()
    load.all()
    forget_object(world)
    with caplog.at_level(logging.INFO):
        world.fill("dbo.orders", 10)
        load.changes()
    assert world.state.source_object == world.object_id()
    assert f"object id is recorded with this commit: {world.object_id()} (none was recorded)" in caplog.text
    loaded = world.object_id()
    refused(world, world.load(by_rename(world), "second").changes, loaded=loaded)
