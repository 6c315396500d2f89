"""A chunked load against a whole one on the same rows; what planning reads; how large a plan gets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.complete_waves import complete_waves
from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
from airflow_provider_mssql_cdc.jobs.read_wave import read_wave
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, WaveOutcome
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from benchmarks.loads import Load
from benchmarks.measure import cpu, ratio, taking_turns, wall
from benchmarks.report import Row
from benchmarks.servers import Server, measured_server
from benchmarks.tables import make_numbers, make_orders

FLOOR_TIMES, AIM_TIMES = 1.5, 1.15
"""How many times as long as a whole load a chunked one may take."""
FLOOR_KEYS, AIM_KEYS = 3.0, 1.1
"""How often planning may read each key."""
MILLIONS = 4
PIECES = 4
REPEATS = 3
CHUNKS, ROWS_PER_CHUNK, CHUNKS_PER_WAVE = 1000, 10, 40

Connect = Callable[[], SourceSession]


def run(scale: float) -> Iterator[Row]:
    """At scale 1 four million rows of ten columns are loaded, both ways in turn."""
    rows = max(PIECES, int(MILLIONS * 1_000_000 * scale))
    with measured_server() as server:
        if server.no_cdc is not None:
            yield Row("chunked", f"not measured: {server.no_cdc}", 0, "")
            return
        make_numbers(server, min(rows, 250_000))
        make_orders(server, rows)
        yield from _against_whole(server, rows)
    yield from _planning(max(2000, int(100_000 * scale)))
    yield from _size()


def _against_whole(server: Server, rows: int) -> Iterator[Row]:
    samples = taking_turns(
        {"whole": lambda: _whole(server, rows), "chunked": lambda: _chunked(server, rows)}, repeats=REPEATS
    )
    times, note = ratio(samples["chunked"], samples["whole"], lambda sample: sample.wall_seconds)
    what = f"{rows:,} rows in {PIECES} waves, times a whole load in {PIECES} ranges"
    yield Row("chunked", what, times, "×", FLOOR_TIMES, AIM_TIMES, better="lower", note=note)
    used, note = ratio(samples["chunked"], samples["whole"], lambda sample: sample.cpu_seconds)
    yield Row("chunked", "its CPU, times a whole load's", used, "×", note=note)
    yield Row("chunked", "seconds", wall(samples["chunked"]), "s")
    yield Row("chunked", "CPU seconds in this process", cpu(samples["chunked"]), "s")


def _whole(server: Server, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        load = Load(server, Path(folder))
        outcomes = [load.read(planned) for planned in load.planned(ranges=PIECES)]
        assert load.complete(outcomes) == rows


def _chunked(server: Server, rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        table = Load(server, Path(folder)).table
        assert _load(table, server.session, chunk_rows=-(-rows // PIECES), per_wave=1) == rows


def _load(table: MssqlCdcTable, connect: Connect, *, chunk_rows: int, per_wave: int | None) -> int:
    waves = _plan(table, connect, chunk_rows=chunk_rows, per_wave=per_wave)
    outcomes = [
        read_wave(table, wave, attempt=Attempt("bench", "run", "chunk"), connect=connect) for wave in waves
    ]
    came = [outcome for outcome in outcomes if isinstance(outcome, WaveOutcome)]
    done = complete_waves(table, came, attempt=Attempt("bench", "run", "complete"), connect=connect)
    assert not isinstance(done, Skipped)
    return done.rows


def _plan(
    table: MssqlCdcTable, connect: Connect, *, chunk_rows: int, per_wave: int | None
) -> list[PlannedWave]:
    request = ChunkedRequest(
        table,
        Attempt("bench", "run", "plan"),
        chunk_rows=chunk_rows,
        chunks_per_wave=per_wave,
        wait_seconds=0,
    )
    waves = plan_chunks(request, connect=connect)
    assert not isinstance(waves, Skipped)
    return waves


def _planning(rows: int) -> Iterator[Row]:
    """Keys that the embedded server visits for each row of the table while its chunks are planned."""
    shapes = {
        "a sparse number, by a grid": ("k bigint NOT NULL PRIMARY KEY", lambda n: (n * 1_000_003,)),
        "two columns, by seeks": (
            "a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)",
            lambda n: (n % 20, n),
        ),
    }
    for name, (ddl, key) in shapes.items():
        with EmbeddedSqlServer(database="bench") as server, tempfile.TemporaryDirectory() as folder:
            server.execute(f"CREATE TABLE dbo.t ({ddl})")
            marks = ", ".join("?" * len(key(0)))
            server.executemany(f"INSERT INTO dbo.t VALUES ({marks})", (key(n) for n in range(rows)))
            server.enable_cdc("dbo.t")
            table = _table(Path(folder))
            with server.count_reads() as counted:
                waves = _plan(table, lambda: _session(server), chunk_rows=rows // 50, per_wave=1)
            read = sum(one.tables.get("dbo.t", 0) for one in counted.statements)
        note = f"{rows:,} rows, {len(waves)} chunks, {len(counted.statements)} statements that read tables"
        what = f"keys read by planning, for each row: {name}"
        yield Row("chunked", what, read / rows, "", FLOOR_KEYS, AIM_KEYS, better="lower", note=note)


def _size() -> Iterator[Row]:
    """What a load of a thousand chunks leaves beside its rows."""
    with EmbeddedSqlServer(database="bench") as server, tempfile.TemporaryDirectory() as folder:
        server.execute("CREATE TABLE dbo.t (k int NOT NULL PRIMARY KEY)")
        server.executemany("INSERT INTO dbo.t VALUES (?)", ((n,) for n in range(CHUNKS * ROWS_PER_CHUNK)))
        server.enable_cdc("dbo.t")
        table = _table(Path(folder))

        def connect() -> SourceSession:
            return _session(server)

        waves = _plan(table, connect, chunk_rows=ROWS_PER_CHUNK, per_wave=CHUNKS_PER_WAVE)
        _load(table, connect, chunk_rows=ROWS_PER_CHUNK, per_wave=CHUNKS_PER_WAVE)
        plan, facts = (_kilobytes(path) for path in (TableLocation.plans_of(table).uri, table.facts))
    xcom = max(len(json.dumps(wave.to_xcom())) for wave in waves)
    yield Row("chunked", f"plan of {CHUNKS:,} chunks in {len(waves)} waves, with its log", plan, "kB")
    yield Row("chunked", "facts of that load, with their log", facts, "kB")
    yield Row("chunked", "XCom of a wave", xcom, "bytes", 2000, 500, better="lower")


def _table(folder: Path) -> MssqlCdcTable:
    return MssqlCdcTable("bench", "dbo_t", str(folder / "bronze"), str(folder / "facts"))


def _session(server: EmbeddedSqlServer) -> SourceSession:
    return SourceSession(
        ConnectionSettings(
            "bench",
            server.host,
            port=server.port,
            database=server.database,
            login="sa",
            password=server.password_of("sa"),
            encryption="off",
        )
    )


def _kilobytes(folder: str) -> float:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1000
