"""Random rounds: waves in random order, killed between any two effects, next to a writer; what is rebuilt
is the source.

The rule is the one of docs/guarantees.md, as for whole snapshots; the changes come from the change table.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs import plan_chunks
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot
from airflow_provider_mssql_cdc.jobs.task import Skipped, Step
from airflow_provider_mssql_cdc.model.chunks import PlannedWave
from tests.properties.test_whole_snapshot_converges import COLUMNS, Writer, _change_during, _changes
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows
from tests.support.rebuild import rebuild

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))
SOAK_ROUNDS = int(os.environ.get("MSSQL_CDC_SOAK_ROUNDS", "200"))
KEYS = {
    "one number": "id bigint NOT NULL PRIMARY KEY, name nvarchar(300) NULL",
    "two columns": "id bigint NOT NULL, name nvarchar(300) NULL, UNIQUE (name, id), PRIMARY KEY (id)",
}


class Killed(BaseException):
    """A process that ends here and now."""


class Rounds:
    """One table, one writer, one lake, and what may go wrong at every step."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, *, name: str, rng: random.Random) -> None:
        self.server, self.folder, self.name, self.rng = server, folder, name, rng
        self.runs = 0
        self.by = rng.choice([None, ("name", "id")])
        self.writer = Writer(server, f"dbo.{name}", rng)

    def load(self) -> ChunkedLoad:
        """A further Airflow run."""
        self.runs += 1
        driver: Any = self.rng.choice(["mssql-python", "pymssql"])
        return ChunkedLoad(
            self.server,
            self.folder,
            instance=f"dbo_{self.name}",
            run_id=f"run {self.runs}",
            driver=driver,
            split_by=self.by,
        )

    def at_any_step(self, twin: Callable[[], object] | None = None) -> Callable[[Step], None]:
        """Changes are committed, the process is killed, or another one overtakes it."""

        def on_step(step: Step) -> None:
            self.writer.some()
            fate = self.rng.random()
            if fate < 0.12:
                raise Killed(step)
            if fate < 0.25 and twin is not None:
                twin()

        return on_step

    def complete(self) -> CompletedSnapshot:
        """Runs until one completes: each plans, reads some waves in any order, and may die anywhere."""
        for _ in range(60):
            load = self.load()
            try:
                outcomes = [self.wave(load, wave) for wave in self.plan(load)]
                done = load.finish(outcomes, on_step=self.at_any_step())
            except Killed:
                continue
            if isinstance(done, CompletedSnapshot):
                return done
        raise AssertionError("no run completed")

    def plan(self, load: ChunkedLoad) -> list[PlannedWave]:
        waves = load.waves(
            chunk_rows=self.rng.randrange(5, 60),
            chunks_per_wave=self.rng.choice([None, 1, 3]),
            max_waves=self.rng.choice([2, 100]),
            on_step=self.at_any_step(),
        )
        assert not isinstance(waves, Skipped)
        self.rng.shuffle(waves)
        return waves

    def wave(self, load: ChunkedLoad, wave: PlannedWave) -> Any:
        """Tried until it is not killed; twins run in the middle of it, whole."""
        while True:
            try:
                with _change_during(self.server, self.writer, self.rng):
                    return load.chunk(wave, on_step=self.at_any_step(lambda: self.load().chunk(wave)))
            except Killed:
                continue


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="rounds") as running:
        running.enable_cdc()
        yield running


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_past_the_horizon_the_rebuilt_table_is_the_source(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    one_round(server, tmp_path, monkeypatch, name=f"c{seed}", seed=f"chunked {seed}")


@pytest.mark.soak
def test_hundreds_of_rounds_converge(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(SOAK_ROUNDS):
        one_round(server, tmp_path / str(seed), monkeypatch, name=f"s{seed}", seed=f"soak {seed}")
        server.execute(f"DROP TABLE dbo.s{seed}")


def one_round(
    server: EmbeddedSqlServer, folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, seed: str
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(plan_chunks, "STORE_BOUNDS", rng.choice([1, 2, 1000]))
    server.key_updates = rng.choice(["pair", "images", "inserts first"])
    server.commands = rng.choice(["row", "statement"])
    server.capture_mode = "manual"
    server.execute(
        f"CREATE TABLE dbo.{name} ({rng.choice(list(KEYS.values()))}, "
        "amount decimal(18, 4) NULL, placed datetime2(7) NULL, body varbinary(40) NULL)"
    )
    rounds = Rounds(server, folder, name=name, rng=rng)
    rounds.writer.fill()
    server.enable_cdc(f"dbo.{name}")
    done = rounds.complete()
    assert_converged(rounds, done)


def assert_converged(rounds: Rounds, done: CompletedSnapshot) -> None:
    server = rounds.server
    rounds.writer.some()
    server.capture()
    server.clock.shift(timedelta(seconds=2))
    end = server.idle()
    assert end is not None
    assert done.horizon is not None
    assert end > done.horizon.lsn.text
    rows = delta_rows(rounds.folder / "bronze")
    assert len({(row["_chunk"], row["id"]) for row in rows}) == len(rows), "a chunk landed twice"
    rebuilt = rebuild(
        rows,
        _changes(server, rounds.name),
        key=("id",),
        snapshot=done.snapshot.text,
        end=end,
    )
    source = server.execute(f"SELECT {', '.join(COLUMNS)} FROM dbo.{rounds.name}")
    assert rebuilt == {(row[0],): dict(zip(COLUMNS, row, strict=True)) for row in source}
