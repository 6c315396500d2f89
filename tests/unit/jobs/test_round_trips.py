"""How few statements a task sends: each is a round trip, and a small table's load is little else.

A limit that is passed by a change on purpose is raised here, to what the failed test counted: the reason
goes into the commit, the numbers into docs/benchmarks.md ("Round trips").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.changes_world import ChangesWorld

AT_MOST = {"plan": 7, "read": 12, "complete": 12, "quiet changes": 12}
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
    _, sent["quiet changes"] = sent_by(world, world.changes)
    counted = {task: len(statements) - LOGGING_IN[driver] for task, statements in sent.items()}
    assert {task: count for task, count in counted.items() if count > AT_MOST[task]} == {}
    # Of a database with thousands of instances, only those of this table are looked up.
    helps = [text for task in sent.values() for text in task if "sp_cdc_help_change_data_capture" in text]
    assert helps
    assert [text for text in helps if "@source_name" not in text] == []
