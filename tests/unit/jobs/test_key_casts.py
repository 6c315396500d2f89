"""Keys that the lake would not tell apart are refused by name, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import PreflightFailed
from tests.support.changes_world import ChangesWorld

PAYLOAD = "code decimal(10, 2) NOT NULL, city varchar(20) COLLATE Cyrillic_General_CI_AS NOT NULL"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer() as server:
        world = ChangesWorld(server, tmp_path, columns=PAYLOAD)
        server.enable_cdc("dbo.orders")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        yield world


def keyed(table: MssqlCdcTable, *key: str, **given: object) -> MssqlCdcTable:
    return replace(table, key=key, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "casts", "named"),
    [
        (("id",), {"id": "float"}, "column [id] (bigint)"),
        (("code",), {"code": "decimal(10,0)"}, "column [code] (decimal(10,2))"),
        (("id", "code"), {"CODE": "int"}, "column [code] (decimal(10,2))"),
        (("city",), {}, "column [city] (varchar(20), Cyrillic_General_CI_AS)"),
    ],
)
def test_preflight_names_the_key_column_and_nothing_is_written(
    world: ChangesWorld, key: tuple[str, ...], casts: dict[str, str], named: str
) -> None:
    world.table = keyed(world.table, *key, casts=casts)
    with pytest.raises(PreflightFailed) as failed:
        world.bootstrap()
    assert any(named in problem for problem in failed.value.problems)
    assert not Path(world.table.bronze).exists()


def test_columns_outside_the_key_may_be_cast_at_will(world: ChangesWorld) -> None:
    world.table = replace(world.table, casts={"code": "decimal(10,0)"}, split_by=("code",))
    world.execute("INSERT INTO dbo.orders VALUES (1, 1.20, 'a'), (2, 1.40, 'b')")
    assert world.bootstrap().rows == 2


def test_a_code_page_that_is_allowed_by_name_is_loaded(world: ChangesWorld) -> None:
    world.table = keyed(world.table, "city", allow=("city",))
    world.execute("INSERT INTO dbo.orders VALUES (1, 1.20, 'a')")
    assert world.bootstrap().rows == 1


def test_a_cast_that_comes_after_the_snapshot_is_refused_by_changes(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("INSERT INTO dbo.orders VALUES (1, 1.20, 'a')")
    world.table = replace(world.table, casts={"id": "float"})
    with pytest.raises(PreflightFailed, match=r"column \[id\]"):
        world.changes()
