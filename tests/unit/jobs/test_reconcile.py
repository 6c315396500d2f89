"""A reconcile on the embedded server: faults planted by hand are found at their keys, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.merge_silver import MergeOrder, merge_silver
from airflow_provider_mssql_cdc.jobs.plan_reconcile import ReconcileOrder, plan_reconcile
from airflow_provider_mssql_cdc.jobs.reconcile import Reconciled, reconcile_item
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.reconcile import ReconcileItem
from tests.support.changes_world import ChangesWorld
from tests.support.delta_rows import delta_rows

FAILURES = ("missing", "extra", "different", "unexplained")


class Reconcile:
    """One table with its silver, and what comparing it finds."""

    def __init__(self, world: ChangesWorld, **asked: Any) -> None:
        self.world, self.asked = world, asked
        self.silver = str(Path(world.table.bronze).parent.parent / "silver" / world.name)
        self.runs = 0

    def follow(self) -> None:
        """Changes past everything so far, then silver."""
        self.world.tick()
        self.world.changes(quiet_seconds=0)
        merge_silver(
            MergeOrder(self.world.table, self.silver, Attempt("dag", "run", "merge")),
            connect=self.world.session,
        )

    def order(self, **asked: Any) -> ReconcileOrder:
        self.runs += 1
        given: dict[str, Any] = {"share": 1.0, "rows_per_tile": 10, "show_keys": True, **self.asked, **asked}
        attempt = Attempt("dag", f"run {self.runs}", "reconcile")
        return ReconcileOrder(self.world.table, self.silver, attempt, **given)

    def planned(self, order: ReconcileOrder) -> list[ReconcileItem]:
        planned = plan_reconcile(order, connect=self.world.session)
        assert isinstance(planned, list), planned
        return planned

    def run(self, *, meanwhile: Callable[[], None] = lambda: None, **asked: Any) -> list[Reconciled]:
        """Plan; read every item; let something happen; follow; compare every item."""
        order = self.order(**asked)
        items = self.planned(order)
        first = [reconcile_item(order, item, connect=self.world.session) for item in items]
        meanwhile()
        self.follow()
        found = [
            done if isinstance(done, Reconciled) else reconcile_item(order, item, connect=self.world.session)
            for item, done in zip(items, first, strict=True)
        ]
        assert all(isinstance(each, Reconciled) for each in found), found
        return found  # type: ignore[return-value]

    def failures(self, found: list[Reconciled]) -> set[tuple[str, str]]:
        return {(each["kind"], each["key"][0]) for one in found for each in one.found.keys}

    def plant(self, change: Callable[[DeltaTable], object]) -> None:
        change(DeltaTable(self.silver))


DRIVERS = ("mssql-python", "pymssql")
both_drivers = pytest.mark.parametrize("world", DRIVERS, indirect=True)


@pytest.fixture
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChangesWorld]:
    """``dbo.orders`` with ids 0 to 29, loaded."""
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path, driver=getattr(request, "param", DRIVERS[0]))
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(30))
        server.enable_cdc("dbo.orders")
        world.bootstrap()
        yield world


@pytest.fixture
def reconcile(world: ChangesWorld) -> Reconcile:
    reconcile = Reconcile(world)
    reconcile.follow()
    return reconcile


def writes(world: ChangesWorld) -> None:
    world.execute("UPDATE dbo.orders SET name = name + N'!' WHERE id % 3 = 0")
    world.execute("UPDATE dbo.orders SET id = id + 1000 WHERE id IN (4, 5)")
    world.execute("DELETE FROM dbo.orders WHERE id IN (7, 8)")
    world.insert(7, 60, 61)
    world.execute(
        "BEGIN TRAN; DELETE FROM dbo.orders WHERE id = 10; INSERT INTO dbo.orders (id) VALUES (10); COMMIT"
    )


@both_drivers
def test_a_right_silver_is_proven_tile_by_tile_and_key_by_key(reconcile: Reconcile) -> None:
    found = reconcile.run()
    tiles = [one for one in found if one.item.tile is not None]
    assert sum(one.found.rows_source for one in tiles) == 30
    assert sum(one.found.equal for one in tiles) == 30
    assert len(tiles) > 1
    (sample,) = [one for one in found if one.item.tile is None]
    assert sample.found.equal == 30
    assert not any(one.found.failed for one in found)
    stored = delta_rows(f"{reconcile.silver}_reconcile", "kind <> 'plan'")
    assert sorted(row["equal"] for row in stored) == sorted(one.found.equal for one in found)
    assert len(reconcile.world.facts("reconcile")) == len(found)


@pytest.mark.parametrize("after_read", [True, False])
def test_a_right_silver_is_proven_while_the_table_is_written_to(
    reconcile: Reconcile, world: ChangesWorld, after_read: bool
) -> None:
    if not after_read:
        writes(world)  # before the read, after what silver has
    found = reconcile.run(meanwhile=lambda: writes(world) if after_read else None)
    assert not any(one.found.failed for one in found), [one.found for one in found]
    assert sum(one.found.moved for one in found) > 10 or not after_read


FAULTS: dict[str, tuple[Callable[[DeltaTable], object], set[tuple[str, str]]]] = {
    "a row changed in one letter": (
        lambda table: table.update(updates={"name": "'row 1O'"}, predicate="id = 10"),
        {("different", "10")},
    ),
    "a blank at the end": (
        lambda table: table.update(updates={"name": "'row 11 '"}, predicate="id = 11"),
        {("different", "11")},
    ),
    "a value that is NULL": (
        lambda table: table.update(updates={"name": "NULL"}, predicate="id = 12"),
        {("different", "12")},
    ),
    "a number where NULL is": (
        lambda table: table.update(updates={"amount": "CAST(0 AS decimal(18, 4))"}, predicate="id = 13"),
        {("different", "13")},
    ),
    "a row deleted": (lambda table: table.delete("id = 14"), {("missing", "14")}),
    "a key in another spelling": (
        lambda table: table.update(updates={"id": "1015"}, predicate="id = 15"),
        {("missing", "15"), ("extra", "1015")},
    ),
}


@pytest.mark.parametrize(
    ("world", "fault", "busy"),
    [
        *((DRIVERS[0], fault, True) for fault in FAULTS),
        (DRIVERS[0], "a row deleted", False),
        (DRIVERS[1], "a blank at the end", False),
    ],
    indirect=["world"],
)
def test_a_fault_in_silver_is_found_at_its_key_and_no_other(
    reconcile: Reconcile, world: ChangesWorld, fault: str, busy: bool
) -> None:
    plant, expected = FAULTS[fault]
    reconcile.plant(plant)
    found = reconcile.run(
        meanwhile=lambda: world.execute("UPDATE dbo.orders SET name = N'new' WHERE id < 5") if busy else None
    )
    assert reconcile.failures(found) == expected


def test_a_row_that_was_added_to_silver_is_found_by_looking_its_key_up(reconcile: Reconcile) -> None:
    table = DeltaTable(reconcile.silver)
    rows = table.to_pyarrow_table().slice(0, 1)
    doubled = rows.set_column(rows.schema.get_field_index("id"), "id", [[9999]])
    write_deltalake(table, doubled.cast(rows.schema), mode="append")
    assert reconcile.failures(reconcile.run()) == {("extra", "9999")}


def test_a_change_that_never_came_into_bronze_is_found(reconcile: Reconcile, world: ChangesWorld) -> None:
    world.execute("UPDATE dbo.orders SET name = N'lost' WHERE id = 3")
    world.execute("DELETE FROM cdc.dbo_orders_CT WHERE id = 3")
    found = reconcile.run()
    assert reconcile.failures(found) == {("different", "3")}


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lambda table: table.update(updates={"name": "'other'"}, predicate="id = 3"), "different"),
        (lambda table: table.update(updates={"name": "'row 3'"}, predicate="id = 3"), "different"),
        (lambda table: table.delete("id = 3"), "missing"),
    ],
)
def test_a_key_that_changed_meanwhile_has_to_be_right_in_silver_too(
    reconcile: Reconcile, world: ChangesWorld, plant: Callable[[DeltaTable], object], kind: str
) -> None:
    order = reconcile.order(sample_keys=False)
    items = reconcile.planned(order)
    for item in items:
        assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    world.execute("UPDATE dbo.orders SET name = N'new' WHERE id = 3")
    reconcile.follow()
    reconcile.plant(plant)
    found = [reconcile_item(order, item, connect=world.session) for item in items]
    assert reconcile.failures(found) == {(kind, "3")}  # type: ignore[arg-type]


def test_keys_are_hashed_unless_they_are_to_be_shown(reconcile: Reconcile) -> None:
    reconcile.plant(lambda table: table.delete("id = 14"))
    found = reconcile.run(show_keys=False)
    (key,) = [each["key"] for one in found for each in one.found.keys]
    assert len(key) == 16
    stored = " ".join(str(row["keys"]) for row in delta_rows(f"{reconcile.silver}_reconcile"))
    assert key in stored


def test_a_run_takes_the_tiles_that_have_waited_longest_and_a_cycle_takes_all(reconcile: Reconcile) -> None:
    seen: list[int] = []
    while True:
        order = reconcile.order(share=0.4)
        items = reconcile.planned(order)
        tiles = [item.tile for item in items if item.tile is not None]
        if seen and set(tiles) & set(seen):
            break
        reconcile.follow()
        for item in items:
            first = reconcile_item(order, item, connect=reconcile.world.session)
            if isinstance(first, Waiting):
                reconcile.follow()
                first = reconcile_item(order, item, connect=reconcile.world.session)
            assert isinstance(first, Reconciled)
        seen += tiles
    assert sorted(seen) == list(range(len(seen)))
    assert len(seen) > 2


def test_columns_can_be_left_out_and_are_named(reconcile: Reconcile) -> None:
    reconcile.plant(lambda table: table.update(updates={"name": "'other'"}, predicate="id = 10"))
    assert not any(one.found.failed for one in reconcile.run(columns=("amount",)))
    (first, *_) = reconcile.run(columns=("amount",))
    assert first.left_out == {"name": "columns= does not name it"}
    assert not any(one.found.failed for one in reconcile.run(counts_only=True))
    reconcile.plant(lambda table: table.delete("id = 10"))
    assert reconcile.failures(reconcile.run(counts_only=True)) == {("missing", "10")}


def test_without_silver_there_is_nothing_to_prove(world: ChangesWorld) -> None:
    reconcile = Reconcile(world)
    assert isinstance(plan_reconcile(reconcile.order(), connect=world.session), Skipped)


def test_what_was_read_is_not_read_again_after_a_wait_and_is_gone_after_the_comparison(
    reconcile: Reconcile, world: ChangesWorld
) -> None:
    order = reconcile.order()
    (item, *_) = reconcile.planned(order)
    assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    waiting = {file.name for file in Path(f"{reconcile.silver}_reconcile").glob("read-*")}
    assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    assert {file.name for file in Path(f"{reconcile.silver}_reconcile").glob("read-*")} == waiting
    reconcile.follow()
    assert isinstance(reconcile_item(order, item, connect=world.session), Reconciled)
    assert not list(Path(f"{reconcile.silver}_reconcile").glob("read-*"))


def test_a_comparison_waits_for_the_merge_when_changes_are_there_already(
    reconcile: Reconcile, world: ChangesWorld
) -> None:
    order = reconcile.order()
    (item, *_) = reconcile.planned(order)
    assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    world.tick()
    world.changes(quiet_seconds=0)
    waiting = reconcile_item(order, item, connect=world.session)
    assert isinstance(waiting, Waiting)
    assert "a merge brings them" in waiting.reason
    reconcile.follow()
    assert isinstance(reconcile_item(order, item, connect=world.session), Reconciled)


def test_another_try_reads_again(reconcile: Reconcile, world: ChangesWorld) -> None:
    order = reconcile.order()
    (item, *_) = reconcile.planned(order)
    assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    again = replace(order, attempt=replace(order.attempt, try_number=2))
    assert isinstance(reconcile_item(again, item, connect=world.session), Waiting)
    assert len(list(Path(f"{reconcile.silver}_reconcile").glob("read-*.json"))) == 2


def test_the_facts_row_says_what_was_found_without_a_key(reconcile: Reconcile, world: ChangesWorld) -> None:
    reconcile.plant(lambda table: table.update(updates={"name": "'other'"}, predicate="id = 10"))
    reconcile.run()
    details = [json.loads(row["detail"]) for row in world.facts("reconcile")]
    assert sum(each["different"] for each in details) == 2  # once by its tile, once by its key
    assert {name for each in details for name in each["columns"]} == {"name"}
