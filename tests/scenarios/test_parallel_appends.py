"""Many processes that append to one bronze and to one facts table: none fails, nothing is there twice."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.chunked import commit_wave, landed_waves, open_snapshot
from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.staging import RowStamp, stage_rows
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.plan import PlanId, ReadHorizon
from tests.support.delta_rows import delta_rows
from tests.unit.lake.tables import COLUMNS, INSTANCE, RUN, batch, header, lsn, new_bronze

S = lsn(3)
ROWS = 10
HORIZON = ReadHorizon(lsn(4), datetime(2024, 5, 11, 12, tzinfo=UTC))


def append(bronze: str, facts: str, wave: int) -> tuple[bool, bool]:
    """Stage, commit and report one wave, as the task does; whether bronze and facts took it."""
    location = TableLocation(bronze)
    files = stage_rows(
        open_existing(location),
        prefix=f"{PlanId.new(S, RUN)}-w{wave:05d}-c{wave:06d}-a1-{random.randbytes(3).hex()}",
        stamp=RowStamp(INSTANCE, S, None, snapshot=S, chunk=wave),
        columns=COLUMNS,
        batches=[batch(range(wave * ROWS, wave * ROWS + ROWS))],
    )
    _, added = commit_wave(location, header(S), files, wave=wave, stamp=S, horizon=HORIZON)
    row = FactsRow(event="snapshot_wave", target=bronze, rows=ROWS, written_at=datetime.now(UTC))
    reported = write_facts(
        TableLocation(facts), row, identifier=facts_identifier(bronze, "snapshot_wave", S, wave)
    )
    return added, reported


def _work(bronze: str, facts: str, waves: list[int], together: Any, results: Any) -> None:
    together.wait(300)
    for wave in waves:
        try:
            results.put((wave, *append(bronze, facts, wave)))
        except Exception as exc:  # noqa: BLE001 - told to the test
            results.put((wave, type(exc).__name__, str(exc)))


def race(folder: Path, *, processes: int, appends: int) -> None:
    """Each process appends waves of its own, and then once more those of another."""
    bronze, facts = new_bronze(folder), str(folder / "facts")
    open_snapshot(bronze, header(S, commit_ts=None))
    waves = processes * appends
    context = multiprocessing.get_context("spawn")
    together, results = context.Barrier(processes), context.Queue()
    own = [list(range(number * appends, (number + 1) * appends)) for number in range(processes)]
    workers = [
        context.Process(
            target=_work,
            args=(bronze.location.uri, facts, [*mine, *own[number - 1]], together, results),
        )
        for number, mine in enumerate(own)
    ]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=600) for _ in range(2 * waves)]
    for worker in workers:
        worker.join(60)

    assert [outcome for outcome in outcomes if not isinstance(outcome[1], bool)] == []
    assert Counter(wave for wave, added, _ in outcomes if added) == dict.fromkeys(range(waves), 1)
    assert Counter(wave for wave, _, reported in outcomes if reported) == dict.fromkeys(range(waves), 1)
    found = delta_rows(bronze.location.uri, columns="id")
    assert sorted(row["id"] for row in found) == list(range(waves * ROWS))
    table = open_existing(bronze.location).table
    assert set(landed_waves(table, S, waves)) == set(range(waves))
    commits = Counter(commit.get("mssql_cdc.event") for commit in table.history())
    assert commits["snapshot_wave"] == waves
    assert len(delta_rows(facts)) == waves


def test_four_processes_append_each_wave_once(tmp_path: Path) -> None:
    race(tmp_path, processes=4, appends=4)


@pytest.mark.soak
def test_thirty_two_processes_append_six_hundred_and_forty_waves_each_once(tmp_path: Path) -> None:
    race(tmp_path, processes=32, appends=20)
