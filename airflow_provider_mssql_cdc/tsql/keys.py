"""Measuring a key: its ends, the next bound of a plan, its count, its distribution.

Every key value comes back as exact text that the server rendered (columns ``k0``, ``k1``, …), of nchar and
nvarchar as UTF-16 units where the server gives those, so that order and precision stay the server's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.source_table import Column, SourceTable
from airflow_provider_mssql_cdc.tsql.bounds import exact_text, key_text, typed_bound
from airflow_provider_mssql_cdc.tsql.identifiers import quote_identifier
from airflow_provider_mssql_cdc.tsql.predicates import (
    Predicate,
    all_of,
    as_predicate,
    at_most,
    equals,
    pieces_from,
)
from airflow_provider_mssql_cdc.tsql.snapshot import table_name
from airflow_provider_mssql_cdc.tsql.statement import Statement


def key_ends(table: SourceTable, column: Column) -> Statement:
    """MIN and MAX of one column, as lowest and highest; NULL for an empty table.

    Two scalar subqueries are two seeks; in one SELECT they may scan. bit has neither: use
    :func:`first_key`.
    """
    name = quote_identifier(column.name)
    ends = [f"(SELECT {function}({name}) FROM {table_name(table)})" for function in ("MIN", "MAX")]
    lowest, highest = (exact_text(column.sql_type, end) for end in ends)
    return Statement(f"SELECT {lowest} AS lowest,\n       {highest} AS highest")


def first_key(table: SourceTable, columns: Sequence[Column], *, descending: bool = False) -> Statement:
    """The smallest (or largest) key of a table, NULLs first; no row for an empty table."""
    select_list = ", ".join(
        f"{key_text(column, quote_identifier(column.name))} AS k{index}"
        for index, column in enumerate(columns)
    )
    order = ", ".join(quote_identifier(column.name) + (" DESC" if descending else "") for column in columns)
    return Statement(f"SELECT TOP (1) {select_list}\nFROM {table_name(table)}\nORDER BY {order}")


def seek_key(
    table: SourceTable,
    columns: Sequence[Column],
    *,
    lower: Bound,
    depth: int,
    rows: int,
    inclusive: bool = True,
    upper: Bound | None = None,
) -> Statement | None:
    """The last of the first ``rows`` keys of one seekable piece at or above a bound; None for a piece
    that cannot hold a row.

    The piece shares the bound's first ``depth`` values and is ordered by the other columns, so it is one
    ordered scan of an index that stops after ``rows`` keys: no sort, and no key is read twice when the
    search goes on in the next piece (``depth - 1``) with what is left.

    :param upper: keys above it are not there; those equal to it are.

    One row or none: ``k<depth>`` … of the columns that the piece does not share, ``keys_read``, and
    ``is_lower`` (1 when the key is the bound itself, which repeats then).
    """
    piece = pieces_from(columns, lower, inclusive=inclusive)[len(columns) - 1 - depth]
    if piece.is_nothing:
        return None
    if upper is not None:
        limit = at_most(columns, upper)
        piece = as_predicate(all_of([piece, limit])) if piece.text else limit
    names = [quote_identifier(column.name) for column in columns[depth:]]
    inner = ", ".join(f"{name} AS [__$k{depth + index}]" for index, name in enumerate(names))
    keys = ", ".join(
        f"{key_text(column, f'd.[__$k{depth + index}]')} AS k{depth + index}"
        for index, column in enumerate(columns[depth:])
    )
    repeats = _is_lower(columns, lower, depth=depth, inclusive=inclusive)
    order = ", ".join(names)
    text = (
        f"SELECT TOP (1) {keys},\n       d.[__$n] AS keys_read,\n       {repeats.text} AS is_lower\n"
        "FROM (\n"
        f"SELECT TOP ({int(rows)}) {inner},\n       ROW_NUMBER() OVER (ORDER BY {order}) AS [__$n]\n"
        f"FROM {table_name(table)}{piece.where}\n"
        f"ORDER BY {order}\n"
        ") AS d\n"
        "ORDER BY d.[__$n] DESC"
    )
    return Statement(text, {**piece.parameters, **repeats.parameters})


def _is_lower(columns: Sequence[Column], lower: Bound, *, depth: int, inclusive: bool) -> Predicate:
    """Only the piece that shares all values but the last, and includes it, can find the bound itself."""
    last = len(columns) - 1
    if depth < last or not inclusive:
        return Predicate("0")
    same = equals(replace(columns[last], name=f"__$k{last}"), lower[last], f"lo{last}")
    return Predicate(f"CASE WHEN d.{same.text} THEN 1 ELSE 0 END", same.parameters)


def ends_within(table: SourceTable, column: Column, *, lower: str, upper: str) -> Statement:
    """The smallest and the largest key in ``[lower, upper]``, as lowest and highest; NULL where none is."""
    name = quote_identifier(column.name)
    low, high = (typed_bound(column.sql_type, text, end) for text, end in ((lower, "lo0"), (upper, "hi0")))
    inside = f"FROM {table_name(table)} WHERE {name} >= {low.text} AND {name} <= {high.text}"
    ends = [f"(SELECT {function}({name}) {inside})" for function in ("MIN", "MAX")]
    lowest, highest = (exact_text(column.sql_type, end) for end in ends)
    return Statement(
        f"SELECT {lowest} AS lowest,\n       {highest} AS highest", {**low.parameters, **high.parameters}
    )


def count_keys(table: SourceTable, columns: Sequence[Column]) -> Statement:
    """Whether columns identify a row: row_count against key_count (distinct for the server)."""
    names = ", ".join(quote_identifier(column.name) for column in columns)
    name = table_name(table)
    return Statement(
        f"SELECT (SELECT COUNT_BIG(*) FROM {name}) AS row_count,\n"
        f"       (SELECT COUNT_BIG(*) FROM (SELECT DISTINCT {names} FROM {name}) AS d) AS key_count"
    )


def count_slices(table: SourceTable, column: Column, *, lower: str, upper: str, width: int) -> Statement:
    """Rows per slice of a grid over one whole-number or date key, in ``[lower, upper]``.

    slice (0 for ``[lower, lower + width)`` and so on), row_count; empty slices are missing. The caller
    chooses ``lower`` and ``upper`` so that their distance is a bigint (at most 2**63 - 1); for dates the
    unit is a day. The width is cast: a literal above 2**31 - 1 is a decimal, and dividing by one leaves
    fractions.
    """
    name = quote_identifier(column.name)
    low, high = (typed_bound(column.sql_type, text, end) for text, end in ((lower, "lo0"), (upper, "hi0")))
    if column.sql_type.name == "date":
        distance = f"DATEDIFF(day, {low.text}, {name})"
    elif column.sql_type.name == "decimal":
        distance = f"CAST({name} - {low.text} AS bigint)"
    else:
        distance = f"(CAST({name} AS bigint) - CAST({low.text} AS bigint))"
    whole_width = f"CAST({int(width)} AS bigint)"
    return Statement(
        "SELECT g.[__$slice] AS slice, COUNT_BIG(*) AS row_count\n"
        f"FROM (\nSELECT {distance} / {whole_width} AS [__$slice]\n"
        f"FROM {table_name(table)}\n"
        f"WHERE {name} >= {low.text} AND {name} <= {high.text}\n"
        ") AS g\n"
        "GROUP BY g.[__$slice]\n"
        "ORDER BY g.[__$slice]",
        {**low.parameters, **high.parameters},
    )
