"""The plans table: bounds are stored once per S, by whoever finds them first, and read back as they are."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import ForeignTable, StateDamaged
from airflow_provider_mssql_cdc.lake.plans import (
    PlanMoved,
    add_bounds,
    begin_plan,
    finish_plan,
    read_plan,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlanStart, StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from tests.unit.lake.tables import IDENTITY, lsn

HOSTILE: tuple[Bound, ...] = (
    ("o'brien", None),
    ("\0 nul", "2024-02-29T23:59:59.1234567"),
    ("Ünïcode 🌺 ", "-9223372036854775808"),
    ("\ud83d", '{"utf8": "no"}'),
)


def start_of(number: int, *, chunk_rows: int = 100) -> PlanStart:
    return PlanStart(
        lsn(number),
        "keyset",
        "keyset seeks on a, b: rows unknown",
        chunk_rows=chunk_rows,
        split="0123abcd",
        lowest=HOSTILE[0],
        highest=HOSTILE[3],
        rows_estimated=None,
        commit_ts=datetime(2024, 5, 11, 12, 0, 0, 277000, tzinfo=UTC),
    )


@pytest.fixture
def location(tmp_path: Path) -> TableLocation:
    return TableLocation(str(tmp_path / "orders_plans"))


def test_a_plan_is_read_as_it_was_stored_bound_by_bound(location: TableLocation) -> None:
    assert read_plan(location, lsn(3)) is None
    plan = begin_plan(location, IDENTITY, start_of(3))
    for bound in HOSTILE:
        assert read_plan(location, lsn(3)) == plan
        plan = add_bounds(location, plan, [bound])
    other = begin_plan(location, IDENTITY, start_of(4))
    finished = finish_plan(location, plan, chunks_per_wave=2)
    assert read_plan(location, lsn(3)) == finished
    assert read_plan(location, lsn(4)) == other
    assert (finished.chunks, finished.waves) == (5, 3)


def test_of_two_that_begin_the_first_ones_plan_is_both_ones(location: TableLocation) -> None:
    first = begin_plan(location, IDENTITY, start_of(3))
    assert begin_plan(location, IDENTITY, start_of(3, chunk_rows=7)) == first


@pytest.mark.parametrize("moved", ["longer", "finished"])
def test_whoever_was_overtaken_writes_nothing(location: TableLocation, moved: str) -> None:
    mine = begin_plan(location, IDENTITY, start_of(3))
    theirs = add_bounds(location, mine, HOSTILE[:1])
    if moved == "finished":
        mine = theirs
        theirs = finish_plan(location, theirs, chunks_per_wave=1)
    with pytest.raises(PlanMoved):
        add_bounds(location, mine, HOSTILE[1:])
    with pytest.raises(PlanMoved):
        finish_plan(location, mine, chunks_per_wave=9)
    assert read_plan(location, lsn(3)) == theirs


def test_a_finished_plan_is_one_file(location: TableLocation) -> None:
    plan = begin_plan(location, IDENTITY, start_of(3))
    for bound in HOSTILE:
        plan = add_bounds(location, plan, [bound])
    finish_plan(location, plan, chunks_per_wave=1)
    assert len(DeltaTable(location.uri).file_uris()) == 1


def test_rows_that_somebody_took_out_are_noticed(location: TableLocation) -> None:
    plan = add_bounds(location, begin_plan(location, IDENTITY, start_of(3)), HOSTILE)
    finish_plan(location, plan, chunks_per_wave=1)
    DeltaTable(location.uri).delete("chunk = 2")
    with pytest.raises(StateDamaged, match="are not consecutive"):
        read_plan(location, lsn(3))


def test_plans_of_another_table_are_not_written_among(location: TableLocation) -> None:
    begin_plan(location, IDENTITY, start_of(3))
    with pytest.raises(ForeignTable, match="holds plans of"):
        begin_plan(location, SourceIdentity("erp", "sales", "dbo", "customers"), start_of(4))


def test_the_chunks_of_a_plan_tile_everything_up_to_the_last_key() -> None:
    plan = StoredPlan(start_of(3), HOSTILE[1:3], chunks_per_wave=2)
    ranges = [chunk.key_range for wave in range(plan.waves) for chunk in plan.chunks_of(wave)]
    assert ranges == [
        KeyRange(None, HOSTILE[1]),
        KeyRange(HOSTILE[1], HOSTILE[2]),
        KeyRange(HOSTILE[2], HOSTILE[3], closed=True),
    ]
    assert [plan.chunk_count_of(wave) for wave in range(plan.waves)] == [2, 1]
