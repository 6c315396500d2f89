"""What else happens to a table, its bronze and its silver is no difference, and hides none."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.reconcile import Reconciled, reconcile_item
from airflow_provider_mssql_cdc.jobs.task import Waiting
from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepDone, UpkeepOptions, UpkeepOrder, upkeep
from tests.support.changes_world import ChangesWorld
from tests.support.s3_api import make_bucket, s3_api, storage_options
from tests.support.upkeep_world import repair
from tests.unit.jobs.test_reconcile import DRIVERS, Reconcile, reconcile, world
from tests.unit.jobs.test_reconcile_keys import Keyed, server

__all__ = ["reconcile", "server", "world"]  # fixtures

Make = Callable[..., Keyed]


@pytest.fixture
def make(server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make ``dbo.keyed`` with these columns and rows, tracked."""

    def made(columns: str, rows: list[str], driver: str = DRIVERS[0]) -> Keyed:
        world = Keyed(server, tmp_path, columns=columns, driver=driver)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.execute(f"INSERT INTO dbo.keyed VALUES {', '.join(f'({row})' for row in rows)}")
        server.enable_cdc("dbo.keyed")
        return world

    return made


def followed(world: Keyed, **asked: Any) -> Reconcile:
    reconcile = Reconcile(world, **asked)
    world.bootstrap()
    reconcile.follow()
    return reconcile


def refuse_failures(found: list[Reconciled]) -> None:
    assert [one.found for one in found if one.found.failed] == []
    assert any(one.found.compared for one in found)


def test_each_part_of_a_small_table_s_keys_has_its_turn(reconcile: Reconcile) -> None:
    for extra in (9999, 10000, 10001, 10002):
        table = DeltaTable(reconcile.silver)
        rows = table.to_pyarrow_table().slice(0, 1)
        added = rows.set_column(rows.schema.get_field_index("id"), "id", [[extra]])
        write_deltalake(table, added.cast(rows.schema), mode="append")
    # One tile is a cycle of one run.
    runs = [reconcile.run(share=0.25, rows_per_tile=1000) for _ in range(4)]
    found = {failure for run in runs for failure in reconcile.failures(run)}
    assert found == {("extra", key) for key in ("9999", "10000", "10001", "10002")}


def test_keys_are_looked_up_in_the_order_of_silver_s_key(make: Make) -> None:
    columns = "a int NOT NULL, b int NOT NULL, v int NULL, PRIMARY KEY (b, a)"
    world = make(columns, [f"{number}, {number % 7 + 1000}, {number}" for number in range(20)])
    world.table = replace(world.table, key=("b", "a"), split_by=("v",))
    reconcile = followed(world, rows_per_tile=100)
    world.table = replace(world.table, key=("a", "b"))
    refuse_failures(reconcile.run())


@pytest.mark.parametrize("asked", [{}, {"counts_only": True}])
def test_values_of_a_key_that_pass_from_row_to_row_are_explained(make: Make, asked: dict[str, Any]) -> None:
    columns = "id int NOT NULL PRIMARY KEY, code int NOT NULL UNIQUE, name nvarchar(max) NULL"
    world = make(columns, [f"{number}, {number}, N'name {number}'" for number in range(15)])
    world.table = replace(world.table, key=("code",))
    reconcile = followed(world, **asked)

    def meanwhile() -> None:
        swap = "CASE code WHEN 5 THEN 6 WHEN 6 THEN 5 ELSE code END"
        world.execute("UPDATE dbo.keyed SET code = code + 1")
        world.execute(f"UPDATE dbo.keyed SET code = {swap} WHERE code IN (5, 6)")
        world.execute(
            "BEGIN TRAN; DELETE FROM dbo.keyed WHERE code IN (9, 10); INSERT INTO dbo.keyed VALUES "
            "(99, 9, NULL), (98, 77, NULL); DELETE FROM dbo.keyed WHERE code = 77; COMMIT"
        )
        world.execute("UPDATE dbo.keyed SET code = code - 3")

    refuse_failures(reconcile.run(meanwhile=meanwhile))


VALUES = {
    "nvarchar(max)": ("N'x'", "N'y'"),
    "varbinary(max)": ("0x01", "0x02"),
    "xml": ("'<a/>'", "'<b/>'"),
    "float": ("0", "1.5"),
    "datetimeoffset(7)": ("'2024-02-29T23:59:59.9999999+14:00'", "'2024-02-29T23:59:59.9999998+14:00'"),
    "datetimeoffset(3)": ("'2024-02-29T23:59:59.999-11:30'", "NULL"),
    "datetime2(7)": ("'2024-02-29T23:59:59.9999999'", "'2024-02-29T23:59:59.9999998'"),
    "time(7)": ("'23:59:59.9999999'", "'23:59:59.9999998'"),
    "decimal(38, 10)": ("1.5", "1.50001"),
    "binary(4)": ("0x01", "0x0101"),
    "uniqueidentifier": ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "NULL"),
    "bit": ("NULL", "1"),
    "date": ("'9999-12-31'", "NULL"),
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_values_of_any_type_that_change_meanwhile_are_explained(make: Make, driver: str) -> None:
    columns = ", ".join(f"c{number} {sql_type} NULL" for number, sql_type in enumerate(VALUES))
    row = ", ".join(value for value, _ in VALUES.values())
    world = make(f"id int NOT NULL PRIMARY KEY, {columns}", [f"{key}, {row}" for key in range(30)], driver)

    def meanwhile() -> None:
        for number, (_, value) in enumerate(VALUES.values()):
            world.execute(f"UPDATE dbo.keyed SET c{number} = {value} WHERE id = {number}")
        world.execute(f"DELETE FROM dbo.keyed WHERE id = 22; INSERT INTO dbo.keyed VALUES (22, {row})")

    found = followed(world).run(meanwhile=meanwhile)
    refuse_failures(found)
    assert sum(one.found.moved for one in found if one.item.tile is not None) == len(VALUES) + 1


def test_a_resnapshot_meanwhile_is_no_difference(reconcile: Reconcile, world: ChangesWorld) -> None:
    order = reconcile.order()
    items = reconcile.planned(order)
    for item in items:
        assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    world.execute("UPDATE dbo.orders SET name = N'new' WHERE id < 15")
    world.execute("DELETE FROM dbo.orders WHERE id > 25")
    reconcile.follow()
    world.bootstrap(resnapshot=True, run_id="again")
    reconcile.follow()
    for item in items:
        assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)  # it has read again
    reconcile.follow()
    found = [reconcile_item(order, item, connect=world.session) for item in items]
    refuse_failures(found)  # type: ignore[arg-type]


def test_files_that_are_put_together_meanwhile_are_no_difference(
    reconcile: Reconcile, world: ChangesWorld
) -> None:
    def meanwhile() -> None:
        world.execute("UPDATE dbo.orders SET name = N'new' WHERE id < 15")
        reconcile.follow()
        world.execute("DELETE FROM dbo.orders WHERE id > 25")
        reconcile.follow()
        for uri in (world.table.bronze, reconcile.silver):
            DeltaTable(uri).optimize.compact()

    refuse_failures(reconcile.run(meanwhile=meanwhile))


def test_a_table_that_is_emptied_meanwhile_is_no_difference(
    reconcile: Reconcile, world: ChangesWorld
) -> None:
    refuse_failures(reconcile.run(meanwhile=lambda: world.execute("DELETE FROM dbo.orders")))
    assert sum(one.found.rows_source for one in reconcile.run()) == 0


def test_rows_that_a_killed_try_has_read_are_removed_once_they_are_old(
    reconcile: Reconcile, world: ChangesWorld
) -> None:
    order = reconcile.order(sample_keys=False)
    killed, waiting, *_ = reconcile.planned(order)
    folder = Path(f"{reconcile.silver}_reconcile")
    reconcile_item(order, killed, connect=world.session)
    left = set(folder.glob("read-*"))
    for file in left:
        os.utime(file, (0, 0))
    reconcile_item(order, waiting, connect=world.session)
    assert len(left) == 2
    reconcile.planned(reconcile.order())
    there = set(folder.glob("read-*"))
    assert len(there) == 2
    assert not there & left


def test_rows_wait_on_an_object_store_too(make: Make) -> None:
    world = make("id int NOT NULL PRIMARY KEY, v int NULL", [f"{number}, NULL" for number in range(20)])
    with s3_api() as endpoint:
        make_bucket(endpoint, "lake")
        options = storage_options(endpoint)
        world.table = replace(
            world.table, bronze="s3://lake/bronze/k", facts="s3://lake/facts", storage_options=options
        )
        world.bootstrap()
        reconcile = Reconcile(world, rows_per_tile=100)
        reconcile.silver = "s3://lake/silver/k"
        reconcile.follow()
        refuse_failures(reconcile.run())
        DeltaTable(reconcile.silver, storage_options=options).delete("id = 3")
        assert reconcile.failures(reconcile.run()) == {("missing", "3")}


def test_a_repair_that_silver_has_not_merged_is_waited_for(reconcile: Reconcile, world: ChangesWorld) -> None:
    order = reconcile.order(sample_keys=False)
    items = reconcile.planned(order)
    for item in items:
        assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    world.execute("UPDATE dbo.orders SET name = N'new' WHERE id < 15")
    reconcile.follow()
    repair(world)
    for item in items:
        waiting = reconcile_item(order, item, connect=world.session)
        assert isinstance(waiting, Waiting)
        assert "repaired" in waiting.reason
    reconcile.follow()
    found = [reconcile_item(order, item, connect=world.session) for item in items]
    refuse_failures(found)  # type: ignore[arg-type]


def test_a_fold_above_the_read_has_it_read_again(reconcile: Reconcile, world: ChangesWorld) -> None:
    def fold() -> None:
        world.execute("UPDATE dbo.orders SET name = N'new' WHERE id < 15")
        reconcile.follow()
        done = upkeep(
            UpkeepOrder(
                world.table,
                reconcile.silver,
                world.attempt("upkeep"),
                UpkeepOptions(fold=True, fold_share=0.0, fold_after_hours=0),
                started_at=datetime.now(UTC) + timedelta(minutes=10),
            )
        )
        assert isinstance(done, UpkeepDone)
        assert "lsn" in done.tables["bronze"]["fold"]

    order = reconcile.order(sample_keys=False)
    items = reconcile.planned(order)
    for item in items:
        reconcile_item(order, item, connect=world.session)
    fold()
    for item in items:
        assert isinstance(reconcile_item(order, item, connect=world.session), Waiting)
    reconcile.follow()
    found = [reconcile_item(order, item, connect=world.session) for item in items]
    refuse_failures(found)  # type: ignore[arg-type]
