"""Change data capture as the product asks for it; skipped, with its own words, where a server has none."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, describe
from airflow_provider_mssql_cdc.source.instances import lsn_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.watermarks import commit_time, horizon, is_retained, low, now
from airflow_provider_mssql_cdc.tsql.cdc import ServerZone, change_rows, window_commits
from tests.contract.target import Target

CAPTURED_WITHIN_SECONDS = 60


@pytest.fixture
def described(target: Target, session: SourceSession) -> Iterator[SourceDescription]:
    """A table of three rows, older than its capture instance."""
    if target.no_cdc is not None:
        pytest.skip(target.no_cdc)
    name = f"c_{secrets.token_hex(4)}"
    target.run(
        f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, twice AS (id * 2))",
        f"INSERT INTO dbo.{name} (id, name) VALUES (1, N'a'), (2, N'b'), (3, N'c')",
        f"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL",
    )
    yield describe(session, capture_instance=f"DBO_{name.upper()}")
    target.run(f"EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'{name}', "
               f"@capture_instance = N'dbo_{name}'", f"DROP TABLE dbo.{name}")  # fmt: skip


def test_an_instance_is_found_whatever_its_case_and_described(described: SourceDescription) -> None:
    assert described.problems == ()
    assert described.instance.name == f"dbo_{described.table.name}"
    assert described.instance.index_columns == ("id",)
    assert [(column.name, column.computed) for column in described.columns] == [
        ("id", False),
        ("name", False),
        ("twice", True),
    ]


def test_a_fresh_instance_has_a_position_that_is_retained(
    session: SourceSession, described: SourceDescription
) -> None:
    instance = described.instance
    position = now(session, instance)
    assert instance.start_lsn is not None
    assert position >= instance.start_lsn.decremented()
    assert is_retained(position, low(session, instance))
    assert horizon(session, instance).lsn >= position or horizon(session, instance).lsn < instance.start_lsn


def test_changes_come_after_the_position_in_their_order(
    target: Target, session: SourceSession, described: SourceDescription
) -> None:
    table, instance = described.table, described.instance
    position = now(session, instance)
    target.run(
        f"UPDATE dbo.{table.name} SET name = N'A' WHERE id = 1",
        f"UPDATE dbo.{table.name} SET id = 9 WHERE id = 2",
        f"DELETE FROM dbo.{table.name} WHERE id = 3",
    )
    reached = _captured(session, instance, after=position, commits=3)
    planned = plan_columns(described.columns, {}).columns
    statement = change_rows(instance.name, planned, after=position, until=reached)
    rows = session.rows(statement)
    assert [(row["_operation"], row["id"]) for row in rows] == [(3, 1), (4, 1), (1, 2), (2, 9), (1, 3)]
    lsns = [lsn for row in rows if (lsn := lsn_of(row["_start_lsn"])) is not None]
    assert len(lsns) == len(rows)
    assert lsns == sorted(lsns)
    assert all(position < lsn <= reached for lsn in lsns)
    assert commit_time(session, lsns[-1]) is not None
    assert captured_schema([column.lake for column in planned]).names == ["id", "name"]


def _captured(session: SourceSession, instance: CaptureInstance, *, after: Lsn, commits: int) -> Lsn:
    """Wait, as a real capture job needs some seconds."""
    deadline = time.monotonic() + CAPTURED_WITHIN_SECONDS
    while True:
        reached = now(session, instance)
        if reached > after:
            mapped = window_commits(Window(after, reached), limit=10, zone=ServerZone())
            if len(session.rows(mapped)) >= commits:
                return reached
        assert time.monotonic() < deadline, "capture does not come forward: does its job run?"
        time.sleep(0.5)
