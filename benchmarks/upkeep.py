"""``python -m benchmarks.upkeep``: a table's lake grows, with daily upkeep and without, side by side.

At 1/100 of 10 million rows: 100,000 rows, of which 1 % change in a day, in 96 runs of changes and a merge
each. Printed per day: files, bytes and seconds, of both lakes in turns. Then points at full size: how long a
table takes to open after 100,000 commits, and with a year's 35,040 files of changes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.compact import compact_bronze, compact_silver
from airflow_provider_mssql_cdc.lake.delta_table import stored_files
from airflow_provider_mssql_cdc.lake.fold import FoldRequest, fold
from airflow_provider_mssql_cdc.lake.vacuum import checkpoint, vacuum, version_to_keep
from airflow_provider_mssql_cdc.model.capture import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from benchmarks.merge import COLUMNS
from tests.support.silver_world import World, change, lsn, snapshot_row

RUNS_A_DAY = 96
BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - as timestamp_ntz
FOLD_AFTER_DAYS = 3


def row_of(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer_id": rng.randrange(10**6),
        "customer": f"customer {rng.randrange(10**5)}",
        "status": rng.choice(["new", "paid", "sent", "done"]),
        "amount": None,
        "price": None,
        "placed_at": BEGIN + timedelta(seconds=number),
        "due": BEGIN.date(),
        "reference": secrets.token_hex(8),
        "paid": rng.random() < 0.5,
    }


class Lake:
    """Bronze and silver of one table, kept up or not."""

    def __init__(self, folder: Path, *, kept_up: bool, rows: int) -> None:
        self.kept_up, self.rows, self.rng = kept_up, rows, random.Random(7)
        self.world = World(folder, columns=COLUMNS)
        self.current = {number: row_of(self.rng, number) for number in range(rows)}
        self.world.snapshot(1, [snapshot_row(1, row) for row in self.current.values()])
        self.world.merge()
        self.number, self.merge_seconds, self.written = 1, list[float](), 0

    def run(self, changed: int) -> None:
        """One window of scattered changes, and a merge."""
        self.number += 1
        time_of = BEGIN + timedelta(minutes=15 * self.number)
        rows = []
        for seq, key in enumerate(self.rng.sample(range(self.rows), changed), start=1):
            before, after = self.current[key], row_of(self.rng, key)
            for operation, values in ((3, before), (4, after)):
                row = change(self.number, operation, values, seq=seq, command=1, batch=self.number)
                rows.append({**row, "_commit_ts": time_of})
            self.current[key] = after
        self.world.changes(rows)
        started = time.perf_counter()
        self.written += self.world.merge().counts.bytes_added
        self.merge_seconds.append(time.perf_counter() - started)

    def keep_up(self, day: int) -> float:
        """Do as MssqlCdcUpkeepOperator(fold=True) does in a day; the seconds that it took."""
        if not self.kept_up:
            return 0.0
        started = time.perf_counter()
        bronze, silver = self.world.bronze, self.world.silver
        position = silver.position
        assert position is not None
        at = (day + 1 - FOLD_AFTER_DAYS) * RUNS_A_DAY + 1
        folded_rows = (at - self._snapshot()) * self.rows // 100 // RUNS_A_DAY * 2
        if folded_rows >= 0.1 * self.rows:
            stamp = CommitStamp(lsn(at), BEGIN)
            fold(FoldRequest(bronze, stamp, silver.key, position, take_up_to=lsn(at), run_id="up"))
            bronze.reload()
        compact_bronze(bronze, run_id="up")
        compact_silver(silver, run_id="up")
        vacuum(bronze, hours=0, keep=version_to_keep(bronze, silver))
        vacuum(silver, hours=0)
        for table in (bronze, silver):
            checkpoint(table.reload(), keep_log=False)
        return time.perf_counter() - started

    def _snapshot(self) -> int:
        snapshot = self.world.bronze.state.snapshot
        assert snapshot is not None
        return snapshot.value >> 40

    def told(self) -> dict[str, Any]:
        bronze, silver = self.world.bronze, self.world.silver
        return {
            "bronze files": len(stored_files(bronze.table)),
            "bronze MB": folder_bytes(bronze.location.uri) / 1e6,
            "silver files": len(stored_files(silver.table)),
            "silver MB": folder_bytes(silver.location.uri) / 1e6,
            "open ms": 1000 * seconds(lambda: open_existing(self.world.bronze_at)),
            "merge ms": 1000 * median(self.merge_seconds[-RUNS_A_DAY:]),
        }


def folder_bytes(uri: str) -> int:
    return sum(path.stat().st_size for path in Path(uri).rglob("*") if path.is_file())


def seconds(act: Callable[[], object], *, times: int = 5) -> float:
    def once() -> float:
        started = time.perf_counter()
        act()
        return time.perf_counter() - started

    return median(once() for _ in range(times))


def simulate(folder: Path, *, rows: int, days: int) -> None:
    """Run both lakes in turns, and print each day."""
    lakes = {kept_up: Lake(folder / str(kept_up), kept_up=kept_up, rows=rows) for kept_up in (False, True)}
    changed = max(1, rows // 100 // RUNS_A_DAY)
    print(
        "| day | upkeep | bronze files | bronze MB | silver files | silver MB | open ms | merge ms | took s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for day in range(days):
        for _ in range(RUNS_A_DAY):
            for lake in lakes.values():
                lake.run(changed)
        for kept_up, lake in lakes.items():
            took, told = lake.keep_up(day), lake.told()
            numbers = " | ".join(f"{value:,.0f}" for value in told.values())
            print(f"| {day + 1} | {'daily' if kept_up else 'none'} | {numbers} | {took:.1f} |", flush=True)
    for lake in lakes.values():
        values = {key: row["reference"] for (key,), row in lake.world.rows().items()}
        assert values == {key: row["reference"] for key, row in lake.current.items()}
        per_row = lake.written / (changed * RUNS_A_DAY * days)
        print(f"silver: {per_row:,.0f} bytes written by merges for each changed row")


def after_commits(folder: Path, commits: int) -> None:
    """Print how long a table takes to open after so many commits: as they are, and after a checkpoint."""
    world = World(folder)
    world.snapshot(1, [])
    log = Path(world.bronze_at.uri) / "_delta_log"
    template = json.loads((log / f"{world.bronze.version:020d}.json").read_text().splitlines()[0])
    first = world.bronze.version + 1
    for version in range(first, first + commits):
        (log / f"{version:020d}.json").write_text(json.dumps(template) + "\n")
    as_they_are = seconds(lambda: open_existing(world.bronze_at), times=1)
    bronze = open_existing(world.bronze_at)
    bronze.table.create_checkpoint()
    checkpointed = seconds(lambda: open_existing(world.bronze_at))
    for path in log.iterdir():
        os.utime(path, (0, 0))
    open_existing(world.bronze_at).table.cleanup_metadata()
    cleaned = seconds(lambda: open_existing(world.bronze_at))
    print(
        f"opening after {commits:,} commits: {as_they_are:.2f} s without a checkpoint, {checkpointed:.2f} s "
        f"with one, {cleaned:.3f} s once the old log is removed"
    )


def with_files(folder: Path, files: int) -> None:
    """Print how long a table takes to open, and its files to be listed, with so many files of changes."""
    world = World(folder)
    world.snapshot(1, [])
    bronze = world.bronze
    bronze.commit(list(_adds(files)), transactions=[], event="changes", user_metadata={})
    bronze = world.bronze
    bronze.table.create_checkpoint()
    opened = seconds(lambda: DeltaTable(world.bronze_at.uri), times=3)
    listed = seconds(lambda: stored_files(bronze.table, ("_start_lsn", "_operation")), times=3)
    print(f"with {files:,} files of changes: {opened:.2f} s to open, {listed:.2f} s to list")


def _adds(files: int) -> Iterator[AddAction]:
    for number in range(1, files + 1):
        at = Lsn(number << 40).text
        low = {"_start_lsn": at, "_operation": 3, "_batch_id": number}
        high = {"_start_lsn": at, "_operation": 4, "_batch_id": number}
        told = {"numRecords": 20, "minValues": low, "maxValues": high, "nullCount": {}}
        yield AddAction(f"changes-{number}.parquet", 5000, {}, 0, True, json.dumps(told))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upkeep", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=15)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=35_040)
    options = parser.parse_args()
    pa.set_cpu_count(2)
    with tempfile.TemporaryDirectory(prefix="upkeep-") as folder:
        with_files(Path(folder) / "files", options.files)
        if options.days:
            simulate(Path(folder), rows=options.rows, days=options.days)
        after_commits(Path(folder) / "commits", options.commits)


if __name__ == "__main__":
    main()
