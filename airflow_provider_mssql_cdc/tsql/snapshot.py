"""What a mapped task sends: the rows of one key range, and their number.

The range's pieces are disjoint, so UNION ALL gives every row once and each branch is one index seek.
No table hint: the session's isolation level decides, and NOLOCK is never right here (a dirty row that
is rolled back is corrected by no change).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_mssql_cdc.model.columns import Column, SourceTable
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.planned_column import PlannedColumn
from airflow_provider_mssql_cdc.tsql.identifiers import qualified, quote_identifier, result_name
from airflow_provider_mssql_cdc.tsql.predicate import Predicate
from airflow_provider_mssql_cdc.tsql.predicates import range_pieces
from airflow_provider_mssql_cdc.tsql.statement import Statement


def select_range(
    table: SourceTable, columns: Sequence[PlannedColumn], split_by: Sequence[Column], key_range: KeyRange
) -> Statement:
    """The rows of one range, in no order; result columns carry the lake's names, in the planned order."""
    select_list = ",\n       ".join(
        f"{column.projection} AS {quote_identifier(result_name(column.lake.name))}" for column in columns
    )
    pieces = range_pieces(split_by, key_range)
    head = f"SELECT {select_list}\nFROM {table_name(table)}"
    return Statement("\nUNION ALL\n".join(head + piece.where for piece in pieces), merged_parameters(pieces))


def count_range(table: SourceTable, split_by: Sequence[Column], key_range: KeyRange) -> Statement:
    """The number of rows of one range, as ``row_count``."""
    pieces = range_pieces(split_by, key_range)
    counts = "\nUNION ALL\n".join(
        f"SELECT COUNT_BIG(*) AS [__$n] FROM {table_name(table)}{piece.where}" for piece in pieces
    )
    text = f"SELECT SUM(p.[__$n]) AS row_count\nFROM (\n{counts}\n) AS p"
    return Statement(text, merged_parameters(pieces))


def table_name(table: SourceTable) -> str:
    """``[schema].[table]``; the database is the connection's."""
    return qualified(table.schema, table.name)


def merged_parameters(pieces: Iterable[Predicate]) -> dict[str, str | int]:
    """The parameters of several pieces of one statement; a bound has one name in all of them."""
    return {name: value for piece in pieces for name, value in piece.parameters.items()}
