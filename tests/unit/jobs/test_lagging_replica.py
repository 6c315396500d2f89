"""A replica that does not show the capture instance, or the table, yet is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.listener import Replica
from airflow_provider_mssql_cdc.errors import PreflightFailed, ReplicaBehind, SourceObjectMissing
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.chunked import ChunkedLoad

COLUMNS = "(id bigint NOT NULL PRIMARY KEY, name nvarchar(40) NULL)"


class World:
    """A primary, and a replica that stays where it is before something is made on the primary."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, driver: DriverName) -> None:
        self.server, self.folder, self.driver = server, folder, driver
        server.execute("EXEC sys.sp_cdc_enable_db")
        server.execute(f"CREATE TABLE dbo.others {COLUMNS}")
        server.enable_cdc("dbo.others")
        self.replica: Replica = server.replica()

    def orders(self) -> None:
        self.server.execute(f"CREATE TABLE dbo.orders {COLUMNS}")
        self.server.execute("INSERT INTO dbo.orders VALUES (1, N'one'), (2, N'two'), (3, N'three')")

    def tracked(self) -> None:
        self.server.enable_cdc("dbo.orders")

    def load(self, instance: str = "dbo_orders") -> ChunkedLoad:
        return ChunkedLoad(self.server, self.folder, instance=instance, driver=self.driver)


@pytest.fixture(params=("mssql-python", "pymssql"))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with EmbeddedSqlServer(database="shop") as server:
        yield World(server, tmp_path, request.param)


def without_the_table(world: World) -> None:
    world.replica.hold()
    world.orders()
    world.tracked()


def without_the_instance(world: World) -> None:
    world.orders()
    world.replica.hold()
    world.tracked()


def without_the_second_instance(world: World) -> None:
    world.orders()
    world.server.enable_cdc("dbo.orders", capture_instance="first")
    world.replica.hold()
    world.tracked()


WAYS = (without_the_table, without_the_instance, without_the_second_instance)


@pytest.mark.parametrize("way", WAYS)
def test_a_range_waits_for_a_replica_that_does_not_show_the_instance(
    world: World, way: Callable[[World], None]
) -> None:
    way(world)
    load = world.load()
    (planned,) = load.plan()
    with pytest.raises(ReplicaBehind, match="does not show all of it yet") as caught:
        load.read(planned, listener=world.replica)
    assert caught.value.retryable
    world.replica.catch_up()
    assert load.read(planned, listener=world.replica).rows == 3


def test_changes_waves_and_complete_wait_for_it_too(world: World) -> None:
    without_the_instance(world)
    load = world.load()
    (wave,) = load.planned()
    with pytest.raises(ReplicaBehind):
        load.chunk(wave, listener=world.replica)
    outcome = load.chunk(wave)
    load.port = world.replica.port
    for call in (lambda: load.finish([outcome]), load.changes, load.plan):
        with pytest.raises(ReplicaBehind):
            call()
    world.replica.catch_up()
    load.finish([outcome])
    load.changes()


def test_on_a_replica_a_name_that_there_is_not_stays_a_mistake(world: World) -> None:
    world.orders()
    world.tracked()
    load = world.load("dbo_nonsense")
    load.port = world.replica.port
    with pytest.raises(SourceObjectMissing):
        load.plan()


def test_a_replica_above_what_is_known_gives_a_verdict(world: World) -> None:
    world.orders()
    world.tracked()
    load = world.load()
    load.all()
    world.server.execute("EXEC sys.sp_cdc_disable_table 'dbo', 'orders', 'all'")
    world.server.execute("INSERT INTO dbo.others VALUES (1, N'one'), (2, N'two')")
    world.server.idle()
    load.port = world.replica.port
    with pytest.raises(PreflightFailed):
        load.changes()


def test_on_the_primary_an_instance_that_is_gone_is_a_verdict(world: World) -> None:
    world.orders()
    world.tracked()
    load = world.load()
    load.all()
    world.server.execute("EXEC sys.sp_cdc_disable_table 'dbo', 'orders', 'all'")
    with pytest.raises(PreflightFailed):
        load.changes()
