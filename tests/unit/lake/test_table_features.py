"""Table features and rules of another engine: what cannot be honoured is refused by name, at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.lake.bronze import open_bronze
from airflow_provider_mssql_cdc.lake.delta_table import until_committed
from airflow_provider_mssql_cdc.lake.silver.table import open_silver
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from tests.support.silver_world import World, snapshot_row

UNKNOWN = (
    "clustering",
    "rowTracking",
    "inCommitTimestamp",
    "icebergCompatV2",
    "typeWidening",
    "vacuumProtocolCheck",
    "allowColumnDefaults",
    "neverHeardOf",
)
READERS_TOO = ("typeWidening", "vacuumProtocolCheck", "v2Checkpoint", "variantType")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.snapshot(1, [snapshot_row(1, {"id": 1, "v": "a"})])
    world.merge()
    return world


def by_another_engine(location: TableLocation, *actions: dict[str, Any]) -> None:
    version = DeltaTable(location.uri).version() + 1
    log = Path(location.uri) / "_delta_log" / f"{version:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def feature(name: str) -> dict[str, Any]:
    readers = ["timestampNtz", *([name] if name in READERS_TOO else [])]
    features = {"readerFeatures": readers, "writerFeatures": ["timestampNtz", name]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}


def with_property(location: TableLocation, name: str, value: str) -> dict[str, Any]:
    metadata = DeltaTable(location.uri).metadata()
    schema = DeltaTable(location.uri).schema().to_json()
    return {
        "metaData": {
            "id": metadata.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {**metadata.configuration, name: value},
        }
    }


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_feature_that_cannot_be_honoured_is_refused_by_name(world: World, name: str) -> None:
    for location in (world.bronze_at, world.silver_at):
        by_another_engine(location, feature(name))
    with pytest.raises(ConfigurationError, match=name):
        open_bronze(world.bronze_at)
    with pytest.raises(ConfigurationError, match=name):
        open_silver(world.silver_at)


@pytest.mark.parametrize(
    "name", ["appendOnly", "changeDataFeed", "checkConstraints", "v2Checkpoint", "variantType"]
)
def test_a_feature_that_asks_nothing_is_written_under(world: World, name: str) -> None:
    by_another_engine(world.bronze_at, feature(name))
    world.snapshot(2, [snapshot_row(2, {"id": 1, "v": "b"})])
    world.merge()
    world.check()


def test_a_constraint_is_refused_on_bronze_and_on_silver(world: World) -> None:
    for location in (world.bronze_at, world.silver_at):
        by_another_engine(location, with_property(location, "delta.constraints.few", "id < 10"))
    with pytest.raises(ConfigurationError, match="few"):
        open_bronze(world.bronze_at)
    with pytest.raises(ConfigurationError, match="few"):
        open_silver(world.silver_at)


def test_a_silver_that_only_grows_is_refused(world: World) -> None:
    by_another_engine(world.silver_at, with_property(world.silver_at, "delta.appendOnly", "true"))
    with pytest.raises(ConfigurationError, match="appendOnly"):
        open_silver(world.silver_at)


def test_a_table_that_cannot_be_written_is_no_conflict(world: World) -> None:
    by_another_engine(world.bronze_at, feature("rowTracking"))
    table, tries = DeltaTable(world.bronze_at.uri), []

    def once() -> None:
        tries.append(1)
        table.create_write_transaction([], mode="append", schema=table.schema())

    with pytest.raises(ConfigurationError, match="RowTracking"):
        until_committed(once, what="a commit")
    assert len(tries) == 1
