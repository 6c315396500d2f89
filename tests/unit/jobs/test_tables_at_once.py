"""Several tables of one task in work at the same time, each on a session and with a trouble of its own."""

from __future__ import annotations

import contextvars
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConnectionBroken
from airflow_provider_mssql_cdc.jobs.each_table import Worker
from airflow_provider_mssql_cdc.jobs.packs import follow_tables, read_item
from airflow_provider_mssql_cdc.lake.staging import ROW_GROUP_BYTES
from airflow_provider_mssql_cdc.model.database_items import PackOutcome, ReadItem, TableRef
from airflow_provider_mssql_cdc.task_memory import SMALL_BYTES, share_of, shared_by, turn_of
from tests.support.database_world import DatabaseWorld, create_table
from tests.support.delta_rows import delta_rows

PATIENCE = 60.0
Make = Callable[..., DatabaseWorld]


@pytest.fixture(params=["mssql-python", "pymssql"])
def make(request: pytest.FixtureRequest, server: EmbeddedSqlServer, tmp_path: Path) -> Iterator[Make]:
    made: list[DatabaseWorld] = []

    def make(folder: str = "lake", **arguments: Any) -> DatabaseWorld:
        made.append(DatabaseWorld(server, tmp_path / folder, driver=request.param, **arguments))
        return made[-1]

    yield make
    for world in made:
        world.close()


def one_pack(world: DatabaseWorld) -> ReadItem:
    """A pack of all tables, in the order of their names."""
    plan = world.plan(max_tasks=4)
    tables = sorted((ref for item in plan.read for ref in item.tables), key=lambda ref: ref.name)
    return ReadItem(plan.plan, 0, "pack", tuple(tables))


def pack_of(world: DatabaseWorld, **attempt: int) -> tuple[Worker, ReadItem]:
    item = one_pack(world)
    world.sessions = 0
    return world.worker("read", 0, **attempt), item


def test_they_are_loaded_and_followed_as_if_one_came_after_the_other(
    server: EmbeddedSqlServer, make: Make
) -> None:
    for number in range(6):
        create_table(server, f"dbo.t{number}", rows=number * 3)
    names = [f"dbo.t{number}" for number in range(6)]
    worlds = make("one"), make("three", tables_at_once=3)
    loaded = []
    for world in worlds:
        worker, item = pack_of(world)
        loaded.append(read_item(worker, item))
        assert world.sessions == worker.tables_at_once
        assert not any(world.differs(name) for name in names)
        facts = f"{world.folder}/ops/facts"
        assert DeltaTable(facts).version() == 1
        events = Counter(row["event"] for row in delta_rows(facts, columns="event"))
        assert events == {"snapshot_plan": 6, "bootstrap": 6, "merge": 6}
    assert told(loaded[0]) == told(loaded[1])

    server.execute("UPDATE dbo.t3 SET name = N'new'")
    server.execute("DELETE FROM dbo.t4 WHERE id < 5")
    server.idle()
    for world in worlds:
        outcome = follow_tables(world.worker("follow", 0), [TableRef(name) for name in names])
        assert list(outcome.tables) == names
        assert outcome.failures == {}
        assert not any(world.differs(name) for name in names)


def told(outcome: PackOutcome) -> list[tuple[str, int]]:
    return [(name, done["loaded"]) for name, done in outcome.tables.items()]


def test_so_many_are_read_at_the_same_moment(server: EmbeddedSqlServer, make: Make) -> None:
    together = threading.Barrier(3, timeout=PATIENCE)
    for number in range(3):
        create_table(server, f"dbo.t{number}")
        server.faults.run(rf"AS \[name\].*FROM \[dbo\]\.\[t{number}\]", together.wait)
    worker, item = pack_of(make(tables_at_once=3))
    assert read_item(worker, item).failures == {}


def test_those_that_fail_keep_no_other_from_its_turn_and_are_told_in_the_plans_order(
    server: EmbeddedSqlServer, make: Make
) -> None:
    names = [f"dbo.t{number}" for number in range(9)]
    for name in names[:-1]:
        create_table(server, name)
    create_table(server, names[-1], key="")
    select = r"AS \[name\].*FROM \[dbo\]\.\[t{}\]"
    server.faults.fail(select.format(1), 1222)
    server.faults.fail(select.format(2), 1205)
    server.faults.drop(select.format(4), after_rows=2)
    server.faults.fail(select.format(5), 229, text="The SELECT permission was denied", severity=14)
    worker, item = pack_of(world := make(tables_at_once=4))
    outcome = read_item(worker, item)
    assert [(name, failure.error) for name, failure in outcome.failures.items()] == [
        ("dbo.t1", "LockTimeout"),
        ("dbo.t2", "DeadlockVictim"),
        ("dbo.t4", "ConnectionBroken"),
        ("dbo.t5", "PermissionDenied"),
        ("dbo.t8", "UnsupportedKey"),
    ]
    assert outcome.retryable == ["dbo.t1", "dbo.t2", "dbo.t4"]
    done = ["dbo.t0", "dbo.t3", "dbo.t6", "dbo.t7"]
    assert [name for name in outcome.tables if name != "dbo.t8"] == done
    assert not any(world.differs(name) for name in done)
    again = read_item(world.worker("read", 0, 2), item)
    assert list(again.failures) == ["dbo.t8"]
    assert not any(world.differs(name) for name in names[:-1])


@pytest.fixture
def in_another_thread(server: EmbeddedSqlServer) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool
        server.faults.clear()  # else a test that fails would wait for what stalls


def stalled_pack(
    server: EmbeddedSqlServer, world: DatabaseWorld
) -> tuple[Worker, ReadItem, list[threading.Event]]:
    """Five tables, of which the first is loaded, the next two have sent a row, and two have not begun."""
    for number in range(5):
        create_table(server, f"dbo.t{number}")
    worker, item = pack_of(world)
    read_item(world.worker("read", 0), ReadItem(item.plan, 0, "pack", item.tables[:1]))
    select = r"AS \[name\].*FROM \[dbo\]\.\[t{}\]"
    stalls = [
        server.faults.stall(select.format(number), after_rows=1, seconds=PATIENCE / 3) for number in (1, 2)
    ]
    return worker, item, [stall.reached for stall in stalls]


KILLED = "the task was killed before this table's turn"


def test_a_kill_ends_all_sessions_and_the_next_try_does_what_is_left(
    server: EmbeddedSqlServer, make: Make, in_another_thread: ThreadPoolExecutor
) -> None:
    world = make(tables_at_once=2)
    worker, item, reached = stalled_pack(server, world)
    running = in_another_thread.submit(read_item, worker, item)
    assert all(event.wait(PATIENCE) for event in reached)
    worker.sessions.cancel()
    outcome = running.result(PATIENCE)
    assert list(outcome.tables) == ["dbo.t0"]
    assert {failure.error for failure in outcome.failures.values()} == {"ConnectionBroken"}
    assert [name for name, failure in outcome.failures.items() if failure.message == KILLED] == [
        "dbo.t3",
        "dbo.t4",
    ]
    assert outcome.retryable == list(outcome.failures) == [f"dbo.t{number}" for number in (1, 2, 3, 4)]
    server.faults.clear()
    assert read_item(world.worker("read", 0, 2), item).failures == {}
    assert not any(world.differs(f"dbo.t{number}") for number in range(5))


class Ended(BaseException):
    """What Airflow raises from a signal handler when execution_timeout has passed."""


@pytest.fixture
def ends_the_task() -> Iterator[Callable[[], None]]:
    def handler(*_: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGUSR1, handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_what_ends_the_waiting_thread_ends_the_others_and_keeps_what_was_done(
    server: EmbeddedSqlServer,
    make: Make,
    in_another_thread: ThreadPoolExecutor,
    ends_the_task: Callable[[], None],
) -> None:
    world = make(tables_at_once=2)
    worker, item, reached = stalled_pack(server, world)

    def end_it() -> None:
        assert all(event.wait(PATIENCE) for event in reached)
        ends_the_task()

    ending = in_another_thread.submit(end_it)
    with pytest.raises(Ended):
        read_item(worker, item)
    ending.result()
    assert worker.sessions.cancelled
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tables")]
    server.faults.clear()
    outcome = read_item(world.worker("read", 0, 2), item)
    assert (outcome.failures, len(outcome.tables)) == ({}, 5)
    assert not any(world.differs(f"dbo.t{number}") for number in range(5))


def test_when_no_server_answers_no_table_is_waited_for_after_those_in_work(
    server: EmbeddedSqlServer, make: Make
) -> None:
    for number in range(8):
        create_table(server, f"dbo.t{number}")
    worker, item = pack_of(world := make(tables_at_once=2))
    world.port = 1
    failures = read_item(worker, item).failures
    assert {failure.error for failure in failures.values()} == {"ServerUnreachable"}
    assert len(failures) == 8
    assert world.sessions <= 2 * 2


def test_all_of_them_together_hold_the_rows_that_one_may_hold(server: EmbeddedSqlServer, make: Make) -> None:
    wide = "x" * 4000
    for number in range(4):
        server.execute(f"CREATE TABLE dbo.t{number} (id int NOT NULL PRIMARY KEY, name varchar(4000) NULL)")
        server.executemany(f"INSERT INTO dbo.t{number} VALUES (?, ?)", [(n, wide) for n in range(2000)])
        server.enable_cdc(f"dbo.t{number}")
    worker, item = pack_of(world := make(tables_at_once=4))
    assert read_item(worker, item).failures == {}
    for number in range(4):
        bronze = world.database.table_of(f"dbo.t{number}").table.bronze
        for file in DeltaTable(bronze).file_uris():
            footer = pq.read_metadata(file)
            rows = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
            assert sum(rows) == 2000
            assert max(rows) * len(wide) <= ROW_GROUP_BYTES // 4


def test_a_buffer_is_shared_out_among_the_tables_in_work() -> None:
    assert share_of(12) == 12
    with shared_by(4, has_ended=lambda: False):
        assert (share_of(12), share_of(3)) == (3, 1)
    assert share_of(12) == 12


def test_of_large_merges_one_is_done_at_a_time_and_small_ones_do_not_wait() -> None:
    with shared_by(3, has_ended=lambda: False), turn_of(lambda: SMALL_BYTES + 1):
        with turn_of(lambda: SMALL_BYTES):
            pass
        waited = entered_by_another_thread(SMALL_BYTES + 1)
        assert not waited.wait(0.05)
    assert waited.wait(PATIENCE)


def entered_by_another_thread(size: int) -> threading.Event:
    entered, begun = threading.Event(), threading.Event()

    def enter() -> None:
        begun.set()
        with turn_of(lambda: size):
            entered.set()

    threading.Thread(target=contextvars.copy_context().run, args=(enter,), daemon=True).start()
    assert begun.wait(PATIENCE)
    return entered


def test_a_killed_task_begins_no_large_merge() -> None:
    with (
        shared_by(2, has_ended=lambda: True),
        pytest.raises(ConnectionBroken, match="killed"),
        turn_of(lambda: SMALL_BYTES + 1),
    ):
        raise AssertionError("it was begun")
