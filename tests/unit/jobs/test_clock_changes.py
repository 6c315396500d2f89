"""The server's clock is set back or forward: commit times are those of the commits, no claim is early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source import watermarks
from tests.support.changes_world import ChangesWorld
from tests.unit.jobs.test_merge_silver import Lake

Make = Callable[..., ChangesWorld]

BACK = {
    "Europe/Berlin": datetime(2026, 10, 25, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),
    "Pacific/Auckland": datetime(2026, 4, 4, 14, tzinfo=UTC),
}
FORWARD = {
    "Europe/Berlin": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 3, 8, 7, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
}
CHANGES = [*BACK.items(), *FORWARD.items()]
BERLIN = BACK["Europe/Berlin"]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A world whose server's clock stands at an instant."""
    servers: list[EmbeddedSqlServer] = []

    def made(
        zone: str, at: datetime, *, named: bool = True, driver: str = "mssql-python", rows: int = 3
    ) -> ChangesWorld:
        server = EmbeddedSqlServer(database="shop", time_zone=zone)
        server.__enter__()
        servers.append(server)
        if not named:
            unknown = "'CURRENT_TIMEZONE_ID' is not a recognized built-in function name."
            server.faults.fail("CURRENT_TIMEZONE_ID", 195, text=unknown, times=None)
        server.clock.freeze(at)
        world = ChangesWorld(server, tmp_path, driver=driver)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(rows))
        server.enable_cdc("dbo.orders")
        return world

    yield made
    for server in servers:
        server.__exit__(None, None, None)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def insert_at(world: ChangesWorld, *instants: datetime, first: int = 100) -> dict[int, datetime]:
    """A row each, in a separate commit: id and instant."""
    inserted = {}
    for number, at in enumerate(instants, first):
        world.server.clock.freeze(at)
        world.insert(number)
        inserted[number] = at
    return inserted


def stored(world: ChangesWorld) -> dict[int, datetime]:
    """In the order of commits."""
    rows = sorted(world.bronze("_operation = 2"), key=lambda row: row["_start_lsn"])
    return {row["id"]: row["_commit_ts"].replace(tzinfo=UTC) for row in rows}


def around(change: datetime, *, step: int = 5) -> list[datetime]:
    return [change + minutes(off) for off in range(-100, 101, step)]


@pytest.mark.parametrize(("zone", "change"), CHANGES, ids=lambda value: str(value)[:20])
def test_around_a_change_of_the_clock_each_commit_has_its_own_time(
    make: Make, zone: str, change: datetime
) -> None:
    world = make(zone, change - timedelta(hours=4))
    world.bootstrap()
    inserted = insert_at(world, *around(change))
    world.changes()
    assert stored(world) == inserted
    assert list(stored(world).values()) == sorted(stored(world).values())


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_it_is_the_same_one_commit_by_commit_and_in_a_repair(make: Make, driver: str) -> None:
    world = make("Europe/Berlin", BERLIN - timedelta(hours=4), driver=driver)
    world.bootstrap()
    inserted = {}
    for number, at in enumerate(around(BERLIN, step=10)):
        inserted |= insert_at(world, at, first=100 + number)
        world.changes()
    assert stored(world) == inserted
    repaired = world.interval(BERLIN - minutes(65), BERLIN + minutes(90))
    assert isinstance(repaired, ChangesDone)
    assert repaired.event == "repair"
    assert repaired.counts.inserts > 0
    assert stored(world) == inserted


@pytest.mark.parametrize("named", [True, False], ids=["named zone", "offset of the moment"])
def test_a_commit_s_time_asked_alone_is_that_of_its_row(make: Make, named: bool) -> None:
    world = make("Europe/Berlin", BERLIN - timedelta(hours=4), named=named)
    world.bootstrap()
    instants = around(BERLIN)
    insert_at(world, *(at + timedelta(microseconds=3_701) * n for n, at in enumerate(instants)))
    world.changes()
    with world.session() as session:
        for row in world.bronze("_operation = 2"):
            alone = watermarks.commit_time(session, Lsn.parse(row["_start_lsn"]))
            assert alone == row["_commit_ts"].replace(tzinfo=UTC)


def test_as_long_as_nothing_tells_the_passes_apart_a_time_is_never_later_than_the_commit(make: Make) -> None:
    world = make("Europe/Berlin", BERLIN - timedelta(hours=4))
    world.bootstrap()
    inserted = insert_at(world, BERLIN - minutes(50), BERLIN + minutes(25), BERLIN + minutes(70))
    world.changes()
    times = stored(world)
    assert all(times[number] <= at for number, at in inserted.items())
    assert times[100] == inserted[100]
    assert times[102] == inserted[102]


@pytest.mark.parametrize("named", [True, False], ids=["named zone", "offset of the moment"])
def test_before_a_delete_that_silver_misses_already_it_is_not_the_source(make: Make, named: bool) -> None:
    world = make("Europe/Berlin", BERLIN - timedelta(hours=4), named=named)
    world.server.capture_mode = "manual"
    world.server.capture()
    insert_at(world, BERLIN - minutes(30))
    world.server.clock.freeze(BERLIN - minutes(10))
    world.execute("DELETE FROM dbo.orders WHERE id = 1")
    world.server.clock.freeze(BERLIN - minutes(5))
    world.bootstrap()
    lake = Lake(world)
    world.server.clock.freeze(BERLIN + minutes(30))
    world.server.capture(commits=1)
    world.changes()
    assert lake.merged().consistency.passed is False
    assert (1,) not in lake.rows(), "as of this position the source had it"
    insert_at(world, BERLIN + minutes(130), first=900)
    world.server.capture()
    world.changes()
    assert lake.merged().consistency.passed is True
    assert lake.rows() == world.source()


def test_in_the_second_pass_it_is_the_source_as_soon_as_an_entry_is_past_the_read(make: Make) -> None:
    world = make("Europe/Berlin", BERLIN - timedelta(hours=4))
    insert_at(world, *(BERLIN + minutes(off) for off in range(-70, 5, 5)))
    world.server.clock.freeze(BERLIN + minutes(7))
    world.bootstrap()
    insert_at(world, BERLIN + minutes(12), first=900)
    world.changes()
    lake = Lake(world)
    assert lake.merged().consistency.passed is True
    assert lake.rows() == world.source()


@pytest.mark.parametrize(("after", "consistent"), [(1, False), (59, False), (61, True)])
def test_without_a_zone_an_hour_more_has_to_pass(make: Make, after: float, consistent: bool) -> None:
    world = make("Asia/Tokyo", BERLIN, named=False)
    world.bootstrap()
    insert_at(world, BERLIN + minutes(after))
    world.changes()
    assert Lake(world).merged().consistency.passed is consistent


@pytest.mark.parametrize("off", [-58, 3, 30, 57, 63])
@pytest.mark.parametrize("change", [BERLIN, FORWARD["Europe/Berlin"]], ids=["back", "forward"])
def test_capture_that_runs_does_not_look_stopped_when_the_clock_changes(
    make: Make, change: datetime, off: float
) -> None:
    world = make("Europe/Berlin", change - timedelta(hours=4))
    insert_at(world, *(at - minutes(2) for at in around(change) if at <= change + minutes(off)))
    world.server.clock.freeze(change + minutes(off))
    with world.session() as session:
        assert watermarks.capture_trouble(session) is None
        _, age = watermarks.newest_capture(session)
    assert age is not None
    assert 0 <= age <= 420
