"""Random rounds: a snapshot, then runs of changes in any order, again, at the same time and killed, and
bronze alone rebuilds the source; bronze's change rows are those of the change table, each once.

The history goes through the night in which an hour repeats, in a zone that has one, half of the time.
"""

from __future__ import annotations

import contextlib
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import RetentionGap, RetryableError
from tests.support.changes_world import CHANGE_ROWS, ChangesWorld, some_text

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))
STEPS = 14
AUTUMN_NIGHT = datetime(2026, 10, 24, 23, 40, tzinfo=UTC)
KEYS = range(-20, 25)


class Round:
    """One random history and everything that reads it."""

    def __init__(self, world: ChangesWorld, rng: random.Random) -> None:
        self.world, self.rng, self.server = world, rng, world.server
        self.began = self.server.clock.utc()
        self.refused: list[str] = []

    # -- the writer

    def write(self) -> None:
        """Some transactions, time passing between them; capture follows or lags."""
        for _ in range(self.rng.randrange(1, 5)):
            with self.server.session() as session:
                session.run("BEGIN TRANSACTION")
                for _ in range(self.rng.randrange(1, 5)):
                    self._statement(session)
                session.run("COMMIT TRANSACTION" if self.rng.random() < 0.9 else "ROLLBACK TRANSACTION")
            self.server.clock.shift(timedelta(seconds=self.rng.choice([0, 0, 1, 40, 700])))
            if self.rng.random() < 0.6:
                self.server.capture(commits=self.rng.randrange(1, 4))

    def _statement(self, session: Any) -> None:
        table = f"dbo.{self.world.name}"
        key, other = self.rng.choice(KEYS), self.rng.choice(KEYS)
        present = {row[0] for row in session.rows(f"SELECT id FROM {table}")}
        amount = f"{self.rng.randrange(-(10**13), 10**13)}.{self.rng.randrange(10**4):04d}"
        match self.rng.choice(["insert", "insert", "update", "delete", "move", "reinsert", "many", "shift"]):
            case "insert" if key not in present:
                row = (key, some_text(self.rng), amount)
                session.rows(f"INSERT INTO {table} VALUES (?, ?, ?)", *row)
            case "update":
                session.rows(f"UPDATE {table} SET amount = ? WHERE id = ?", amount, key)
            case "delete":
                session.rows(f"DELETE FROM {table} WHERE id = ?", key)
            case "move" if key in present and other not in present:
                session.rows(f"UPDATE {table} SET id = ? WHERE id = ?", other, key)
            case "reinsert" if key in present:
                session.rows(f"DELETE FROM {table} WHERE id = ?", key)
                session.rows(f"INSERT INTO {table} VALUES (?, ?, ?)", key, some_text(self.rng), amount)
            case "many":
                session.rows(f"UPDATE {table} SET name = ? WHERE id >= ?", f"many {key}", key)
            case "shift" if present and max(present) < 1000:
                session.rows(f"UPDATE {table} SET id = id + 1 WHERE id >= ?", key)

    # -- the reader

    def read(self) -> None:
        """A run of changes of any kind; another one meanwhile, or an OPTIMIZE, or a broken connection."""
        trouble = self.rng.choice(["none", "none", "break", "side by side", "optimize", "write"])
        if trouble == "break":
            self.server.faults.drop(".", occurrence=self.rng.randrange(1, 70))
        elif trouble != "none":
            meanwhile = {"side by side": self.attempt, "optimize": self.optimize, "write": self.write}[
                trouble
            ]
            after = self.rng.choice([None, 0, 1])
            self.server.faults.run(CHANGE_ROWS, meanwhile, after_rows=after)
        self.attempt()
        self.server.faults.clear()

    def attempt(self) -> None:
        before = self.world.position()
        with contextlib.suppress(RetryableError):
            try:
                self._run()
            except RetentionGap as exc:
                self.refused.append(str(exc))
        assert self.world.position() >= before

    def _run(self) -> None:
        asked = {"max_commits": self.rng.choice([None, 1, 3]), "quiet_seconds": self.rng.choice([0, 300])}
        if self.rng.random() < 0.5:
            self.world.run(**asked)
            return
        elapsed = (self.server.clock.utc() - self.began).total_seconds()
        ends = sorted(self.began + timedelta(seconds=self.rng.uniform(-60, elapsed + 60)) for _ in range(2))
        self.world.interval(ends[0], ends[1], **asked)

    def optimize(self) -> None:
        DeltaTable(self.world.table.bronze).optimize.compact()

    def clean_up(self) -> None:
        """Cleanup never overtakes the position here: what it takes away makes repairs fail."""
        with contextlib.suppress(Exception):
            self.server.cleanup(up_to=self.world.position())


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_bronze_alone_rebuilds_the_source_whatever_happened_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, driver: str
) -> None:
    rng = random.Random(f"{seed} {driver}")
    with EmbeddedSqlServer(database="rounds", time_zone=rng.choice(["UTC", "Europe/Berlin"])) as server:
        server.clock.freeze(AUTUMN_NIGHT if seed % 2 else AUTUMN_NIGHT + timedelta(days=3))
        server.capture_mode = "manual"
        server.key_updates = rng.choice(["pair", "images", "inserts first"])
        server.commands = rng.choice(["row", "statement"])
        world = ChangesWorld(server, tmp_path, driver=driver)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*rng.sample(list(KEYS), 20))
        server.enable_cdc("dbo.orders")
        history = Round(world, rng)
        history.write()
        world.bootstrap()
        cleaned = False
        for _ in range(STEPS):
            rng.choice([history.write, history.read, history.read])()
            if rng.random() < 0.05:
                history.clean_up()
                cleaned = True
        server.capture()
        world.tick()
        world.changes(quiet_seconds=0)
        assert world.rebuilt() == world.source()
        assert all("Bronze is unchanged" in refusal for refusal in history.refused), "a repair, never a gap"
        assert max(world.change_rows().values(), default=1) == 1
        if not cleaned:
            assert world.change_rows() == world.recorded_rows()
