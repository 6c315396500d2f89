"""Against ``MsSqlHook.get_df`` and ``write_deltalake``, the way people load a table today."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_mssql_cdc.source.settings import pymssql_extras
from benchmarks.loads import Load, first_rows
from benchmarks.measure import ratio, taking_turns, wall
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.tables import SELECT_ORDERS

FLOOR, AIM = 3, 8


def run(server: Server, *, rows: int, repeats: int) -> Iterator[Row]:
    """Both end with a Delta table on disk; ours with its plan, its read and its commit."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        numbered = (Path(folder, str(number)) for number in range(10_000))
        samples = taking_turns(
            {
                "ours": lambda: _ours(Load(server, next(numbered)), rows),
                "today": lambda: _today(server, next(numbered), rows),
            },
            repeats=repeats,
        )
    times, spread = ratio(samples["today"], samples["ours"], lambda sample: sample.wall_seconds)
    cpu_times, _ = ratio(samples["today"], samples["ours"], lambda sample: sample.cpu_seconds)
    yield Row("today", "plan, read and complete", rows / wall(samples["ours"]), "rows/s")
    yield Row("today", "MsSqlHook.get_df + write_deltalake", rows / wall(samples["today"]), "rows/s")
    yield Row("today", "faster than that", times, "x", FLOOR, AIM, note=spread)
    yield Row("today", "less CPU than that", cpu_times, "x")


def _ours(load: Load, rows: int) -> None:
    (planned,) = load.planned()
    assert load.complete([load.read(planned, first_rows(rows))]) == rows


def _today(server: Server, folder: Path, rows: int) -> None:
    import pyarrow as pa
    from airflow.providers.microsoft.mssql.hooks.mssql import MsSqlHook
    from deltalake import write_deltalake

    connection = server.connection()
    connection.extra = json.dumps(pymssql_extras(connection.extra_dejson))
    hook = MsSqlHook("bench", connection=connection)
    frame = hook.get_df(SELECT_ORDERS.format(rows=rows), df_type="pandas")
    frame["reference"] = frame["reference"].map(str)  # no Arrow type is guessed for a UUID
    write_deltalake(str(folder), pa.Table.from_pandas(frame))
