"""Opens, waves, completes, late completes, resnapshots, changes and cleanup in any order, on a real bronze:
no usable snapshot ever has a hole above it.

The model knows every commit of the source, which of them cleanup has purged, and which ones have been
written to bronze. The package decides by bronze's transactions alone.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, Superseded
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.changes import PositionMoved, StagedWindow, begin_coverage, commit_window
from airflow_provider_mssql_cdc.lake.chunked import Opened, abandon_unfinished, commit_wave, open_snapshot
from airflow_provider_mssql_cdc.lake.commit import commit_completion
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import InstanceMark, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.planning.coverage import is_proven_gap, is_usable
from tests.unit.lake.tables import IDENTITY, complete, header, lsn, new_bronze
from tests.unit.lake.test_waves import NOON

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "3"))
STEPS = 30
MARK = InstanceMark(1, NOON.replace(tzinfo=None))


class Model:
    """The source's log as numbers 1, 2, 3 …; positions are LSNs of those numbers."""

    def __init__(self, bronze: Bronze, rng: random.Random) -> None:
        self.bronze, self.rng = bronze, rng
        self.now, self.low = 1, 1
        self.written: set[int] = set()
        self.before = bronze.state
        self.seen: list[int] = []
        self.stale: list[Bronze] = []

    @property
    def numbers(self) -> dict[Lsn, int]:
        return {lsn(number): number for number in range(1, self.now + 1)}

    def handle(self) -> Bronze:
        """A fresh handle, or one that somebody has held on to for a while."""
        if self.stale and self.rng.random() < 0.4:
            return self.stale.pop(self.rng.randrange(len(self.stale)))
        return open_existing(self.bronze.location)

    def low_lsn(self) -> Lsn:
        """Changes of commits below ``low`` are purged: the smallest LSN kept."""
        return lsn(self.low)

    # -- what may happen

    def commits(self) -> None:
        self.now += self.rng.randrange(1, 4)

    def cleanup(self) -> None:
        self.low = self.rng.randrange(self.low, self.now + 1)

    def holds_on(self) -> None:
        self.stale.append(open_existing(self.bronze.location))

    def gap_position(self, bronze: Bronze) -> Lsn | None:
        coverage = bronze.state.coverage
        return coverage.changes if coverage and is_proven_gap(coverage, self.low_lsn()) else None

    def opens(self, *, resnapshot: bool) -> None:
        bronze = self.handle()
        gap = self.gap_position(bronze)
        run = self.rng.randbytes(4).hex()
        of_s = header(lsn(self.now), commit_ts=None, run=run, run_id=run)
        opened = open_snapshot(bronze, of_s, resnapshot=resnapshot, gap_position=gap)
        if isinstance(opened, Opened):
            self.seen.append(self.now)

    def wave(self) -> None:
        if self.seen:
            number = self.rng.choice(self.seen)
            commit_wave(
                self.bronze.location,
                header(lsn(number)),
                (),
                wave=self.rng.randrange(2),
                stamp=lsn(self.now),
                horizon=ReadHorizon(lsn(self.now), NOON),
            )

    def completes(self) -> None:
        if self.seen:
            of_s = header(lsn(self.rng.choice(self.seen)), commit_ts=None)
            commit_completion(self.bronze.location, of_s, waves=2)

    def whole(self) -> None:
        """A whole snapshot recorded at some earlier moment, still retained, completes now."""
        number = self.rng.randrange(max(1, self.low - 1), self.now + 1)
        if lsn(number).incremented() < self.low_lsn():
            return
        bronze = open_existing(self.bronze.location)
        gap = self.gap_position(bronze)
        complete(
            self.bronze.location,
            lsn(number),
            resnapshot=self.rng.random() < 0.6,
            gap_position=gap,
            run=self.rng.randbytes(4).hex(),
        )

    def starts_now(self) -> None:
        begin_coverage(self.handle(), lsn(self.now), identity=IDENTITY, stamp=None, run_id="r")

    def extends(self) -> None:
        """Reads a window that the server still has, and commits it, perhaps on a handle that is old."""
        bronze = self.handle()
        coverage = bronze.state.coverage
        if coverage is None or is_proven_gap(coverage, self.low_lsn()) or coverage.changes >= lsn(self.now):
            return
        numbers = self.numbers
        until = self.rng.randrange(numbers[coverage.changes] + 1, self.now + 1)
        window = Window(coverage.changes, lsn(until))
        staged = StagedWindow(window, [], read_changes_state(bronze.table).batch + 1)
        commit_window(bronze, staged, identity=IDENTITY, stamp=None, instance=MARK)
        self.written |= set(range(numbers[window.after] + 1, until + 1))

    def abandons(self) -> None:
        abandon_unfinished(self.handle(), run_id="r")

    # -- what must hold

    def check(self) -> None:
        state = open_existing(self.bronze.location).state
        numbers = self.numbers
        for snapshot in {state.snapshot, state.unfinished} - {None}:
            assert snapshot is not None
            if not is_usable(state, snapshot):
                continue
            assert state.coverage is not None
            above = range(numbers[snapshot] + 1, numbers[state.coverage.changes] + 1)
            assert [number for number in above if number not in self.written] == []
        before, self.before = self.before, state
        if before.coverage and state.coverage and before.coverage.base != state.coverage.base:
            assert is_proven_gap(before.coverage, self.low_lsn()), "coverage was moved up without a gap"
        if before.snapshot != state.snapshot:
            assert state.snapshot is not None
            assert is_usable(state, state.snapshot), "a snapshot that no changes lead on from was completed"
            assert before.snapshot is None or state.snapshot > before.snapshot
        if before.open != state.open:
            assert state.open is not None
            assert before.newest is None or state.open > before.newest


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_usable_snapshot_has_a_hole_above_it(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)


@pytest.mark.soak
def test_nor_in_hundreds_of_rounds(tmp_path: Path) -> None:
    for seed in range(1000, 1200):
        play(tmp_path / str(seed), seed)


def play(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    model = Model(new_bronze(folder), rng)
    moves = [
        model.commits,
        model.commits,
        model.cleanup,
        model.holds_on,
        lambda: model.opens(resnapshot=False),
        lambda: model.opens(resnapshot=True),
        model.wave,
        model.wave,
        model.completes,
        model.completes,
        model.whole,
        model.extends,
        model.extends,
        model.extends,
        model.abandons,
        *([model.starts_now] if seed % 3 == 0 else []),
    ]
    refused = 0
    for _ in range(STEPS):
        try:
            rng.choice(moves)()
        except (Superseded, NotReadyYet, IncompletePlan, PositionMoved):
            refused += 1
        model.check()
