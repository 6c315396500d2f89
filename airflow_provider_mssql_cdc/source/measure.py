"""Run the planner's queries about a key, on a session, after S was recorded."""

from __future__ import annotations

from airflow_provider_mssql_cdc.errors import UnsupportedKey
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.source_table import SourceTable
from airflow_provider_mssql_cdc.planning.keys import Columns, KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import RangePlan, drive, plan_ranges
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.snapshot import count_keys, count_range


def cut_ranges(
    session: SourceSession,
    table: SourceTable,
    keys: KeyChoice,
    *,
    rows_per_range: int,
    max_ranges: int,
    max_seeks: int | None = None,
) -> RangePlan:
    """Cut a table into ranges; S must be recorded before.

    :raises TooManySeeks: cutting by seeks needs more ranges than ``max_seeks``.
    :raises UnsupportedKey: the user's key does not identify a row.
    """
    if keys.key_to_check and keys.key is not None:
        check_key(session, table, keys.key)
    steps = plan_ranges(
        table, keys, rows_per_range=rows_per_range, max_ranges=max_ranges, max_seeks=max_seeks
    )
    plan = drive(
        steps, lambda statement: session.rows(statement, doing=f"measuring the key of {table.label}")
    )
    assert isinstance(plan, RangePlan)
    return plan


def check_key(session: SourceSession, table: SourceTable, key: Columns) -> None:
    """Check a key that only the user declares: it must have as many distinct values as the table has rows.

    :raises UnsupportedKey: with both counts.
    """
    row = session.row(count_keys(table, key), doing=f"counting keys of {table.label}")
    rows, values = int(row["row_count"]), int(row["key_count"])
    if rows != values:
        names = ", ".join(column.name for column in key)
        raise UnsupportedKey(
            f"{table.label}: key ({names}) has {values:,} values for {rows:,} rows, so it does not identify "
            "a row: name columns that do"
        )


def count_rows(session: SourceSession, table: SourceTable, split_by: Columns, key_range: KeyRange) -> int:
    """Return the current row count of one range."""
    counted = session.value(count_range(table, split_by, key_range), doing=f"counting rows of {table.label}")
    return int(counted or 0)
