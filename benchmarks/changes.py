"""A run of changes into bronze against the bare driver that fetches the change table and drops it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone, ChangesRequest
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.tsql.statement import Statement
from benchmarks.drivers import fetch_by_mssql_python
from benchmarks.loads import Load
from benchmarks.measure import Samples, cpu, ratio, taking_turns, wall
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.tables import ORDERS

FLOOR, AIM = 0.5, 0.8
COMMITS = 20
IMAGES = 2
"""Rows that an update leaves in the change table: before and after."""
CAPTURED_WITHIN_SECONDS = 600
CHANGE_TABLE = f"cdc.dbo_{ORDERS}_CT"
OURS, DRIVER, QUIET = "changes into bronze", "bare driver", "a run that finds nothing new"


def run(server: Server, *, rows: int, repeats: int) -> Iterator[Row]:
    """Change rows by some updates of the first orders, read again and again from where they begin."""
    if server.no_cdc is not None:
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        start = Load(server, Path(folder, "start"), "mssql-python")
        _changes(start, start_now=True)
        change_rows = _make_changes(start, rows)
        samples = _samples(start, change_rows, repeats=repeats)
    for name, taken in samples.items():
        if name == QUIET:
            whole = f"of {wall(samples[OURS]):.3g} s that all take"
            yield Row("changes", QUIET, wall(taken), "s", note=whole)
        else:
            yield Row("changes", f"{name}, {change_rows:,} change rows", change_rows / wall(taken), "rows/s")
    rate, note = ratio(samples[DRIVER], samples[OURS], lambda sample: sample.wall_seconds)
    yield Row("changes", f"rows/s, of {DRIVER}'s", rate, "x", FLOOR, AIM, note=note)
    yield Row("changes", f"CPU, of {DRIVER}'s", cpu(samples[OURS]) / cpu(samples[DRIVER]), "x")


def _samples(start: Load, change_rows: int, *, repeats: int) -> Samples:
    last = start

    def read_changes() -> None:
        nonlocal last
        last = replace(start, folder=start.folder.with_name(f"copy {time.monotonic_ns()}"))
        shutil.copytree(start.folder, last.folder)
        done = _changes(last)
        assert done.counts.rows == change_rows, f"{done.counts.rows} rows were read, {change_rows} are there"

    def find_nothing() -> None:
        assert _changes(last).counts.rows == 0

    settings, plain = start.connect().settings, f"SELECT * FROM {CHANGE_TABLE}"
    runs: dict[str, Callable[[], object]] = {
        OURS: read_changes,
        DRIVER: lambda: fetch_by_mssql_python(settings, plain),
        QUIET: find_nothing,
    }
    return taking_turns(runs, repeats=repeats)


def _changes(load: Load, *, start_now: bool = False) -> ChangesDone:
    request = ChangesRequest(load.table, load.attempt("changes"), start_now=start_now)
    done = run_changes(request, connect=load.connect)
    assert isinstance(done, ChangesDone), done
    return done


def _make_changes(load: Load, rows: int) -> int:
    """As many change rows, or some fewer, in a few commits; waits until capture has them. How many."""
    each = max(1, rows // IMAGES // COMMITS)
    for number in range(COMMITS):
        load.server.run(
            f"UPDATE dbo.{ORDERS} SET amount = amount + 1, status = 'changed' "
            f"WHERE id >= {number * each} AND id < {(number + 1) * each}"
        )
    wanted, deadline = IMAGES * COMMITS * each, time.monotonic() + CAPTURED_WITHIN_SECONDS
    with load.connect() as session:
        while session.value(Statement(f"SELECT COUNT_BIG(*) AS n FROM {CHANGE_TABLE}")) < wanted:
            assert time.monotonic() < deadline, "capture does not follow"
            time.sleep(0.5)
    return wanted
