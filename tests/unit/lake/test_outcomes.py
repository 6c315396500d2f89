"""Files of a commit whose outcome is not known: the log decides, and nothing is removed that it may name."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from airflow_provider_mssql_cdc.lake import delta_table, repairs, staged_files
from airflow_provider_mssql_cdc.lake.changes import StagedWindow
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.silver import merge
from airflow_provider_mssql_cdc.lake.staged_files import discard, remove_unnamed
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import Window
from tests.support.delta_rows import delta_rows
from tests.support.silver_world import IDENTITY, World, change, lsn, snapshot_row
from tests.unit.lake.tables import new_bronze, stage

TRACED = {module.__file__ for module in (staged_files, delta_table, repairs, merge)}


class Ended(BaseException):
    """What the handler of SIGTERM raises."""


def _end(*_: Any) -> None:
    raise Ended


@contextmanager
def ended_at_line(number: int) -> Iterator[Callable[[], bool]]:
    """Send this process SIGTERM before the n-th line of the code that stages, commits and removes.

    A line counts once, when it runs for the first time.
    """
    seen: set[tuple[str, int]] = set()
    sent = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal sent
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line" and not sent:
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == number:
                sent = True
                os.kill(os.getpid(), signal.SIGTERM)
        return trace

    before = signal.signal(signal.SIGTERM, _end)
    sys.settrace(trace)
    try:
        with suppress(Ended):
            yield lambda: sent
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGTERM, before)


def merged_world(folder: Path) -> World:
    world = World(folder)
    world.snapshot(1, [snapshot_row(1, {"id": number, "v": "a"}) for number in range(3)])
    world.merge()
    return world


def change_rows(world: World) -> None:
    world.changes([change(2, 4, {"id": 1, "v": "b"}), change(3, 1, {"id": 2, "v": "a"})])


def newer_snapshot(world: World) -> None:
    world.snapshot(2, [snapshot_row(2, {"id": number, "v": "c"}) for number in range(2)])


@pytest.mark.parametrize("prepare", [change_rows, newer_snapshot])
def test_a_merge_that_is_ended_at_any_line_leaves_a_silver_that_can_be_read(
    tmp_path: Path, prepare: Callable[[World], None]
) -> None:
    number, sent = 1, True
    while sent:
        world = merged_world(tmp_path / str(number))
        prepare(world)
        with ended_at_line(number) as was_sent:
            world.merge()
        sent = was_sent()
        world.rows()
        assert world.silver.damage is None, number
        world.merge()
        world.check()
        number += 1
    assert number > 20


def test_a_repair_that_is_ended_at_any_line_leaves_a_bronze_that_can_be_read(tmp_path: Path) -> None:
    number, sent = 1, True
    while sent:
        world = merged_world(tmp_path / str(number))
        change_rows(world)
        bronze, window = world.bronze, Window(lsn(2), lsn(3))
        with ended_at_line(number) as was_sent:
            replace_changes(
                bronze,
                StagedWindow(window, (), read_changes_state(bronze.table).batch + 1),
                identity=IDENTITY,
                prefix="repair-000000000001-x",
                position=lsn(3),
            )
        sent = was_sent()
        left = sorted(row["_operation"] for row in delta_rows(world.bronze_at.uri))
        assert left in ([0, 0, 0, 1, 4], [0, 0, 0, 4]), number
        number += 1
    assert left == [0, 0, 0, 4]
    assert number > 20


def test_nothing_is_removed_while_the_log_cannot_be_read(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, lsn(1))
    newest = Path(bronze.location.uri) / "_delta_log" / f"{bronze.version:020d}.json"
    whole = newest.read_bytes()
    newest.write_bytes(b"{")
    assert remove_unnamed(bronze.location, [file.path for file in files]) == 0
    assert discard(bronze, files) == 0
    newest.write_bytes(whole)
    assert discard(bronze, files) == len(files)


def test_a_file_that_was_handed_to_a_commit_without_an_answer_stays(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, lsn(1))
    bronze.in_doubt.hand_over(file.path for file in files)
    assert discard(bronze, files) == 0
    bronze.in_doubt.take_back(file.path for file in files)
    assert discard(bronze, files) == len(files)


def test_a_silver_that_names_a_missing_file_is_built_anew_and_says_so(tmp_path: Path) -> None:
    world = merged_world(tmp_path)
    (gone,) = TableStorage(world.silver_at).names("silver-")
    (Path(world.silver_at.uri) / gone).unlink()
    rebuilt = world.merge().rebuilt
    assert rebuilt is not None
    assert gone in rebuilt
    world.check()
    assert world.merge().rebuilt is None
