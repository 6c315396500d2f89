"""Processes that merge at once: one bronze, one silver, many merges of it, while changes come."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from airflow_provider_mssql_cdc.errors import CommitConflict
from tests.support.silver_world import World, change, snapshot_row

PROCESSES, ROUNDS = 4, 8


def merge_again_and_again(folder: str, rounds: int) -> int:
    """How many of these merges went through; one that another overtakes is decided again by the next."""
    world, through = World(Path(folder)), 0
    for _ in range(rounds):
        try:
            world.merge()
            through += 1
        except CommitConflict:
            continue
    return through


def test_merges_by_several_processes_leave_each_key_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.snapshot(10, [snapshot_row(10, {"id": key, "v": "old"}) for key in range(50)])
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(PROCESSES) as pool:
        merges = [pool.apply_async(merge_again_and_again, (str(tmp_path), ROUNDS)) for _ in range(PROCESSES)]
        for number in range(11, 11 + ROUNDS):
            world.changes(
                [
                    change(number, 4, {"id": number % 7, "v": f"at {number}"}),
                    change(number, 2, {"id": 100 + number, "v": "new"}, seq=2),
                    change(number, 1, {"id": 20 + number, "v": "old"}, seq=3),
                ]
            )
        assert sum(merge.get(120) for merge in merges) >= 1
    world.merge()
    world.check()
