"""Waves and openings of a chunked snapshot in bronze: each lands once, whoever commits when."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, Superseded
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.chunked import (
    LandedWave,
    Opened,
    abandon_unfinished,
    commit_wave,
    landed_waves,
    latest_horizon,
    open_snapshot,
)
from airflow_provider_mssql_cdc.lake.commit import SnapshotCommit, commit_completion
from airflow_provider_mssql_cdc.lake.staging import RowStamp, stage_rows
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.planning.snapshots import AlreadyStored, ResumeLoad
from tests.unit.lake.tables import (
    COLUMNS,
    INSTANCE,
    RUN,
    batch,
    complete,
    header,
    ids_in,
    lsn,
    new_bronze,
)
from tests.unit.lake.tables import stage as stage_range

NOON = datetime(2024, 5, 11, 12, tzinfo=UTC)
ROUNDS = int(os.environ.get("MSSQL_CDC_RACE_ROUNDS", "8"))


def horizon(number: int) -> ReadHorizon:
    return ReadHorizon(lsn(number), NOON + timedelta(minutes=number))


def opened(
    bronze: Bronze, snapshot: Lsn, *, resnapshot: bool = False, gap_position: Lsn | None = None, **more: Any
) -> Any:
    of_s = header(snapshot, **{"commit_ts": None, "run_id": "manual__1", **more})
    return open_snapshot(bronze, of_s, resnapshot=resnapshot, gap_position=gap_position)


def staged(bronze: Bronze, snapshot: Lsn, wave: int, ids: list[int]) -> tuple[StagedFile, ...]:
    return stage_rows(
        bronze,
        prefix=f"{PlanId.new(snapshot, RUN)}-w{wave:05d}-c{wave:06d}-a1-{random.randbytes(3).hex()}",
        stamp=RowStamp(INSTANCE, snapshot, None, snapshot=snapshot, chunk=wave),
        columns=COLUMNS,
        batches=[batch(ids)] if ids else [],
    )


def commit(
    location: TableLocation, snapshot: Lsn, wave: int, files: tuple[StagedFile, ...], at: int = 5
) -> tuple[LandedWave, bool]:
    return commit_wave(location, header(snapshot), files, wave=wave, stamp=snapshot, horizon=horizon(at))


def completion(location: TableLocation, snapshot: Lsn, waves: int) -> SnapshotCommit:
    return commit_completion(location, header(snapshot, commit_ts=None), waves=waves)


def test_an_open_starts_coverage_and_is_found_again(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    assert opened(bronze, lsn(3)) == Opened(lsn(3), rebased=False)
    state = bronze.state
    assert (state.open, state.unfinished, state.snapshot) == (lsn(3), lsn(3), None)
    assert state.coverage is not None
    assert (state.coverage.base, state.coverage.changes) == (lsn(3), lsn(3))
    assert opened(bronze, lsn(9)) == ResumeLoad(lsn(3))


@pytest.mark.parametrize("then", ["nothing", "abandoned", "another opened"])
def test_a_whole_snapshot_of_the_same_lsn_is_not_put_beside_its_waves(tmp_path: Path, then: str) -> None:
    """A database where nothing happens: a run of either mode records the LSN that the other one has."""
    bronze = new_bronze(tmp_path)
    whole = stage_range(bronze, lsn(3), ids=[1, 2, 3])
    opened(bronze, lsn(3))
    commit(bronze.location, lsn(3), 1, staged(bronze, lsn(3), 1, [2, 3]))
    if then == "abandoned":
        abandon_unfinished(bronze.reload(), run_id="manual__2")
    elif then == "another opened":
        opened(bronze.reload(), lsn(4), resnapshot=True, run="0badcafe")
    version = bronze.reload().version
    with pytest.raises(Superseded, match="start a new run"):
        complete(bronze.location, lsn(3), files=whole)
    assert bronze.reload().version == version
    assert complete(bronze.location, lsn(5), files=stage_range(bronze, lsn(5), ids=[1, 2, 3])).added


def test_of_two_opens_the_second_goes_on_with_the_first(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    late = open_existing(bronze.location)
    opened(bronze, lsn(3))
    assert opened(late, lsn(4)) == ResumeLoad(lsn(3))


def test_a_resnapshot_that_was_overtaken_records_a_later_lsn(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    late = open_existing(bronze.location)
    opened(bronze, lsn(5), resnapshot=True, run="aaaaaaaa")
    with pytest.raises(NotReadyYet, match="the next attempt records a later LSN"):
        opened(late, lsn(5), resnapshot=True, run="bbbbbbbb")
    assert opened(late.reload(), lsn(6), resnapshot=True, run="bbbbbbbb") == Opened(lsn(6), rebased=False)


@pytest.mark.parametrize(
    ("proven_at", "base"), [(None, 3), (3, 5), (2, 3)], ids=["no gap", "a gap", "a gap below the position"]
)
def test_an_open_moves_coverage_only_on_a_gap_proven_for_the_position(
    tmp_path: Path, proven_at: int | None, base: int
) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    position = None if proven_at is None else lsn(proven_at)
    opened(bronze, lsn(5), resnapshot=True, gap_position=position)
    assert bronze.state.coverage is not None
    assert bronze.state.coverage.base == lsn(base)


def test_a_base_that_moves_meanwhile_keeps_an_open_and_a_completion_out(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    commit(bronze.location, lsn(3), 0, ())
    opened(open_existing(bronze.location), lsn(8), resnapshot=True, gap_position=lsn(3))
    for late in (
        lambda: completion(bronze.location, lsn(3), 1),
        lambda: commit(bronze.location, lsn(3), 1, ()),
    ):
        with pytest.raises(Superseded, match=f"it was replaced by snapshot {lsn(8)}"):
            late()
    with pytest.raises(NotReadyYet):
        opened(bronze, lsn(7), resnapshot=True, run="cccccccc")


def test_a_wave_lands_once_whoever_brings_it_again(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    files = [staged(bronze, lsn(3), 0, [1, 2, 3]) for _ in range(2)]
    assert commit(bronze.location, lsn(3), 0, files[0]) == (LandedWave(0, 3, horizon(5)), True)
    assert commit(bronze.location, lsn(3), 0, files[1], at=6) == (LandedWave(0, 3, horizon(5)), False)
    assert ids_in(bronze.location) == [1, 2, 3]
    folder = Path(bronze.location.uri)
    assert [path.name for path in folder.glob("*.parquet")] == [files[0][0].path]


def test_files_whose_commit_seemed_to_fail_and_did_not_are_kept(tmp_path: Path) -> None:
    """A commit whose answer was lost is tried again and finds its own identifier: its files stay."""
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    files = staged(bronze, lsn(3), 0, [1, 2, 3])
    commit(bronze.location, lsn(3), 0, files)
    assert commit(bronze.location, lsn(3), 0, files)[1] is False
    assert ids_in(bronze.location) == [1, 2, 3]


def test_waves_and_completion_tell_rows_and_the_latest_horizon(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    for wave, (ids, at) in enumerate([([1, 2], 9), ([], 4), ([3], 7)]):
        with pytest.raises(IncompletePlan, match="not in bronze"):
            completion(bronze.location, lsn(3), 3)
        commit(bronze.location, lsn(3), wave, staged(bronze, lsn(3), wave, ids), at=at)
    landed = landed_waves(bronze.reload().table, lsn(3), 3)
    assert [one.rows for one in landed.values()] == [2, 0, 1]
    assert latest_horizon(landed.values()) == horizon(9)
    done = completion(bronze.location, lsn(3), 3)
    assert (done.added, done.rows, done.horizon, done.event) == (True, 3, horizon(9), "bootstrap")
    again = completion(bronze.location, lsn(3), 3)
    assert (again.added, again.rows, again.version, again.horizon) == (False, 3, done.version, horizon(9))
    assert bronze.reload().state.unfinished is None


def test_a_later_complete_snapshot_is_returned_to_an_older_completion(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    commit(bronze.location, lsn(3), 0, staged(bronze, lsn(3), 0, [1]))
    complete(bronze.location, lsn(4), stage_range(bronze, lsn(4), [7]))
    done = completion(bronze.location, lsn(3), 1)
    assert (done.snapshot, done.added) == (lsn(4), False)
    assert opened(bronze.reload(), lsn(9)) == AlreadyStored(lsn(4))


def test_an_abandoned_snapshot_takes_nothing_more_and_a_complete_one_is_left_alone(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    assert abandon_unfinished(bronze, run_id="r", snapshot=lsn(2)) is None
    assert abandon_unfinished(bronze, run_id="r") == lsn(3)
    for late in (
        lambda: commit(bronze.location, lsn(3), 0, ()),
        lambda: completion(bronze.location, lsn(3), 1),
    ):
        with pytest.raises(Superseded, match="abandoned"):
            late()
    assert opened(bronze, lsn(4)) == Opened(lsn(4), rebased=False)
    commit(bronze.location, lsn(4), 0, ())
    completion(bronze.location, lsn(4), 1)
    assert abandon_unfinished(bronze.reload(), run_id="r") is None
    assert completion(bronze.location, lsn(4), 1).snapshot == lsn(4)


def test_of_an_abandoning_and_a_completion_at_once_the_first_is_what_both_find(tmp_path: Path) -> None:
    """Rows of a snapshot that became complete in the meantime are never deleted as an abandoned one's."""
    bronze = new_bronze(tmp_path)
    opened(bronze, lsn(3))
    commit(bronze.location, lsn(3), 0, staged(bronze, lsn(3), 0, [1]))
    late = open_existing(bronze.location)
    completion(bronze.location, lsn(3), 1)
    assert abandon_unfinished(late, run_id="r") is None
    assert late.state.abandoned is None


def _bring(uri: str, waves: int, seed: int, together: Any, results: Any) -> None:
    """Stage and commit every wave, with random pauses, at the same time as another process does."""
    rng = random.Random(seed)
    location = TableLocation(uri)
    for wave in range(waves):
        together.wait(120)
        time.sleep(rng.uniform(0, 0.05))
        files = staged(open_existing(location), lsn(3), wave, list(range(wave * 10, wave * 10 + 10)))
        time.sleep(rng.uniform(0, 0.02))
        results.put((wave, commit(location, lsn(3), wave, files)[1]))


def race(folder: Path, waves: int) -> None:
    bronze = new_bronze(folder)
    opened(bronze, lsn(3))
    context = multiprocessing.get_context("spawn")
    together, results = context.Barrier(2), context.Queue()
    both = [
        context.Process(target=_bring, args=(bronze.location.uri, waves, seed, together, results))
        for seed in range(2)
    ]
    for process in both:
        process.start()
    outcomes = sorted(results.get(timeout=120) for _ in range(2 * waves))
    for process in both:
        process.join(60)
    assert outcomes == sorted((wave, won) for wave in range(waves) for won in (False, True))
    assert ids_in(bronze.location) == list(range(waves * 10))
    assert len(list(Path(bronze.location.uri).glob("*.parquet"))) == waves


def test_two_processes_that_bring_the_same_wave_leave_its_rows_once(tmp_path: Path) -> None:
    race(tmp_path, ROUNDS)


@pytest.mark.soak
def test_a_hundred_races_of_two_processes_leave_every_wave_once(tmp_path: Path) -> None:
    race(tmp_path, 100)
