"""Random rounds of everything: past the horizon silver is the source, row by row.

A random table with a history that nobody recorded; whole and chunked snapshots; changes by window and by
interval, again and side by side; merges; gaps, lost instances, columns that come and go, and resnapshots. At
any call of the package's own code the process may die, or a connection break. Either driver does any task.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    MssqlCdcError,
    RetentionGap,
    RetryableError,
    SchemaDrift,
    SourceObjectMissing,
    Superseded,
)
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.model.chunks import WaveOutcome
from airflow_provider_mssql_cdc.planning.columns import lake_name
from airflow_provider_mssql_cdc.planning.windows import DataInterval
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows
from tests.support.mortal import Killed, Mortal
from tests.support.random_table import RandomTable
from tests.support.told_twice import told_twice

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))
STEPS = 12
TRIES = 60
BEGAN = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)
WHILE_IT_WORKS = r"cdc|FROM \[dbo\]"
"""Not while it connects: of one process only one connects at a time, and the twin is in the same process."""
T = TypeVar("T")


class Round:
    """One table, its lake, and whatever runs on it."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, rng: random.Random) -> None:
        self.server, self.folder, self.rng = server, folder, rng
        self.source = RandomTable(server, "orders", rng)
        self.instance = "dbo_orders"
        self.split_by = rng.choice([None, None, self.source.other_than_key])
        self.mortal = Mortal(rng, share=0.4)
        self.silver = str(folder / "silver")
        self.runs = 0
        self.loaded = False
        self.losses = self.healed = 0

    @property
    def lost(self) -> bool:
        """Whether changes were lost that no snapshot has made good."""
        return self.losses > self.healed

    # -- what happens to the source

    def write(self) -> None:
        """Nothing, or some transactions, time passing between them; capture follows or lags."""
        for _ in range(self.rng.randrange(4)):
            self.source.transaction()
            self.server.clock.shift(timedelta(seconds=self.rng.choice([0, 1, 40, 700])))
            if self.rng.random() < 0.6:
                self.server.capture(commits=self.rng.randrange(1, 4))

    def lose_changes(self) -> None:
        """Cleanup overtakes the position, or the instance is dropped and made again."""
        self.write()
        self.server.capture()
        self.tick()
        if self.rng.random() < 0.5:
            self.source.transaction()
            self.server.capture()
            self.server.cleanup(up_to=self.tick())
        else:
            self.server.execute(
                "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'orders', "
                f"@capture_instance = N'{self.instance}'"
            )
            if self.rng.random() < 0.5:
                self.source.gain_a_column()
            self.write()
            self.server.enable_cdc("dbo.orders")
        self.losses += 1

    def tick(self) -> str:
        """Let some seconds pass and capture note it; the LSN it has reached."""
        self.server.clock.shift(timedelta(seconds=3))
        reached = self.server.idle()
        assert reached is not None
        return reached

    # -- tasks

    def by(self, run: str, number: int = 1) -> ChunkedLoad:
        """One try of one run, by either driver."""
        driver: Any = self.rng.choice(["mssql-python", "pymssql"])
        load = ChunkedLoad(
            self.server,
            self.folder,
            instance=self.instance,
            run_id=run,
            driver=driver,
            split_by=self.split_by,
        )
        load.try_number = number
        return load

    def new_run(self) -> str:
        self.runs += 1
        return f"run {self.runs}"

    def task(self, kind: str, run: str, job: Callable[[ChunkedLoad], T]) -> T:
        """As Airflow runs it: again when it was killed or says that another try can succeed."""
        for number in range(1, TRIES):
            self.write()
            one_try = partial(job, self.by(run, number))
            with self.trouble(partial(job, self.by(run, number))):
                try:
                    return self.mortal.call(kind, one_try)
                except (Killed, RetryableError):
                    self.server.capture()
        raise AssertionError(f"{kind}: {TRIES} tries")

    @contextlib.contextmanager
    def trouble(self, twin: Callable[[], object]) -> Iterator[None]:
        """A connection breaks, somebody writes, or another process does the same, at some statement."""

        def beside() -> None:
            with contextlib.suppress(MssqlCdcError):
                twin()

        at = self.rng.randrange(1, 20)
        match self.rng.choice(["none", "none", "break", "write", "twin"]):
            case "break":
                self.server.faults.drop(".", occurrence=2 * at, after_rows=self.rng.choice([None, 0, 2]))
            case "write":
                self.server.faults.run(WHILE_IT_WORKS, self.write, occurrence=at)
            case "twin":
                self.server.faults.run(WHILE_IT_WORKS, beside, occurrence=at)
        try:
            yield
        finally:
            self.server.faults.clear()

    # -- loads

    def load(self) -> None:
        """Runs until one is complete; one that loses changes while it loads may say so instead."""
        how, resnapshot = self.rng.choice([self._whole, self._chunked]), self.loaded
        losses = self.losses
        for _ in range(TRIES):
            try:
                done = how(self.new_run(), resnapshot)
            except (RetentionGap, SchemaDrift, SourceObjectMissing, Superseded):
                if self.losses == losses:
                    raise
                losses, resnapshot = self.losses, True
                continue
            if done is not None:
                self.loaded, self.healed = True, losses
                return
        raise AssertionError("no run completed")

    def _whole(self, run: str, resnapshot: bool) -> CompletedSnapshot:
        size, most = self.rng.randrange(1, 20), self.rng.randrange(1, 7)
        planned = self.task(
            "plan",
            run,
            lambda load: load.plan(rows_per_range=size, max_ranges=most, resnapshot=resnapshot),
        )
        again = self.rng.sample(planned, self.rng.randrange(len(planned) + 1))
        staged = {}
        for item in [*self.rng.sample(planned, len(planned)), *again]:
            staged[item.index] = self.task("read", run, partial(ChunkedLoad.read, planned=item))
        return self.task("complete", run, lambda load: load.complete(list(staged.values())))

    def _chunked(self, run: str, resnapshot: bool) -> CompletedSnapshot | None:
        asked = {
            "chunk_rows": self.rng.randrange(2, 15),
            "chunks_per_wave": self.rng.choice([None, 1, 3]),
            "max_waves": self.rng.choice([3, 100]),
        }
        planned = self.task("plan chunks", run, lambda load: load.waves(resnapshot=resnapshot, **asked))
        assert not isinstance(planned, Skipped)
        again = self.rng.sample(planned, self.rng.randrange(len(planned) + 1))
        outcomes: dict[int, WaveOutcome | Skipped] = {}
        for wave in [*self.rng.sample(planned, len(planned)), *again]:
            outcomes[wave.wave] = self.task("wave", run, partial(ChunkedLoad.chunk, wave=wave))
            if self.rng.random() < 0.3:
                self.rng.choice([self.changes, self.merge])()
            if self.rng.random() < 0.05:
                self.lose_changes()
        done = self.task("complete chunks", run, lambda load: load.finish(list(outcomes.values())))
        return done if isinstance(done, CompletedSnapshot) else None

    # -- changes and silver

    def changes(self) -> None:
        """One run, of windows up to what is captured, or of an interval; a gap is what it must be."""
        asked: dict[str, Any] = {"max_commits": self.rng.choice([None, 1, 3])}
        if self.rng.random() < 0.5:
            elapsed = (self.server.clock.utc() - BEGAN).total_seconds()
            ends = sorted(BEGAN + timedelta(seconds=self.rng.uniform(-60, elapsed + 60)) for _ in range(2))
            asked |= {"interval": DataInterval(ends[0], ends[1]), "to_interval_end": True}
        try:
            self.task("changes", self.new_run(), lambda load: self._changes(load, **asked))
        except RetentionGap as exc:
            if not self.lost and "Bronze is unchanged" not in str(exc):
                raise

    def _changes(self, load: ChunkedLoad, **asked: Any) -> object:
        request = ChangesRequest(load.table, load.attempt("changes"), **asked)
        return run_changes(request, connect=load.connect)

    def merge(self) -> object:
        return self.task("merge", self.new_run(), self._merge)

    def _merge(self, load: ChunkedLoad) -> object:
        order = MergeOrder(load.table, self.silver, load.attempt("merge"))
        return merge_silver(order, connect=load.connect)

    def rearrange(self) -> None:
        """An OPTIMIZE of bronze or of silver."""
        for path in (str(self.folder / "bronze"), self.silver):
            if self.rng.random() < 0.5 and Path(path, "_delta_log").exists():
                DeltaTable(path).optimize.compact()

    def step(self) -> None:
        steps = [self.write, self.changes, self.changes, self.merge, self.rearrange]
        if self.rng.random() < 0.05:
            steps = [self.source.lose_a_column]
        elif self.rng.random() < 0.15:
            steps = [self.load] if self.lost or self.rng.random() < 0.5 else [self.lose_changes]
        self.rng.choice(steps)()

    # -- the end

    def catch_up(self) -> MergedSilver:
        """Whatever is lacking is done: a resnapshot after a gap, all changes, and a merge that lives."""
        while self.lost:
            self.load()
        self.server.capture()
        self.tick()
        load = self.by(self.new_run())
        self._changes(load, quiet_seconds=0)
        merged = self._merge(load)
        assert isinstance(merged, MergedSilver), merged
        return merged

    def check(self, merged: MergedSilver) -> None:
        assert merged.consistency.passed, merged.consistency.reason
        assert self.rows(self.silver) == self.source_rows()
        self.nothing_twice()

    def rows(self, path: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The table's own columns by its key, each key once."""
        columns = {lake_name(name): name for name, _ in (*self.source.key, *self.source.data)}
        found = [{name: row[in_lake] for in_lake, name in columns.items()} for row in delta_rows(path)]
        by_key = {tuple(row[name] for name, _ in self.source.key): row for row in found}
        assert len(by_key) == len(found), "a key is there twice"
        return by_key

    def source_rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The table that stands still now, as one further snapshot reads it."""
        load = ChunkedLoad(self.server, self.folder / "as it is", instance=self.instance, driver="pymssql")
        done = load.all()
        (counted,) = self.server.execute(f"SELECT COUNT(*) FROM {self.source.table}")
        assert counted == (done.rows,)
        return self.rows(load.table.bronze)

    def nothing_twice(self) -> None:
        rows = delta_rows(self.folder / "bronze")
        names = ("_start_lsn", "_command_id", "_seqval", "_operation")
        changes = Counter(tuple(row[name] for name in names) for row in rows if row["_operation"] > 0)
        assert max(changes.values(), default=1) == 1, "a change is there twice"
        assert told_twice(self.folder / "facts") == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a generator that was killed
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_past_the_horizon_silver_is_the_source(tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"everything {seed}")
    with EmbeddedSqlServer(database="rounds") as server:
        server.clock.freeze(BEGAN)
        server.capture_mode = "manual"
        server.key_updates = rng.choice(["pair", "images", "inserts first"])
        server.commands = rng.choice(["row", "statement"])
        round_ = Round(server, tmp_path, rng)
        round_.source.fill()
        server.enable_cdc("dbo.orders")
        round_.load()
        for _ in range(STEPS):
            round_.step()
        round_.check(round_.catch_up())
