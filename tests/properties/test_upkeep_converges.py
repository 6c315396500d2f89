"""Random histories with fold, compact, vacuum, repairs, resnapshots and a silver that is behind.

The oracle is the history itself, which knows nothing of the package: after every merge silver is the source
at silver's position, and so is a silver that is built from bronze alone. What bronze's readers count on does
not change by upkeep: rows that are moved are the same rows, and a fold's snapshot is the source at its LSN.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.compact import compact_bronze, compact_silver
from airflow_provider_mssql_cdc.lake.fold import CannotFold, FoldRequest, fold
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.vacuum import vacuum, version_to_keep
from airflow_provider_mssql_cdc.model.capture import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.properties.test_silver_converges import COMMITS, SHAPES, History, Round
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import World, lsn

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "8")) // 2
FIRST_SNAPSHOT = 3
TINY = 64 << 10


class UpkeepRound(Round):
    """Windows come in order, as changes read them; upkeep comes between."""

    def __init__(self, world: World, history: History, rng: random.Random) -> None:
        super().__init__(world, history, rng)
        self.snapshot = FIRST_SNAPSHOT
        self.reached, self.folds = FIRST_SNAPSHOT, 0

    def step(self) -> None:
        steps = [
            self.window,
            self.window,
            self.again,
            self.compact,
            self.fold,
            self.fold,
            self.vacuum,
            self.resnapshot,
        ]
        self.rng.choice(steps)()

    def window(self) -> None:
        end = min(self.reached + self.rng.randrange(1, 5), COMMITS - 1)
        if end > self.reached:
            window = (self.reached + 1, end + 1)
            self.world.changes(self.rows_of(window), until=end)
            self.given.append(window)
            self.reached = end

    def again(self) -> None:
        base = self.base
        if windows := [window for window in self.given if window[0] > base]:
            self.repair(self.rng.choice(windows))

    @property
    def base(self) -> int:
        coverage = self.world.bronze.state.coverage
        assert coverage is not None
        return coverage.base.value >> 40

    def compact(self) -> None:
        before = everything(self.world.bronze), everything(self.world.silver)
        compact_bronze(self.world.bronze, run_id="up", target_bytes=TINY)
        compact_silver(self.world.silver, run_id="up", target_bytes=TINY)
        assert (everything(self.world.bronze), everything(self.world.silver)) == before

    def fold(self) -> None:
        bronze, silver = self.world.bronze, self.world.silver
        position = silver.position
        assert position is not None
        if position.snapshot != bronze.state.snapshot:
            return
        merged = position.changes.value >> 40
        if merged <= self.snapshot + 2:  # a chunked snapshot is stamped up to two commits later
            return
        at = self.rng.randrange(self.snapshot + 3, merged + 1)
        kept = self.rng.choice([at, self.rng.randrange(self.snapshot, at + 1)])
        request = FoldRequest(bronze, stamp(at), silver.key, position, take_up_to=lsn(kept), run_id="up")
        try:
            folded = fold(request)
        except CannotFold:
            assert bronze.version > position.version, "nothing came that silver has not merged"
            return
        self.snapshot, self.folds = at, self.folds + 1
        assert folded.rows == len(self.history.states[at])
        assert self.folded_rows(lsn(at)) == self.history.states[at]

    def folded_rows(self, at: Lsn) -> dict[Any, Any]:
        rows = delta_rows(self.world.bronze_at.uri, f"_snapshot = '{at.text}'")
        assert {(row["_operation"], row["_start_lsn"]) for row in rows} <= {(0, at.text)}
        return {tuple(row[name] for name in self.world.key): row["v"] for row in rows}

    def vacuum(self) -> None:
        bronze, silver = self.world.bronze, self.world.silver
        vacuum(bronze, hours=0, keep=version_to_keep(bronze, silver))
        vacuum(silver, hours=0)

    def resnapshot(self) -> None:
        if self.snapshot + 4 < self.reached and self.rng.random() < 0.3:
            self.load(self.rng.randrange(self.snapshot + 1, self.reached - 2), chunked=False)

    def check(self) -> None:
        """Silver, and a silver that is built from bronze alone, are the source at their position."""
        expected = self.history.states[self.reached]
        assert {key: row["v"] for key, row in self.world.rows().items()} == expected
        again = World.__new__(World)
        again.__dict__.update(self.world.__dict__)
        again.silver_at = TableLocation(f"{self.world.silver_at.uri}-again-{self.rng.random()}")
        again.merge()
        assert {key: row["v"] for key, row in again.rows().items()} == expected


def stamp(number: int) -> CommitStamp:
    return CommitStamp(lsn(number), datetime(2026, 1, 1, 0, number, tzinfo=UTC))


def everything(table: Bronze | Silver) -> list[str]:
    return sorted(str(sorted(row.items())) for row in delta_rows(table.location.uri))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_upkeep_changes_nothing_for_silver_nor_for_a_rebuild(tmp_path: Path, seed: int, shape: str) -> None:
    rng = random.Random(f"upkeep {seed} {shape}")
    columns, keys = SHAPES[shape]
    names = tuple(column.name for column in columns)
    world = World(tmp_path, columns=(*columns, LakeColumn("v", "v", "string")), key=names)
    round_ = UpkeepRound(world, History(rng, names, keys), rng)
    round_.load(FIRST_SNAPSHOT, chunked=rng.random() < 0.5)
    world.merge()
    for _ in range(16):
        round_.step()
        if rng.random() < 0.5:
            world.merge()
            if round_.reached > round_.snapshot + 3:
                round_.check()
    while round_.reached < COMMITS - 1:
        round_.window()
    world.merge()
    round_.check()
