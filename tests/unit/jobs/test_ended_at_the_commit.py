"""Every job that commits staged files, ended before and after its commit: nothing of the table is removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepOptions, UpkeepOrder, upkeep
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows
from tests.support.ended import Ended, ended_at

ENDS: list[tuple[Any, Callable[[], BaseException]]] = [
    ("return", Ended),
    ("return", lambda: DeltaError("the answer timed out")),
    ("return", lambda: CommitFailedError("412: the request was sent twice")),
    ("call", Ended),
    ("call", lambda: DeltaError("no answer came")),
]
IDS = ["landed-signal", "landed-timeout", "landed-conflict", "not landed-signal", "not landed-timeout"]
ENDED = (Ended, DeltaError, CommitFailedError)


class World(ChunkedLoad):
    """``dbo.orders`` with 40 rows, its bronze and its silver."""

    @property
    def silver(self) -> str:
        return str(Path(self.table.bronze).parent / "silver")

    def merge(self) -> MergedSilver:
        merged = merge_silver(
            MergeOrder(self.table, self.silver, self.attempt("merge")), connect=self.connect
        )
        assert isinstance(merged, MergedSilver), merged
        return merged

    def change(self) -> None:
        self.server.execute("UPDATE dbo.orders SET name = N'changed' WHERE id % 3 = 0")
        self.server.execute("DELETE FROM dbo.orders WHERE id = 7")
        self.server.execute("INSERT INTO dbo.orders (id, name) VALUES (500, N'new')")

    def missing(self) -> set[str]:
        """Files that the newest version of bronze or silver names and that are not there."""
        gone = set()
        for uri in filter(DeltaTable.is_deltatable, (self.table.bronze, self.silver)):
            named = {path.rpartition("/")[2] for path in DeltaTable(uri).file_uris()}
            gone |= named - {path.name for path in Path(uri).iterdir()}
        return gone

    def check(self) -> None:
        """Past the horizon silver is the source, whatever happened on the way."""
        self.changes()
        self.merge()
        rows = sorted((row["id"], row["name"]) for row in delta_rows(self.silver, columns="id, name"))
        assert rows == sorted(self.server.execute("SELECT id, name FROM dbo.orders"))
        assert not any(
            "gone" in commit.get("userMetadata", "") for commit in DeltaTable(self.silver).history()
        )


@pytest.fixture
def world(server: EmbeddedSqlServer, tmp_path: Path) -> World:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(40)])
    server.enable_cdc("dbo.orders")
    return World(server, tmp_path, instance="dbo_orders")


def completing(world: World) -> Callable[[], object]:
    staged = [world.read(item) for item in world.plan(rows_per_range=20)]
    return lambda: world.complete(staged)


def bringing_a_wave(world: World) -> Callable[[], object]:
    waves = world.planned(chunk_rows=20)
    return lambda: world.finish([world.chunk(wave) for wave in waves])


def completing_waves(world: World) -> Callable[[], object]:
    brought = [world.chunk(wave) for wave in world.planned(chunk_rows=20)]
    return lambda: world.finish(brought)


def reading_changes(world: World) -> Callable[[], object]:
    world.all()
    world.change()
    return world.changes


def merging(world: World) -> Callable[[], object]:
    world.all()
    world.merge()
    world.change()
    world.changes()
    return world.merge


def rebuilding(world: World) -> Callable[[], object]:
    world.all()
    world.change()
    world.changes()
    return world.merge


def keeping_up(world: World, *, fold: bool = False) -> Callable[[], object]:
    world.all()
    world.change()
    world.changes()
    world.server.clock.shift(timedelta(seconds=5))
    for number in range(2):
        world.server.execute(f"UPDATE dbo.orders SET name = N'again {number}' WHERE id % 3 = 0")
        world.changes()
    world.merge()
    order = UpkeepOrder(
        world.table,
        world.silver,
        world.attempt("upkeep"),
        UpkeepOptions(fold=fold, fold_share=0.0, fold_after_hours=0, vacuum_hours=0),
        started_at=datetime.now(UTC) + timedelta(minutes=10),
    )

    def act() -> None:
        upkeep(order)
        assert (open_existing(TableLocation.bronze_of(world.table)).fold is not None) == fold
        assert not any("/changes-" in uri for uri in DeltaTable(world.table.bronze).file_uris())

    return act


def folding(world: World) -> Callable[[], object]:
    return keeping_up(world, fold=True)


JOBS = [
    completing,
    bringing_a_wave,
    completing_waves,
    reading_changes,
    merging,
    rebuilding,
    keeping_up,
    folding,
]


@pytest.mark.parametrize(("moment", "failure"), ENDS, ids=IDS)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_the_table_keeps_its_files_and_the_next_try_goes_on(
    world: World, job: Callable[[World], Callable[[], object]], moment: Any, failure: Any
) -> None:
    act = job(world)
    with contextlib.suppress(*ENDED), ended_at("LakeTable.commit_files", moment, raising=failure):
        act()
    assert world.missing() == set()
    world.try_number = 2
    act()
    assert world.missing() == set()
    world.check()


@pytest.mark.parametrize(("moment", "failure"), ENDS, ids=IDS)
def test_what_is_abandoned_takes_no_file_of_another_snapshot_along(
    world: World, moment: Any, failure: Any
) -> None:
    waves = world.planned(chunk_rows=20)
    world.chunk(waves[0])
    with contextlib.suppress(*ENDED), ended_at("LakeTable.commit_files", moment, raising=failure):
        world.abandon()
    assert world.missing() == set()
    world.try_number = 2
    world.abandon()
    world.server.execute("INSERT INTO dbo.orders (id, name) VALUES (900, N'moves capture')")
    world.all(resnapshot=True)
    assert world.missing() == set()
    world.check()
