"""Keys of every type go from silver to the source and come back as the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.reconcile import Reconciled
from tests.support.changes_world import ChangesWorld
from tests.unit.jobs.test_reconcile import DRIVERS, Reconcile

KEYS = {
    "int": ("-1", "0", "2147483647"),
    "tinyint": ("0", "255"),
    "bit": ("0", "1"),
    "decimal(38, 9)": ("-1.5", "0", "12345678901234567890.123456789"),
    "money": ("-0.0001", "922337203685477.5807"),
    "date": ("'0001-01-01'", "'9999-12-31'"),
    "datetime": ("'1753-01-01T00:00:00'", "'2024-02-29T23:59:59.997'", "'2024-02-29T23:59:59.993'"),
    "smalldatetime": ("'1900-01-01T00:00:00'", "'2024-02-29T23:59:00'"),
    "datetime2(3)": ("'0001-01-01T00:00:00'", "'2024-02-29T23:59:59.999'"),
    "datetimeoffset(3)": ("'2024-02-29T23:59:59.999+14:00'", "'2024-02-29T23:59:59.999-11:30'"),
    "time(3)": ("'00:00:00'", "'23:59:59.999'"),
    "uniqueidentifier": ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "'00000000-0000-0000-0000-000000000000'"),
    "varchar(20)": ("'a'", "'it''s'", "'%_['", "''"),
    "nvarchar(20)": ("N'\u00e9'", "N'\U0001f389'", "N'a b'", "N'line' + NCHAR(10) + N'break'"),
    "char(5)": ("'a'", "'abcde'"),
    "varbinary(8)": ("0x", "0x00FF", "0xDEADBEEF"),
    "binary(4)": ("0x00000000", "0xFFFFFFFF"),
}


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as server:
        yield server


class Keyed(ChangesWorld):
    """A table whose key has another type, or several columns."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, *, columns: str, driver: str) -> None:
        self.server, self.name, self.conn_id = server, "keyed", "erp"
        server.execute(f"CREATE TABLE dbo.keyed ({columns})")
        self.connection = server.airflow_connection(extra={"mssql_cdc": {"driver": driver}})
        self.table = MssqlCdcTable(
            mssql_conn_id="erp",
            capture_instance="dbo_keyed",
            bronze=str(folder / "bronze" / "keyed"),
            facts=str(folder / "facts"),
        )


def proven(world: Keyed, **asked: Any) -> list[Reconciled]:
    reconcile = Reconcile(world, **asked)
    world.bootstrap()
    reconcile.follow()
    return reconcile.run()


@pytest.mark.parametrize(
    ("sql_type", "driver"),
    [*((name, DRIVERS[0]) for name in KEYS), *((name, DRIVERS[1]) for name in list(KEYS)[::4])],
)
def test_a_key_of_any_type_is_looked_up_and_found(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql_type: str, driver: str
) -> None:
    world = Keyed(server, tmp_path, columns=f"k {sql_type} NOT NULL PRIMARY KEY, v int NULL", driver=driver)
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
    for number, value in enumerate(KEYS[sql_type]):
        world.execute(f"INSERT INTO dbo.keyed VALUES ({value}, {number})")
    server.enable_cdc("dbo.keyed")
    found = proven(world)
    assert [one.found.failed for one in found] == [0] * len(found)
    (sample,) = [one.found for one in found if one.item.tile is None]
    assert sample.equal == len(KEYS[sql_type])


def test_a_key_of_several_columns_is_looked_up_and_a_fault_is_found_at_it(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "a int NOT NULL, b varchar(10) NOT NULL, v int NULL, PRIMARY KEY (a, b)"
    world = Keyed(server, tmp_path, columns=columns, driver=DRIVERS[0])
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
    for number in range(60):
        world.execute("INSERT INTO dbo.keyed VALUES (?, ?, ?)", number % 4, f"b{number}", number)
    server.enable_cdc("dbo.keyed")
    reconcile = Reconcile(world, rows_per_tile=20)
    world.bootstrap()
    reconcile.follow()
    DeltaTable(reconcile.silver).update(updates={"b": "'B8'"}, predicate="a = 0 AND b = 'b8'")
    found = reconcile.run()
    keys = {(each["kind"], *each["key"]) for one in found for each in one.found.keys}
    assert keys == {("missing", "0", "b8"), ("extra", "0", "B8")}


def test_a_column_that_was_added_with_null_in_the_rows_so_far_is_left_out_and_named(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Keyed(server, tmp_path, columns="k int NOT NULL PRIMARY KEY, v int NULL", driver=DRIVERS[0])
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
    world.execute("INSERT INTO dbo.keyed VALUES (1, 1), (2, 2)")
    server.enable_cdc("dbo.keyed")
    reconcile = Reconcile(world)
    world.bootstrap()
    reconcile.follow()
    world.execute("ALTER TABLE dbo.keyed ADD later int NOT NULL DEFAULT 7")
    world.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'keyed', @role_name = NULL, "
        "@capture_instance = N'dbo_keyed_v2'"
    )
    world.execute("UPDATE dbo.keyed SET v = 3 WHERE k = 2")
    world.tick()
    world.table = replace(world.table, capture_instance="dbo_keyed_v2")
    world.changes(quiet_seconds=0, accept_nulls=True)
    reconcile.follow()
    found = reconcile.run()
    assert [one.found.failed for one in found] == [0] * len(found)
    assert all("later" in one.left_out for one in found)
    assert "NULL" in found[0].left_out["later"]
