"""A mapped read (read and stage) against the bare driver that fetches the same rows and drops them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_mssql_cdc.model.plan import PlannedRange
from benchmarks.drivers import fetch_by_mssql_python, fetch_by_pymssql
from benchmarks.loads import Load, first_rows
from benchmarks.measure import Sample, Samples, cpu, ratio, spread, taking_turns, wall
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.tables import COLUMNS, SELECT_ORDERS

RATE_FLOOR, RATE_AIM = 0.5, 0.9
CPU_FLOOR, CPU_AIM = 2.5, 1.5
SERVED_FLOOR, SERVED_AIM = 100_000, 200_000


def run(server: Server, *, rows: int, repeats: int) -> Iterator[Row]:
    """By mssql-python, which has to reach something, and by pymssql for information."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield from _mssql_python(server, Path(folder, "a"), rows=rows, repeats=repeats)
        yield from _pymssql(server, Path(folder, "b"), rows=rows, repeats=max(1, repeats // 3))


def _mssql_python(server: Server, folder: Path, *, rows: int, repeats: int) -> Iterator[Row]:
    load = Load(server, folder, "mssql-python")
    (planned,) = load.planned()
    statement = SELECT_ORDERS.format(rows=rows)
    samples = taking_turns(
        {
            "ours": lambda: _read(load, planned, rows),
            "driver": lambda: fetch_by_mssql_python(load.connect().settings, statement),
        },
        repeats=repeats,
    )
    if server.name == "embedded":
        rates = [rows / sample.wall_seconds for sample in samples["driver"]]
        yield Row(
            "server",
            "embedded server to the bare driver",
            rows / wall(samples["driver"]),
            "rows/s",
            SERVED_FLOOR,
            SERVED_AIM,
            note=spread(rates),
        )
    yield from _compared("mssql-python", samples, rows, judged=True)


def _pymssql(server: Server, folder: Path, *, rows: int, repeats: int) -> Iterator[Row]:
    load = Load(server, folder, "pymssql")
    (planned,) = load.planned()
    statement = SELECT_ORDERS.format(rows=rows)
    samples = taking_turns(
        {
            "ours": lambda: _read(load, planned, rows),
            "driver": lambda: fetch_by_pymssql(load.connect().settings, statement),
        },
        repeats=repeats,
        warm_up=False,
    )
    yield from _compared("pymssql", samples, rows, judged=False)


def _read(load: Load, planned: PlannedRange, rows: int) -> None:
    outcome = load.read(planned, first_rows(rows))
    assert outcome.rows == rows, f"{outcome.rows} rows were read, {rows} are there"


def _compared(name: str, samples: Samples, rows: int, *, judged: bool) -> Iterator[Row]:
    ours, driver = samples["ours"], samples["driver"]
    rate, rate_spread = ratio(driver, ours, lambda sample: sample.wall_seconds)
    work, work_spread = ratio(ours, driver, lambda sample: sample.cpu_seconds)
    yield Row("read", f"{name}: read and stage", rows / wall(ours), "rows/s")
    yield Row("read", f"{name}: bare driver", rows / wall(driver), "rows/s")
    yield Row(
        "read",
        f"{name}: rows/s, of the bare driver's",
        rate,
        "x",
        *((RATE_FLOOR, RATE_AIM) if judged else (None, None)),
        note=rate_spread,
    )
    yield Row("read", f"{name}: read and stage", _per_million_cells(ours, rows), "CPU s/Mcell")
    yield Row("read", f"{name}: bare driver", _per_million_cells(driver, rows), "CPU s/Mcell")
    yield Row(
        "read",
        f"{name}: CPU, of the bare driver's",
        work,
        "x",
        *((CPU_FLOOR, CPU_AIM) if judged else (None, None)),
        better="lower",
        note=work_spread,
    )


def _per_million_cells(samples: list[Sample], rows: int) -> float:
    return cpu(samples) / (rows * len(COLUMNS)) * 1e6
