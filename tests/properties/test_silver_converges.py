"""Random histories into bronze, in any order of windows, twice, repaired, rearranged; then silver.

At every merge silver is what the rule of docs/guarantees.md makes of bronze, row by row, by a rebuild of the
rule that knows nothing of the package. When all of the history is there it is the source as well.
"""

from __future__ import annotations

import os
import random
import secrets
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.changes import StagedWindow
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.support.silver_world import IDENTITY, Row, World, change, lsn, snapshot_row

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))
FIRST_SNAPSHOT, COMMITS = 10, 36

SHAPES: dict[str, tuple[tuple[LakeColumn, ...], list[Any]]] = {
    "a bigint": ((LakeColumn("id", "id", "int64"),), [(n,) for n in range(-5, 9)]),
    "a text whose case counts": (
        (LakeColumn("Code", "Code", "string"),),
        [(text,) for text in ("a", "A", "a ", "b", "B", "", "ü", "Ü", "🌺", "zz" * 40)],
    ),
    "a tenant and a number": (
        (LakeColumn("tenant", "tenant", "string"), LakeColumn("Nr", "Nr", "int32")),
        [(tenant, number) for tenant in ("t", "T", "u") for number in range(4)],
    ),
}


class History:
    """A source table that lives through random commits; what CDC records of each, and its rows after each."""

    def __init__(self, rng: random.Random, names: tuple[str, ...], keys: list[Any]) -> None:
        self.rng, self.names, self.keys = rng, names, keys
        self.form = rng.choice(["pair", "images"])
        self.rows: dict[Any, str] = {key: "first" for key in keys if rng.random() < 0.6}
        self.recorded: dict[int, list[Row]] = {}
        self.states: dict[int, dict[Any, str]] = {}
        for number in range(1, COMMITS):
            self.recorded[number] = self._commit(number)
            self.states[number] = dict(self.rows)

    def values(self, key: Any, value: str) -> Row:
        return dict(zip(self.names, key, strict=True)) | {"v": value}

    def _commit(self, number: int) -> list[Row]:
        recorded: list[Row] = []
        for command in range(1, self.rng.randrange(1, 5)):
            recorded += self._statement(number, command)
        return recorded

    def _statement(self, number: int, command: int) -> list[Row]:
        key, other = self.rng.choice(self.keys), self.rng.choice(self.keys)
        value, old = f"{number}.{command}", self.rows.get(key)

        def row(operation: int, of: Any, holds: str) -> Row:
            seq = self.rng.randrange(1, 9) if operation in (1, 2) else command
            return change(number, operation, self.values(of, holds), seq=seq, command=command)

        if old is None:
            self.rows[key] = value
            return [row(2, key, value)]
        if self.rng.random() < 0.3:
            del self.rows[key]
            return [row(1, key, old)]
        if other in self.rows or other == key:
            self.rows[key] = value
            return [row(3, key, old), row(4, key, value)]
        del self.rows[key]
        self.rows[other] = value
        gone, comes = (1, 2) if self.form == "pair" else (3, 4)
        return [row(gone, key, old), row(comes, other, value)]


class Round:
    """One random order of what can happen to bronze and silver."""

    def __init__(self, world: World, history: History, rng: random.Random) -> None:
        self.world, self.history, self.rng = world, history, rng
        self.snapshot = FIRST_SNAPSHOT
        self.waiting = self._windows()
        self.given: list[tuple[int, int]] = []

    def _windows(self) -> list[tuple[int, int]]:
        """Half-open ranges of commits, from a few below the first snapshot to the end, in any order."""
        cuts = sorted(self.rng.sample(range(FIRST_SNAPSHOT - 4, COMMITS), 7))
        windows = list(zip([1, *cuts], [*cuts, COMMITS], strict=True))
        self.rng.shuffle(windows)
        return windows

    def rows_of(self, window: tuple[int, int]) -> list[Row]:
        rows = [row for number in range(*window) for row in self.history.recorded[number]]
        self.rng.shuffle(rows)
        return rows

    def load(self, number: int, *, chunked: bool) -> None:
        """A snapshot; the chunks of a chunked one are stamped, and read, somewhat later than it."""
        rows: list[Row] = []
        for key in self.history.keys:
            stamp = min(number + (sum(map(len, map(str, key))) % 3 if chunked else 0), COMMITS - 1)
            seen = min(stamp + (sum(map(len, map(str, key))) % 2), COMMITS - 1)
            value = self.history.states[seen].get(key)
            if value is not None:
                chunk = 0 if chunked else None
                rows.append(
                    snapshot_row(stamp, self.history.values(key, value), snapshot=number, chunk=chunk)
                )
        self.world.snapshot(number, rows, row_group=self.rng.choice([None, 3]))
        self.snapshot = number

    def step(self) -> None:
        what = self.rng.choice(["window", "window", "window", "again", "repair", "rearrange", "snapshot"])
        if what == "window" and self.waiting:
            self.given.append(self.waiting.pop())
            self.world.changes(self.rows_of(self.given[-1]), statistics=self.rng.random() < 0.7)
        elif what == "again" and self.given:
            self.world.changes(self.rows_of(self.rng.choice(self.given)))
        elif what == "repair" and self.given:
            self.repair(self.rng.choice(self.given))
        elif what == "rearrange":
            self.world.optimize(self.rng.choice([self.world.bronze_at, self.world.silver_at]))
            if self.rng.random() < 0.3:
                DeltaTable(self.world.bronze_at.uri).vacuum(
                    0, dry_run=False, enforce_retention_duration=False
                )
        elif what == "snapshot" and self.snapshot + 6 < COMMITS and self.rng.random() < 0.4:
            self.load(self.rng.randrange(self.snapshot + 1, COMMITS - 3), chunked=self.rng.random() < 0.5)

    def repair(self, window: tuple[int, int]) -> None:
        bronze = self.world.bronze
        assert bronze.state.coverage is not None
        batch = read_changes_state(bronze.table).batch + 1
        prefix = f"repair-{secrets.token_hex(4)}"
        table = self.world.table([row | {"_batch_id": batch} for row in self.rows_of(window)])
        path = Path(bronze.location.uri, f"{prefix}-0.parquet")
        pq.write_table(table, path)
        files = [StagedFile(path.name, path.stat().st_size, table.num_rows)]
        replace_changes(
            bronze,
            StagedWindow(
                Window(lsn(window[0] - 1), lsn(window[1] - 1)), files if table.num_rows else [], batch
            ),
            identity=IDENTITY,
            prefix=prefix,
            position=bronze.state.coverage.changes,
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_silver_is_what_the_rule_makes_of_bronze_at_every_merge(
    tmp_path: Path, seed: int, shape: str
) -> None:
    rng = random.Random(f"{seed} {shape}")
    columns, keys = SHAPES[shape]
    names = tuple(column.name for column in columns)
    world = World(tmp_path, columns=(*columns, LakeColumn("v", "v", "string")), key=names)
    history = History(rng, names, keys)
    round_ = Round(world, history, rng)
    round_.load(FIRST_SNAPSHOT, chunked=rng.random() < 0.5)
    world.merge()
    world.check()
    for _ in range(10):
        round_.step()
        if rng.random() < 0.6:
            world.merge()
            world.check()
    for window in round_.waiting:
        world.changes(round_.rows_of(window))
    world.merge()
    world.check()
    source = {tuple(key): value for key, value in history.rows.items()}
    assert {key: row["v"] for key, row in world.rows().items()} == source
