"""Half of a surrogate pair: SQL Server keeps it, no Unicode text can hold it, drivers put something else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ValueDoesNotFit
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from tests.support.changes_world import ChangesWorld
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows

HALVES = {
    "at the start": "NCHAR(0xDF3A) + N' cut'",
    "in the middle": "N'a' + NCHAR(0xD83C) + N'b'",
    "at the end": "LEFT(N'cut 🌺', 5)",
    "alone": "NCHAR(0xD83C)",
    "the wrong way round": "NCHAR(0xDF3A) + NCHAR(0xD83C)",
    "beside a whole pair": "N'🌺' + NCHAR(0xD83C)",
}
TYPES = ("nvarchar(12)", "nchar(12)", "nvarchar(max)", "ntext")
WHOLE = ("\ufffd", "a\ufffdb", "?", "🌺", "?🌺\ufffd", "Ünï", "", "plain")


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="halves") as running:
        yield running


@pytest.fixture(params=["mssql-python", "pymssql"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def world_of(
    server: EmbeddedSqlServer, folder: Path, monkeypatch: pytest.MonkeyPatch, driver: str, **given: Any
) -> ChangesWorld:
    world = ChangesWorld(server, folder, driver=driver, **given)
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
    return world


CASES = [(TYPES[at % len(TYPES)], half) for at, half in enumerate(HALVES)]
CASES += [(declared, "alone") for declared in TYPES if (declared, "alone") not in CASES]


@pytest.mark.parametrize(("declared", "half"), CASES)
def test_half_a_pair_is_an_error_that_names_its_column_in_snapshot_and_changes(
    server: EmbeddedSqlServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    declared: str,
    half: str,
) -> None:
    world = world_of(server, tmp_path, monkeypatch, driver, columns=f"name {declared} NULL, n int NULL")
    world.insert(1, 2)
    server.enable_cdc("dbo.orders")
    world.bootstrap()
    server.execute(f"INSERT dbo.orders (id, name) VALUES (3, {HALVES[half]})")
    told = r"orders.*column \[?name\]? holds half of a surrogate pair.*varbinary"
    with pytest.raises(ValueDoesNotFit, match=told):
        world.changes()
    with pytest.raises(ValueDoesNotFit, match=told):
        world.bootstrap(resnapshot=True, run_id="again")
    assert {row["name"].rstrip() for row in world.bronze()} == {"row 1", "row 2"}


@pytest.mark.parametrize("declared", ["nvarchar(12)", "nvarchar(max)", "ntext"])
def test_a_replacement_character_of_the_source_itself_is_loaded_as_it_is(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, declared: str
) -> None:
    world = world_of(server, tmp_path, monkeypatch, driver, columns=f"name {declared} NULL, n int NULL")
    for number, text in enumerate(WHOLE):
        server.execute("INSERT dbo.orders VALUES (?, ?, 1)", number, text)
    server.execute("INSERT dbo.orders VALUES (90, NULL, 1)")
    server.enable_cdc("dbo.orders")
    world.bootstrap()
    for number, text in enumerate(WHOLE, start=100):
        server.execute("INSERT dbo.orders VALUES (?, ?, 1)", number, text)
    server.execute("INSERT dbo.orders VALUES (190, NULL, 1)")
    world.changes()
    found = {row["id"]: row["name"] for row in world.bronze()}
    expected = {90: None, 190: None, **dict(enumerate(WHOLE)), **dict(enumerate(WHOLE, start=100))}
    assert found == expected


def test_the_units_can_be_loaded_as_binary(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    world = world_of(server, tmp_path, monkeypatch, driver)
    server.execute("INSERT dbo.orders (id, name) VALUES (1, N'a' + NCHAR(0xD83C))")
    server.enable_cdc("dbo.orders")
    world.table = MssqlCdcTable(
        mssql_conn_id="erp",
        capture_instance="dbo_orders",
        bronze=world.table.bronze,
        facts=world.table.facts,
        casts={"name": "varbinary(max)"},
    )
    world.bootstrap()
    assert [row["name"] for row in world.bronze()] == [b"a\x00\x3c\xd8"]


@pytest.mark.parametrize("target", ["nvarchar(40)", "varchar(40)", "nvarchar(max)"])
def test_a_cast_does_not_hide_half_a_pair(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, target: str
) -> None:
    world = world_of(server, tmp_path, monkeypatch, driver, columns="name sql_variant NULL")
    server.execute("INSERT dbo.orders (id, name) VALUES (1, LEFT(N'🌺', 1))")
    server.enable_cdc("dbo.orders")
    world.table = MssqlCdcTable(
        mssql_conn_id="erp",
        capture_instance="dbo_orders",
        bronze=world.table.bronze,
        facts=world.table.facts,
        casts={"name": target},
    )
    with pytest.raises(ValueDoesNotFit, match="half of a surrogate pair"):
        world.bootstrap()


def test_a_key_with_half_a_pair_bounds_no_range(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    world = world_of(server, tmp_path, monkeypatch, driver, name="coded")
    server.execute("DROP TABLE dbo.coded")
    server.execute("CREATE TABLE dbo.coded (code nvarchar(9) COLLATE Latin1_General_BIN2 PRIMARY KEY)")
    for number in range(40):
        server.execute(f"INSERT dbo.coded VALUES (N'cut ' + NCHAR({0xD800 + number}))")
    server.enable_cdc("dbo.coded")
    request = PlanRequest(world.table, world.attempt("plan"), max_ranges=4, rows_per_range=10, wait_seconds=0)
    planned = plan_snapshot(request, connect=world.session)
    assert len(planned) == 1
    with pytest.raises(ValueDoesNotFit, match="half of a surrogate pair"):
        read_range(world.table, planned[0], attempt=world.attempt("read"), connect=world.session)


def halves_of_two(server: EmbeddedSqlServer, first: int) -> None:
    """Keys of a number and a string; from one row on, the texts end with half of a pair."""
    server.execute(
        "CREATE TABLE dbo.coded (n int NOT NULL, code nvarchar(9) COLLATE Latin1_General_BIN2 NOT NULL, "
        "PRIMARY KEY (n, code))"
    )
    for number in range(40):
        last = 0xD800 + number if number >= first else 0x61 + number
        server.execute(f"INSERT dbo.coded VALUES ({number // 20}, N'cut ' + NCHAR({last}))")
    server.enable_cdc("dbo.coded")


@pytest.mark.parametrize("first", [0, 25])
@pytest.mark.parametrize("split_by", [None, ("code", "n")])
def test_half_a_pair_in_any_column_of_a_key_bounds_no_range_and_no_chunk(
    server: EmbeddedSqlServer, tmp_path: Path, driver: Any, split_by: tuple[str, ...] | None, first: int
) -> None:
    halves_of_two(server, first)
    given: Any = {"instance": "dbo_coded", "driver": driver, "split_by": split_by}
    ranges = ChunkedLoad(server, tmp_path / "ranges", **given)
    (planned,) = ranges.plan(rows_per_range=10, max_ranges=4)
    with pytest.raises(ValueDoesNotFit, match=r"column \[code\] holds half of a surrogate pair"):
        ranges.read(planned)
    waves = ChunkedLoad(server, tmp_path / "waves", **given)
    (wave,) = waves.planned(chunk_rows=10)
    with pytest.raises(ValueDoesNotFit, match=r"column \[code\] holds half of a surrogate pair"):
        waves.chunk(wave)


def test_half_a_pair_in_a_wave_is_an_error_and_what_was_read_before_stays(
    server: EmbeddedSqlServer, tmp_path: Path, driver: Any
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY, name nvarchar(12))")
    for number in range(40):
        last = 0xD83C if number == 33 else 65
        server.execute(f"INSERT dbo.orders VALUES ({number}, N'plain' + NCHAR({last}))")
    server.enable_cdc("dbo.orders")
    load = ChunkedLoad(server, tmp_path, instance="dbo_orders", driver=driver)
    *whole, cut = load.planned(chunk_rows=10)
    for wave in whole:
        load.chunk(wave)
    with pytest.raises(ValueDoesNotFit, match=r"column \[name\] holds half of a surrogate pair"):
        load.chunk(cut)
    assert len(delta_rows(load.table.bronze)) == 30
