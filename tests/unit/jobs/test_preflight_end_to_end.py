"""Preflight on the server: every problem in one error, and the least rights that are enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import PermissionDenied, PreflightFailed
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

DRIVERS: tuple[DriverName, ...] = ("mssql-python", "pymssql")
both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="erp") as running:
        yield running


def load(server: EmbeddedSqlServer, folder: Path, **arguments: Any) -> Load:
    return Load(server, folder, **{"instance": "dbo_items", **arguments})


@both_drivers
def test_everything_that_is_wrong_is_in_one_error_with_what_to_do(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    server.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    server.enable_cdc("dbo.other")
    load(server, tmp_path, instance="dbo_other", driver=driver).all()
    server.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, code varchar(20) NOT NULL, late int NULL, "
        "place geography NULL, pin varchar(9) MASKED WITH (FUNCTION = 'default()') NULL, _chunk int NULL, "
        "a bigint NULL)"
    )
    server.enable_cdc("dbo.items", captured_column_list="id, place, pin, _chunk, a", role_name="cdc_reader")
    server.add_login(
        "half", roles=["cdc_reader"], grants=["SELECT ON dbo.items(id)", "SELECT ON dbo.items(pin)"]
    )
    server.execute("GRANT SELECT ON dbo.items(code) TO half")
    one = load(
        server,
        tmp_path,
        driver=driver,
        key=("code",),
        split_by=("nowhere",),
        casts={"pin": "nonsense"},
        allow=("nobody",),
        isolation="snapshot",
    )
    version = DeltaTable(one.table.bronze).version()
    with pytest.raises(PreflightFailed) as caught:
        one.plan()
    said = "\n".join(caught.value.problems)
    expected = [
        "ALTER DATABASE [erp] SET ALLOW_SNAPSHOT_ISOLATION ON",
        'casts={"place": ',
        "casts: a type must be one that a column can be cast to, got 'nonsense'",
        "allow: the table has no column [nobody]",
        "[_chunk] (int) must not have the name of a technical column",
        "key: column [code] must be captured by CDC",
        "split_by: the table has no column [nowhere]",
        "belongs to erp.dbo.other (connection erp), not to erp.dbo.items",
        "do not have the same columns",
    ]
    assert [words for words in expected if words not in said] == []
    assert len(caught.value.problems) == len(expected)
    assert DeltaTable(one.table.bronze).version() == version


@both_drivers
def test_each_right_that_is_missing_is_named_with_its_grant(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    server.execute("CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, a int NULL, b int NULL)")
    server.enable_cdc("dbo.items", role_name="cdc reader")
    server.add_login("outside", grants=["SELECT ON dbo.items"])
    with pytest.raises(PermissionDenied) as hidden:
        load(server, tmp_path, driver=driver, login="outside").plan()
    assert "ALTER ROLE <the role> ADD MEMBER [outside]" in str(hidden.value)
    server.add_login("inside", roles=["cdc reader"], grants=["SELECT ON dbo.items"])
    with pytest.raises(PreflightFailed) as caught:
        load(server, tmp_path, driver=driver, login="inside").plan()
    assert caught.value.problems == (
        "user inside may not read the change table: GRANT SELECT ON [cdc].[dbo_items_CT] TO [inside]",
    )


@both_drivers
def test_the_least_rights_are_enough_for_snapshot_recount_and_changes(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    """Column by column, a gating role, the change table: what docs/permissions.md says, and nothing else."""
    server.execute(
        "CREATE TABLE dbo.items (tenant varchar(9) NOT NULL, id int NOT NULL, a int NULL, secret int NULL, "
        "PRIMARY KEY (tenant, id))"
    )
    server.executemany("INSERT INTO dbo.items VALUES (?, ?, ?, ?)", [("t", n, n, n) for n in range(40)])
    server.enable_cdc("dbo.items", captured_column_list="tenant, id, a", role_name="cdc_reader")
    server.add_login(
        "loader",
        roles=["cdc_reader"],
        grants=[
            *(f"SELECT ON dbo.items({name})" for name in ("tenant", "id", "a")),
            "SELECT ON cdc.dbo_items_CT",
        ],
    )
    one = load(server, tmp_path, driver=driver, login="loader")
    planned = one.plan(rows_per_range=10)
    assert len(planned) == 4
    completed = one.complete([one.read(item, verify_counts=True) for item in planned])
    assert completed.rows == 40
    server.execute("UPDATE dbo.items SET a = -1 WHERE id = 3")
    assert one.changes().counts.updates == 1
    names = {field.name for field in DeltaTable(one.table.bronze).schema().fields}
    assert "secret" not in names
    (facts,) = delta_rows(one.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "[secret] (int) is not captured by CDC" in facts["detail"]


@both_drivers
def test_what_cannot_be_told_is_a_note(server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName) -> None:
    server.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, c varchar(9) COLLATE Greek_CI_AS NULL)"
    )
    server.enable_cdc("dbo.items")
    server.add_login("loader", grants=["SELECT ON dbo.items", "SELECT ON cdc.dbo_items_CT"])
    one = load(server, tmp_path, driver=driver, login="loader")
    one.all()
    (facts,) = delta_rows(one.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "unknown whether the table has row-level security" in facts["detail"]
    assert "column(s) [c] have another collation than the database" in facts["detail"]


@both_drivers
def test_a_capture_that_has_stopped_is_a_note_and_not_a_failure(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    from datetime import timedelta

    server.execute("CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY)")
    server.enable_cdc("dbo.items")
    server.execute("INSERT INTO dbo.items VALUES (1)")
    server.clock.shift(timedelta(hours=6))
    one = load(server, tmp_path, driver=driver)
    one.all()
    (facts,) = delta_rows(one.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "capture last wrote 360 minutes ago" in facts["detail"]


@both_drivers
def test_a_heap_is_one_range_and_says_so_and_has_ranges_with_split_by(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    server.execute("CREATE TABLE dbo.items (at datetime2(7) NULL, note nvarchar(20) NULL)")
    rows = [
        (None if n % 5 == 0 else f"2024-01-01 00:00:{n % 60:02d}.1234567", f"n{n % 3}") for n in range(60)
    ]
    server.executemany("INSERT INTO dbo.items VALUES (?, ?)", [*rows, *rows])
    server.enable_cdc("dbo.items")
    one = load(server, tmp_path / "whole", driver=driver)
    (planned,) = one.plan(rows_per_range=10)
    assert planned.key_range.is_whole_table
    (facts,) = delta_rows(one.table.facts, "event = 'snapshot_plan'", columns="detail")
    assert "one range: the table has no key to cut on; name columns with split_by" in facts["detail"]
    assert "silver needs the argument key" in facts["detail"]
    assert one.complete([one.read(planned)]).rows == 120
    cut = load(server, tmp_path / "cut", driver=driver, split_by=("at",))
    planned_ranges = cut.plan(rows_per_range=10)
    assert len(planned_ranges) > 4
    assert cut.complete([cut.read(item) for item in planned_ranges]).rows == 120
    notes = [row["note"] for row in delta_rows(cut.table.bronze)]
    assert sorted(notes) == sorted(note for _, note in [*rows, *rows])
