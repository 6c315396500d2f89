"""Another history, task by task: what was begun on one server is not gone on with on one restored from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ReplicaBehind, RetentionGap, StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.lsn import Lsn
from tests.support.chunked import ChunkedLoad

Fork = Callable[[], EmbeddedSqlServer]
GoesOn = Callable[[EmbeddedSqlServer, Lsn], None]
MORNING = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)


@pytest.fixture(params=("mssql-python", "pymssql"))
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChunkedLoad]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(MORNING)
        server.execute("CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        insert(server, *range(1, 7))
        server.enable_cdc("dbo.orders")
        yield ChunkedLoad(server, tmp_path, instance="dbo_orders", driver=request.param)


@pytest.fixture
def fork(load: ChunkedLoad) -> Iterator[Callable[[], EmbeddedSqlServer]]:
    """Restores another server from the load's as it is now; hours later by its own clock."""
    with ExitStack() as servers:

        def restored() -> EmbeddedSqlServer:
            other = servers.enter_context(EmbeddedSqlServer(database="shop"))
            other.clock.freeze(MORNING + timedelta(hours=2, minutes=7, seconds=3))
            other.restore(load.server)
            return other

        yield restored


def insert(server: EmbeddedSqlServer, *ids: int) -> None:
    for number in ids:
        server.execute("INSERT INTO dbo.orders VALUES (?, ?)", number, f"row {number}")


def reached(server: EmbeddedSqlServer) -> Lsn:
    return Lsn.parse(server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0])


def position(load: ChunkedLoad) -> Lsn:
    coverage = open_existing(TableLocation.bronze_of(load.table)).state.coverage
    assert coverage is not None
    return coverage.changes


def refused(
    load: ChunkedLoad, call: Callable[[], object], match: str = "load into a new bronze path"
) -> None:
    before = DeltaTable(load.table.bronze).version()
    with pytest.raises(StateDamaged, match=match):
        call()
    assert DeltaTable(load.table.bronze).version() == before


def stays_below(other: EmbeddedSqlServer, lost: Lsn) -> None:
    other.idle()
    assert reached(other) < lost


def comes_exactly_there(other: EmbeddedSqlServer, lost: Lsn) -> None:
    insert(other, 50, 51)
    assert reached(other) == lost


def goes_past_it(other: EmbeddedSqlServer, lost: Lsn) -> None:
    other.execute("UPDATE dbo.orders SET name = 'of the new history'")
    for number in range(70, 99):
        insert(other, number)
        if reached(other) > lost:
            return


def is_idle_past_it(other: EmbeddedSqlServer, lost: Lsn) -> None:
    other.idle()
    while reached(other) <= lost:
        other.clock.shift(timedelta(minutes=5))
        other.idle()


def goes_past_it_and_is_cleaned_up_below(other: EmbeddedSqlServer, lost: Lsn) -> None:
    goes_past_it(other, lost)
    other.cleanup(up_to=lost.text)


WAYS = (stays_below, comes_exactly_there, goes_past_it, is_idle_past_it, goes_past_it_and_is_cleaned_up_below)
every_way = pytest.mark.parametrize("goes_on", WAYS)


@every_way
def test_a_chunked_load_is_not_gone_on_with(load: ChunkedLoad, fork: Fork, goes_on: GoesOn) -> None:
    waves = load.planned(chunk_rows=3)
    load.chunk(waves[0])
    other = fork()
    insert(load.server, 10, 11)
    load.changes()
    lost = position(load)
    load.server = other
    goes_on(other, lost)
    refused(load, lambda: load.chunk(waves[1]))
    refused(load, load.planned)
    refused(load, lambda: load.planned(resnapshot=True))
    refused(load, lambda: load.plan(resnapshot=True))
    refused(load, load.changes)


@every_way
def test_neither_completion_is_committed(load: ChunkedLoad, fork: Fork, goes_on: GoesOn) -> None:
    first = load.server
    outcomes = [load.chunk(wave) for wave in load.planned(chunk_rows=3)]
    other = fork()
    insert(first, 10, 11)
    load.changes()
    lost = position(load)
    staged = [load.read(planned) for planned in load.plan(resnapshot=True)]
    load.server = other
    goes_on(other, lost)
    refused(load, lambda: load.finish(outcomes))
    refused(load, lambda: load.complete(staged))


@every_way
def test_a_snapshot_of_the_lost_history_is_noticed_though_the_position_is_in_both(
    load: ChunkedLoad, fork: Fork, goes_on: GoesOn
) -> None:
    load.all()
    insert(load.server, 8)
    load.changes()
    other = fork()
    insert(load.server, 10, 11)
    load.run_id = "second"
    lost = load.all(resnapshot=True).snapshot
    assert position(load) < lost
    load.server = other
    goes_on(other, lost)
    refused(load, load.changes)
    refused(load, load.plan)


def test_a_position_that_cleanup_has_passed_is_a_gap(load: ChunkedLoad, fork: Fork) -> None:
    load.all()
    other = fork()
    insert(load.server, 10, 11)
    load.changes()
    lost = position(load)
    load.server = other
    goes_past_it(other, lost)
    other.cleanup(up_to=reached(other).text)
    with pytest.raises((RetentionGap, StateDamaged)):
        load.changes()
    assert position(load) == lost


def test_a_first_snapshot_above_what_the_server_has_reached_is_not_committed(
    load: ChunkedLoad, fork: Fork
) -> None:
    other = fork()
    insert(load.server, 10, 11)
    staged = [load.read(planned) for planned in load.plan()]
    load.server = other
    other.idle()
    refused(load, lambda: load.complete(staged), match="the snapshot was read at .* start a new run")
    load.run_id = "second"
    assert load.all().rows == 6


def test_a_first_snapshot_above_what_a_replica_has_reached_is_tried_again(load: ChunkedLoad) -> None:
    replica = load.server.replica()
    replica.hold()
    insert(load.server, 10, 11)
    staged = [load.read(planned) for planned in load.plan()]
    load.port = replica.port
    with pytest.raises(ReplicaBehind):
        load.complete(staged)
    replica.catch_up()
    assert load.complete(staged).rows == 8


def test_a_replica_above_the_position_and_below_a_newer_snapshot_is_read_from(load: ChunkedLoad) -> None:
    load.all()
    replica = load.server.replica()
    insert(load.server, 8)
    replica.hold()
    insert(load.server, 10, 11)
    load.run_id = "second"
    snapshot = load.all(resnapshot=True).snapshot
    load.port = replica.port
    assert load.changes().counts.inserts == 1
    assert position(load) < snapshot
    replica.catch_up()
    assert load.changes().counts.inserts == 2
