"""``complete`` with many staged files: each is looked at, all are named in one commit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from airflow_provider_mssql_cdc.model.plan import StagedRange
from benchmarks.loads import Load
from benchmarks.measure import Sample, cpu, spread, timed, wall
from benchmarks.report import Row
from benchmarks.servers import Server

FLOOR_SECONDS, AIM_SECONDS = 5, 1
ROWS_PER_FILE = 100


def run(server: Server, *, files: int, repeats: int) -> Iterator[Row]:
    """Each run commits a separate table; all runs stage the same rows."""
    samples = [_completed(server, files) for _ in range(repeats)]
    yield Row(
        "complete",
        f"complete with {files:,} staged files",
        wall(samples),
        "s",
        FLOOR_SECONDS,
        AIM_SECONDS,
        better="lower",
        note=spread([sample.wall_seconds for sample in samples]),
    )
    yield Row("complete", "its CPU in this process", cpu(samples), "s")


def _completed(server: Server, files: int) -> Sample:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        load = Load(server, Path(folder))
        staged = _staged(load, files)
        return timed(lambda: _complete(load, staged))


def _complete(load: Load, staged: list[StagedRange]) -> None:
    assert load.complete(staged) == sum(outcome.rows for outcome in staged)


def _staged(load: Load, files: int) -> list[StagedRange]:
    """Rows of the table as ``files`` ranges of one plan, staged without reading each of them."""
    (planned,) = load.planned()
    batches, columns = load.sample(ROWS_PER_FILE)
    items = [replace(planned, index=index, count=files) for index in range(files)]
    return [load.stage(item, batches, columns=columns) for item in items]
