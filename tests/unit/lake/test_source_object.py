"""Commits of two tables that had one name, at once: the one that comes second decides again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.errors import ForeignTable, Superseded
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.changes import StagedWindow, begin_coverage, commit_window
from airflow_provider_mssql_cdc.lake.chunked import Opened, open_snapshot
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.model.capture import InstanceMark, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import Coverage, SourceIdentity
from tests.unit.lake.tables import (
    IDENTITY,
    OTHER_RUN,
    complete,
    header,
    lsn,
    new_bronze,
    reopened,
    stage,
)

FIRST, NEXT = replace(IDENTITY, object_id=901578266), replace(IDENTITY, object_id=901578554)
MARK = InstanceMark(901578282, datetime(2026, 5, 11))


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    """Changes of the first table, from LSN 10 on and up to there, without a snapshot."""
    bronze = new_bronze(tmp_path)
    begin_coverage(bronze, lsn(10), identity=FIRST, stamp=None, run_id="r")
    return bronze


def window(bronze: Bronze, after: int, until: int, identity: SourceIdentity = FIRST) -> int:
    staged = StagedWindow(Window(lsn(after), lsn(until)), [], batch=1)
    return commit_window(bronze, staged, identity=identity, stamp=None, instance=MARK)


def whole(bronze: Bronze, snapshot: Lsn, identity: SourceIdentity = NEXT) -> None:
    complete(
        bronze.location,
        snapshot,
        stage(bronze, snapshot, run=OTHER_RUN),
        identity=identity,
        resnapshot=True,
        run=OTHER_RUN,
    )


def chunked(bronze: Bronze, snapshot: Lsn, identity: SourceIdentity = NEXT) -> Opened:
    of_s = header(snapshot, identity=identity, commit_ts=None, run=OTHER_RUN)
    opened = open_snapshot(open_existing(bronze.location), of_s, resnapshot=True)
    assert isinstance(opened, Opened)
    return opened


@pytest.mark.parametrize("take", [whole, chunked])
@pytest.mark.parametrize("snapshot", [10, 12], ids=["at the position", "above it"])
def test_a_window_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next(
    bronze: Bronze, take: object, snapshot: int
) -> None:
    assert callable(take)
    reading = reopened(bronze)
    take(bronze, lsn(snapshot))
    with pytest.raises(ForeignTable, match="object id 901578554, .* got 901578266"):
        window(reading, 10, 20)
    after = reopened(bronze).state
    assert (after.source_object, after.coverage) == (901578554, Coverage(lsn(snapshot), lsn(snapshot)))


@pytest.mark.parametrize("take", [whole, chunked])
def test_a_repair_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next(
    bronze: Bronze, take: object
) -> None:
    assert callable(take)
    reading = reopened(bronze)
    take(bronze, lsn(10))
    staged = StagedWindow(Window(lsn(9), lsn(10)), [], batch=1)
    with pytest.raises(ForeignTable):
        replace_changes(reopened(reading), staged, identity=FIRST, prefix="repair", position=lsn(10))


def test_a_resnapshot_of_the_next_table_below_changes_of_the_one_before_is_refused(bronze: Bronze) -> None:
    window(bronze, 10, 20)
    with pytest.raises(Superseded, match="records a later LSN"):
        whole(bronze, lsn(15))
    with pytest.raises(Superseded, match="records a later LSN"):
        chunked(bronze, lsn(15))
    assert reopened(bronze).state.source_object == 901578266
    chunked(bronze, lsn(20))
    assert reopened(bronze).state.coverage == Coverage(lsn(20), lsn(20))


def test_a_snapshot_that_is_no_resnapshot_never_takes_another_tables_place(bronze: Bronze) -> None:
    with pytest.raises(ForeignTable):
        complete(bronze.location, lsn(15), stage(bronze, lsn(15)), identity=NEXT)
    assert reopened(bronze).state.snapshot is None


def test_two_that_record_a_table_in_an_older_bronze_at_once_do_not_both_succeed(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    begin_coverage(bronze, lsn(10), identity=IDENTITY, stamp=None, run_id="r")
    assert bronze.state.source_object is None
    reading = reopened(bronze)
    whole(bronze, lsn(12))
    with pytest.raises(ForeignTable):
        window(reading, 10, 20)


def test_a_table_that_is_known_is_not_recorded_again(bronze: Bronze) -> None:
    """So a window and a resnapshot of one table, which may be committed at once, do not conflict."""
    assert bronze.object_transactions(FIRST) == []
    assert [each.version for each in bronze.object_transactions(NEXT)] == [901578554]
