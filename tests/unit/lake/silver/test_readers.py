"""Readers that share no code with the writer find silver's rows, after merges and after an OPTIMIZE."""

from __future__ import annotations

import datetime as dt
import importlib.util
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pytest

from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import Row, World, change, snapshot_row

COLUMNS = (
    LakeColumn("OrderId", "OrderId", "decimal(18,4)"),
    LakeColumn("at", "at", "timestamp_ntz"),
    LakeColumn("v", "v", "string"),
)
LARGEST = Decimal("99999999999999.1111")
LATEST = dt.datetime(2024, 1, 1, 0, 0, 0, 123956)


def row(key: Decimal | int, at: dt.datetime, value: str) -> Row:
    return {"OrderId": Decimal(key), "at": at, "v": value}


@pytest.fixture(params=["as merged", "after OPTIMIZE"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> World:
    world = World(tmp_path, columns=COLUMNS, key=("OrderId",))
    early = dt.datetime(2023, 1, 1)
    world.snapshot(10, [snapshot_row(10, row(number, early, "old")) for number in range(5)])
    world.merge()
    world.changes([change(11, 2, row(LARGEST, LATEST, "new")), change(11, 1, row(3, early, "old"), seq=2)])
    world.merge()
    if request.param == "after OPTIMIZE":
        world.optimize(world.silver_at)
    return world


def duckdb_rows(uri: str, where: str) -> list[str]:
    spec = importlib.util.find_spec("duckdb_extension_delta")
    assert spec is not None
    assert spec.submodule_search_locations
    (extension,) = Path(spec.submodule_search_locations[0]).rglob(
        f"v{duckdb.__version__}/delta.duckdb_extension"
    )
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    connection.load_extension(str(extension))
    rows = connection.sql(f"SELECT v FROM delta_scan('{uri}') WHERE {where}").fetchall()
    return [value for (value,) in rows]


def test_a_predicate_on_a_decimal_key_and_on_a_time_finds_the_row(world: World) -> None:
    uri = world.silver_at.uri
    assert duckdb_rows(uri, f'"OrderId" = {LARGEST}') == ["new"]
    assert duckdb_rows(uri, f"\"at\" = TIMESTAMP '{LATEST}'") == ["new"]
    polars = pl.scan_delta(uri)
    exact = f"\"OrderId\" = CAST('{LARGEST}' AS DECIMAL(18,4))"
    assert polars.filter(pl.col("OrderId") == LARGEST).collect()["v"].to_list() == ["new"]
    assert polars.filter(pl.col("at") == LATEST).collect()["v"].to_list() == ["new"]
    assert [each["v"] for each in delta_rows(uri, exact)] == ["new"]


def test_every_reader_has_every_row(world: World) -> None:
    uri = world.silver_at.uri
    expected = ["new", *["old"] * 4]
    assert sorted(duckdb_rows(uri, "true")) == expected
    assert sorted(pl.read_delta(uri)["v"].to_list()) == expected
    assert sorted(each["v"] for each in delta_rows(uri)) == expected
