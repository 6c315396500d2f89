"""How few statements a task sends: each is a round trip, and a small table's load is little else.

A limit that is passed by a change deliberately is raised here, to what the failed test counted: the reason
goes into the commit, the numbers into docs/benchmarks.md ("Round trips").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.gathered import SourceName, gather_ahead
from airflow_provider_mssql_cdc.source.kept import KeptSession
from airflow_provider_mssql_cdc.source.settings import DriverName
from airflow_provider_mssql_cdc.source.watermarks import zone_of
from tests.support.changes_world import ChangesWorld

AT_MOST = {"plan": 5, "read": 6, "complete": 6, "changes": 15, "quiet changes": 4, "again": 2}
"""The rows of a range are not counted; a session is set up in each but the last, which has an open one."""
LOGGING_IN = {"mssql-python": 0, "pymssql": 2}
"""What a driver sends by itself for a connection; pymssql its own settings and the database."""

T = TypeVar("T")


@pytest.fixture(params=["mssql-python", "pymssql"])
def driver(request: pytest.FixtureRequest) -> DriverName:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def world(driver: DriverName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path, driver=driver)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        yield world


def sent_by(world: ChangesWorld, job: Callable[[], T]) -> tuple[T, list[str]]:
    world.server.faults.clear_log()
    done = job()
    return done, [statement.sql for statement in world.server.faults.log()]


def rounds(statements: list[str], driver: DriverName, *, logins: int = 1) -> int:
    """Without the rows of a range, and without what the driver sends by itself."""
    rows = [text for text in statements if "FROM [dbo].[orders]" in text]
    return len(statements) - len(rows) - logins * LOGGING_IN[driver]


@pytest.mark.parametrize("captured", [False, True], ids=["nothing captured yet", "captured"])
def test_a_small_load_and_a_quiet_run_send_few_statements(
    world: ChangesWorld, driver: DriverName, captured: bool
) -> None:
    if captured:
        world.insert(4)
        world.server.capture()
    table, connect, sent = world.table, world.session, {}
    request = PlanRequest(table, world.attempt("plan"), max_ranges=1, rows_per_range=10)
    planned, sent["plan"] = sent_by(world, lambda: plan_snapshot(request, connect=connect))
    outcome, sent["read"] = sent_by(
        world, lambda: read_range(table, planned[0], attempt=world.attempt("read"), connect=connect)
    )
    _, sent["complete"] = sent_by(
        world,
        lambda: complete_snapshot(table, [outcome], attempt=world.attempt("complete"), connect=connect),
    )
    world.insert(5)
    world.tick()
    _, sent["changes"] = sent_by(world, world.changes)
    world.tick()
    _, sent["quiet changes"] = sent_by(world, world.changes)
    with KeptSession(world.session) as kept:
        request_changes = ChangesRequest(table, world.attempt("changes"))
        run_changes(request_changes, connect=kept)
        for seconds in (0, 2):
            world.tick(seconds)
            _, sent["again"] = sent_by(world, lambda: run_changes(request_changes, connect=kept))
            assert rounds(sent["again"], driver, logins=0) <= AT_MOST["again"]
    counted = {task: rounds(statements, driver, logins=task != "again") for task, statements in sent.items()}
    assert {task: count for task, count in counted.items() if count > AT_MOST[task]} == {}
    # Of a database with thousands of instances, only those of this table are looked up.
    helps = [text for task in sent.values() for text in task if "sp_cdc_help_change_data_capture" in text]
    assert helps
    assert [text for text in helps if "@source_name" not in text] == []


def test_a_plan_of_several_ranges_and_the_next_snapshot_stay_below_their_limits(
    world: ChangesWorld, driver: DriverName
) -> None:
    """With coverage to compare with the server's history, and a key to cut."""
    world.insert(*range(10, 40))
    world.bootstrap()
    world.insert(50)
    world.server.capture()
    table, connect = world.table, world.session
    request = PlanRequest(
        table, world.attempt("plan", "next"), max_ranges=4, rows_per_range=10, resnapshot=True
    )
    planned, sent = sent_by(world, lambda: plan_snapshot(request, connect=connect))
    assert len(planned) == 4
    assert rounds(sent, driver) <= 8
    outcomes = []
    for item in planned:
        read = world.attempt("read", "next")
        outcome, sent = sent_by(world, lambda: read_range(table, item, attempt=read, connect=connect))  # noqa: B023
        outcomes.append(outcome)
        assert rounds(sent, driver) <= 6
    complete = world.attempt("complete", "next")
    _, sent = sent_by(world, lambda: complete_snapshot(table, outcomes, attempt=complete, connect=connect))
    assert rounds(sent, driver) <= 6


def test_a_session_is_set_up_by_one_statement(world: ChangesWorld, driver: DriverName) -> None:
    def set_up() -> None:
        with world.session():
            pass

    _, sent = sent_by(world, set_up)
    assert rounds(sent, driver) == 1


def test_forty_tables_are_described_by_one_batch_and_followed_by_one_each(
    world: ChangesWorld, driver: DriverName
) -> None:
    tables = [world.table]
    for number in range(39):
        world.execute(f"CREATE TABLE dbo.t{number} (id int NOT NULL PRIMARY KEY, note nvarchar(20))")
        world.server.enable_cdc(f"dbo.t{number}", role_name="reader" if number % 2 else None)
        tables.append(replace(world.table, capture_instance=f"dbo_t{number}"))
    names = [SourceName(table.capture_instance, table.source) for table in tables]
    world.bootstrap()
    world.tick()
    world.changes()
    with KeptSession(world.session) as kept:
        with kept() as session:
            zone_of(session)
            _, sent = sent_by(world, lambda: gather_ahead(session, names))
            assert len(sent) == 1
            _, sent = sent_by(
                world,
                lambda: [describe(session, capture_instance=name.capture_instance) for name in names[1:]],
            )
            assert len(sent) == 1, "membership of the one gating role"
        world.tick()
        request = ChangesRequest(world.table, world.attempt("changes"))
        _, sent = sent_by(world, lambda: run_changes(request, connect=kept))
        assert len(sent) == 1


def test_what_one_batch_asks_is_asked_in_the_order_that_the_guarantees_need(world: ChangesWorld) -> None:
    """docs/adr/0019-few-round-trips.md says why; a server runs the statements of a batch in their order."""

    def in_order(statements: list[str], *parts: str) -> bool:
        return any(
            re.search(".*".join(map(re.escape, parts)), text, re.DOTALL | re.IGNORECASE)
            for text in statements
        )

    table, connect = world.table, world.session
    request = PlanRequest(table, world.attempt("plan"), max_ranges=1, rows_per_range=10)
    planned = plan_snapshot(request, connect=connect)
    outcome, sent = sent_by(
        world, lambda: read_range(table, planned[0], attempt=world.attempt("read"), connect=connect)
    )
    stamp = ("fn_cdc_get_max_lsn", "fn_cdc_get_min_lsn", "fn_cdc_map_lsn_to_time")
    assert in_order(sent, *stamp)
    _, sent = sent_by(
        world,
        lambda: complete_snapshot(table, [outcome], attempt=world.attempt("complete"), connect=connect),
    )
    assert in_order(sent, *stamp)
    _, sent = sent_by(world, world.changes)
    newest, captured, change, identity, low = (
        "SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1)",
        "sys.fn_cdc_get_max_lsn(), 1) AS max_lsn;",
        "AS found",
        "sp_cdc_help_change_data_capture",
        "fn_cdc_get_min_lsn",
    )
    assert in_order(
        sent, "SET @reached", "SET @smallest", "SET @low", newest, captured, change, identity, low
    )
