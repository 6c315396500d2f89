"""A mapped read (read and stage) against the bare driver that fetches the same rows and drops them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from benchmarks.drivers import fetch_by_mssql_python, fetch_by_pymssql
from benchmarks.loads import Load, first_rows
from benchmarks.measure import Samples, cpu, ratio, served, spread, taking_turns, wall
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.tables import COLUMNS, SELECT_ORDERS

RATE_FLOOR, RATE_AIM = 0.5, 0.9
CPU_FLOOR, CPU_AIM = 2.5, 1.5
SERVED_FLOOR, SERVED_AIM = 100_000, 200_000
OURS, DRIVER, SAME = "read and stage", "bare driver", "bare driver, same statement"
WARM_UP_ROWS = 1000

Fetch = Callable[[ConnectionSettings, str], int]


def run(server: Server, *, rows: int, repeats: int) -> Iterator[Row]:
    """By mssql-python, which has to reach something, and by pymssql for information."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        load = Load(server, Path(folder, "a"), "mssql-python")
        samples = _samples(load, fetch_by_mssql_python, rows=rows, repeats=repeats)
        if server.name == "embedded":
            yield from _served(samples, rows)
        yield from _compared("mssql-python", samples, rows, judged=True)
        load = Load(server, Path(folder, "b"), "pymssql")
        samples = _samples(load, fetch_by_pymssql, rows=rows, repeats=max(1, repeats // 3))
        yield from _compared("pymssql", samples, rows, judged=False)


def _samples(load: Load, fetch: Fetch, *, rows: int, repeats: int) -> Samples:
    """The product; the driver with the query that a person would write; the driver with the product's."""
    (planned,) = load.planned()
    settings = load.connect().settings

    def read(count: int) -> None:
        outcome = load.read(planned, first_rows(count))
        assert outcome.rows == count, f"{outcome.rows} rows were read, {count} are there"

    plain, projected = SELECT_ORDERS.format(rows=rows), load.statement(rows)
    read(min(rows, WARM_UP_ROWS))
    return taking_turns(
        {
            OURS: lambda: read(rows),
            DRIVER: lambda: fetch(settings, plain),
            SAME: lambda: fetch(settings, projected),
        },
        repeats=repeats,
    )


def _served(samples: Samples, rows: int) -> Iterator[Row]:
    """How fast the embedded server is: it must not hide what it serves."""
    rates = [rows / sample.wall_seconds for sample in samples[DRIVER]]
    yield Row(
        "server",
        "embedded server: to the bare driver",
        rows / wall(samples[DRIVER]),
        "rows/s",
        SERVED_FLOOR,
        SERVED_AIM,
        note=spread(rates),
    )
    for name, what in ((DRIVER, "plain columns"), (SAME, "the product's statement")):
        work = _per_million_cells(served(samples[name]), rows)
        yield Row("server", f"embedded server: its own CPU, {what}", work, "CPU s/Mcell")


def _compared(name: str, samples: Samples, rows: int, *, judged: bool) -> Iterator[Row]:
    for what, taken in samples.items():
        yield Row("read", f"{name}: {what}", rows / wall(taken), "rows/s")
    for what, taken in samples.items():
        yield Row("read", f"{name}: {what}", _per_million_cells(cpu(taken), rows), "CPU s/Mcell")
    for other in (DRIVER, SAME):
        marks = judged and other == DRIVER
        rate, note = ratio(samples[other], samples[OURS], lambda sample: sample.wall_seconds)
        marked = (RATE_FLOOR, RATE_AIM) if marks else (None, None)
        yield Row("read", f"{name}: rows/s, of {other}'s", rate, "x", *marked, note=note)
        work, note = ratio(samples[OURS], samples[other], lambda sample: sample.cpu_seconds)
        marked = (CPU_FLOOR, CPU_AIM) if marks else (None, None)
        yield Row("read", f"{name}: CPU, of {other}'s", work, "x", *marked, better="lower", note=note)


def _per_million_cells(seconds: float, rows: int) -> float:
    return seconds / (rows * len(COLUMNS)) * 1e6
