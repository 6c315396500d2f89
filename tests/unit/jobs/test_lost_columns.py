"""A snapshot decides about columns as changes do: none of bronze's turns into NULL silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from tests.support.changes_world import ChangesWorld

Change = Callable[[ChangesWorld], None]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer() as server:
        world = ChangesWorld(server, tmp_path)
        server.enable_cdc("dbo.orders")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.execute("INSERT INTO dbo.orders VALUES (1, 'a', 1.5), (2, 'b', 2.5)")
        yield world


def left_out(world: ChangesWorld) -> None:
    world.server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2", captured_column_list="id, name")
    world.table = replace(world.table, capture_instance="dbo_orders_v2")


def added_again(world: ChangesWorld) -> None:
    world.execute("ALTER TABLE dbo.orders ADD tail int NULL")
    world.execute("ALTER TABLE dbo.orders DROP COLUMN amount")
    world.execute("ALTER TABLE dbo.orders ADD amount decimal(18, 4) NULL")


def added_again_with_another_type(world: ChangesWorld) -> None:
    world.execute("ALTER TABLE dbo.orders ADD tail int NULL")
    world.execute("ALTER TABLE dbo.orders DROP COLUMN amount")
    world.execute("ALTER TABLE dbo.orders ADD amount float NULL")


@pytest.mark.parametrize("change", [left_out, added_again, added_again_with_another_type])
def test_a_resnapshot_is_refused_where_changes_stop(world: ChangesWorld, change: Change) -> None:
    world.bootstrap()
    change(world)
    world.insert(7)
    world.tick(60)
    with pytest.raises(SchemaDrift, match="amount"):
        world.changes()
    with pytest.raises(SchemaDrift, match="amount.*would become NULL"):
        world.bootstrap(resnapshot=True, run_id="again")
    chunked = ChunkedRequest(
        world.table, world.attempt("plan", "chunks"), chunk_rows=1, max_waves=9, resnapshot=True
    )
    with pytest.raises(SchemaDrift, match="amount.*would become NULL"):
        plan_chunks(chunked, connect=world.session)
    assert [row["amount"] is None for row in world.bronze("_operation = 0")] == [False, False]


def test_a_column_that_is_lost_after_the_plan_stops_reads_and_complete(world: ChangesWorld) -> None:
    request = PlanRequest(world.table, world.attempt("plan"), max_ranges=2, rows_per_range=1)
    first, second = plan_snapshot(request, connect=world.session)
    staged = [
        read_range(world.table, item, attempt=world.attempt("read"), connect=world.session)
        for item in (first, second)
    ]
    left_out(world)
    with pytest.raises(SchemaDrift, match="amount"):
        read_range(world.table, second, attempt=world.attempt("read"), connect=world.session)
    with pytest.raises(SchemaDrift, match="amount"):
        complete_snapshot(world.table, staged, attempt=world.attempt("complete"), connect=world.session)


def test_a_column_that_is_gone_from_the_source_does_not_stop_a_resnapshot(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders DROP COLUMN amount")
    world.insert(7)
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    assert world.state.snapshot is not None
    newest = world.bronze(f"_snapshot = '{world.state.snapshot.text}'")
    assert [row["amount"] for row in newest] == [None, None, None]


def test_a_renamed_column_comes_under_its_new_name_and_the_old_one_stays(world: ChangesWorld) -> None:
    world.bootstrap()
    world.server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2", captured_column_list="id, amount")
    world.execute("ALTER TABLE dbo.orders DROP COLUMN name")
    world.table = replace(world.table, capture_instance="dbo_orders_v2")
    world.execute("INSERT INTO dbo.orders VALUES (8, 8)")
    world.tick(60)
    assert world.bootstrap(resnapshot=True, run_id="again").rows == 3
