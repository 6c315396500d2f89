"""Rows that another version of the state rule made: built again once, read as they are until then."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.lake.transactions import SILVER_RULE, SILVER_VERSION
from airflow_provider_mssql_cdc.model.state import STATE_RULE
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import World, change, snapshot_row


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": key, "v": "x"}) for key in range(3)])
    world.merge()
    return world


def record(world: World, *transactions: Transaction) -> None:
    table = DeltaTable(world.silver_at.uri)
    properties = CommitProperties(app_transactions=list(transactions))
    table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=properties)


def applied(rule: int, version: int) -> Transaction:
    return Transaction(SILVER_RULE, version << 8 | rule)


@pytest.mark.parametrize("rule", [0, 1, STATE_RULE - 1])
def test_silver_of_an_older_rule_is_built_again_once(
    world: World, rule: int, caplog: pytest.LogCaptureFixture
) -> None:
    record(world, applied(rule, world.bronze.version))
    assert len(delta_rows(world.silver_at.uri)) == 3, "it stays readable"
    world.changes([change(11, 1, {"id": 1, "v": "x"})])
    with caplog.at_level(logging.INFO):
        merged = world.merge()
    assert merged.rebuilt is not None
    assert "of the state rule" in merged.rebuilt
    assert merged.rebuilt in caplog.text
    assert world.silver.position == merged.position
    assert merged.position.rule == STATE_RULE
    world.changes([change(12, 1, {"id": 2, "v": "x"})])
    assert world.merge().rebuilt is None
    assert sorted(world.values()) == [0]


def test_silver_without_changes_is_built_again_too(world: World) -> None:
    record(world, applied(1, world.bronze.version))
    assert world.merge().rebuilt is not None
    assert world.merge().rebuilt is None


def test_a_position_that_a_package_without_a_rule_has_moved_is_noticed(world: World) -> None:
    world.changes([change(11, 1, {"id": 1, "v": "x"})])
    record(world, Transaction(SILVER_VERSION, world.bronze.version))
    merged = world.merge()
    assert merged.rebuilt is not None
    assert "an unnumbered version" in merged.rebuilt
    assert sorted(world.values()) == [0, 2]


def test_silver_of_a_newer_rule_is_refused(world: World) -> None:
    record(world, applied(STATE_RULE + 1, world.bronze.version))
    with pytest.raises(ConfigurationError, match="newer version of this package"):
        world.merge()


def test_rule_and_rows_are_in_one_commit(world: World) -> None:
    world.changes([change(11, 1, {"id": 1, "v": "x"})])
    merged = world.merge()
    name = f"_delta_log/{merged.version:020d}.json"
    actions = [json.loads(line) for line in Path(world.silver_at.uri, name).read_text().splitlines()]
    told = {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
    assert told[SILVER_RULE] == told[SILVER_VERSION] << 8 | STATE_RULE
    assert any("add" in action or "remove" in action for action in actions)
