"""SELECT of a key range, and key queries for finding bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.source_table import (
    BINARY_TYPES,
    CHAR_TYPES,
    Column,
    PlannedColumn,
    SourceTable,
    SqlType,
)
from airflow_provider_mssql_cdc.tsql.bounds import (
    exact_text,
    is_bindable,
    key_text,
    typed_bound,
    unicode_type,
    utf16_units,
)
from airflow_provider_mssql_cdc.tsql.predicates import (
    Predicate,
    all_of,
    any_of,
    as_predicate,
    at_most,
    equals,
    pieces_from,
    range_pieces,
)
from airflow_provider_mssql_cdc.tsql.statement import Statement, qualified, quote_identifier, result_name


def key_ends(table: SourceTable, column: Column) -> Statement:
    """Return MIN and MAX of one column, as lowest and highest; NULL for an empty table.

    Two scalar subqueries are two seeks; in one SELECT they may scan. bit supports neither: use
    :func:`first_key`.
    """
    name = quote_identifier(column.name)
    # Microsoft Learn, "MIN": not for bit columns.
    ends = [f"(SELECT {function}({name}) FROM {table_name(table)})" for function in ("MIN", "MAX")]
    lowest, highest = (exact_text(column.sql_type, end) for end in ends)
    return Statement(f"SELECT {lowest} AS lowest,\n       {highest} AS highest")


def first_key(table: SourceTable, columns: Sequence[Column], *, descending: bool = False) -> Statement:
    """Return the smallest (or largest) key of a table, NULLs first; no row for an empty table."""
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
    """Return the last of the first ``rows`` keys of one seekable piece, from a bound; None if it is empty.

    The piece shares the bound's first ``depth`` values and is ordered by the other columns, so it is one
    ordered index scan that stops after ``rows`` keys: no sort, and no key is read twice when the search
    continues in the next piece (``depth - 1``).

    :param upper: inclusive upper bound of the keys.

    One row or none: ``k<depth>`` … of the columns that the piece does not share, ``keys_read``, and
    ``is_lower`` (1 when the key is the bound itself, which then repeats).
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
    """Return T-SQL that detects the bound itself; only the piece sharing all values but the last finds
    it.
    """
    last = len(columns) - 1
    if depth < last or not inclusive:
        return Predicate("0")
    same = equals(replace(columns[last], name=f"__$k{last}"), lower[last], f"lo{last}")
    return Predicate(f"CASE WHEN d.{same.text} THEN 1 ELSE 0 END", same.parameters)


def ends_within(table: SourceTable, column: Column, *, lower: str, upper: str) -> Statement:
    """Return the smallest and largest key in ``[lower, upper]``, as lowest and highest; NULL if there is
    none.
    """
    name = quote_identifier(column.name)
    low, high = (typed_bound(column.sql_type, text, end) for text, end in ((lower, "lo0"), (upper, "hi0")))
    inside = f"FROM {table_name(table)} WHERE {name} >= {low.text} AND {name} <= {high.text}"
    ends = [f"(SELECT {function}({name}) {inside})" for function in ("MIN", "MAX")]
    lowest, highest = (exact_text(column.sql_type, end) for end in ends)
    return Statement(
        f"SELECT {lowest} AS lowest,\n       {highest} AS highest", {**low.parameters, **high.parameters}
    )


def count_keys(table: SourceTable, columns: Sequence[Column]) -> Statement:
    """Return row_count and key_count (distinct by the server): equal when the columns identify a row."""
    names = ", ".join(quote_identifier(column.name) for column in columns)
    name = table_name(table)
    return Statement(
        f"SELECT (SELECT COUNT_BIG(*) FROM {name}) AS row_count,\n"
        f"       (SELECT COUNT_BIG(*) FROM (SELECT DISTINCT {names} FROM {name}) AS d) AS key_count"
    )


def count_slices(table: SourceTable, column: Column, *, lower: str, upper: str, width: int) -> Statement:
    """Count rows per slice of a grid over one integer or date key, in ``[lower, upper]``.

    slice (0 for ``[lower, lower + width)`` and so on), row_count; empty slices are missing. The distance of
    ``lower`` and ``upper`` must be a bigint (at most 2**63 - 1); for dates the unit is a day. The width is
    cast: a literal above 2**31 - 1 is a decimal, and dividing by one leaves fractions.
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


_PROJECTED = {
    "tinyint": "CAST({0} AS smallint)",
    "money": "CAST({0} AS decimal(19,4))",
    "smallmoney": "CAST({0} AS decimal(10,4))",
    "time": "CONVERT(varchar(16), CAST({0} AS time(7)), 121)",
    "rowversion": "CAST({0} AS binary(8))",
    "xml": "CAST({0} AS nvarchar(max))",
    "text": "CAST({0} AS nvarchar(max))",
    "ntext": "CAST({0} AS nvarchar(max))",
    "image": "CAST({0} AS varbinary(max))",
    "json": "CAST({0} AS nvarchar(max))",
    "vector": "CAST({0} AS nvarchar(max))",
}

_BYTES = {"uniqueidentifier": 16, "rowversion": 8, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}


def projection(column: Column) -> str:
    """Return T-SQL that reads a column as planned; most types need no conversion."""
    return _projected(column.sql_type, utf16=column.utf16).replace("{0}", quote_identifier(column.name))


def cast_projection(source: Column, target: SqlType) -> str:
    """Return T-SQL for a cast requested by the user.

    A cast to a char type prints the same text as a key bound (all digits, ISO 8601, hex), never the server's
    default style, which drops seconds of a datetime. Strings are read as Unicode whatever the target's code
    page. If the target would truncate a string or binary value, the statement fails.
    """
    column, sql_type = quote_identifier(source.name), source.sql_type
    if target.name in CHAR_TYPES and sql_type.name not in CHAR_TYPES and is_bindable(sql_type):
        return f"CAST({exact_text(sql_type, column)} AS {target.declaration})"  # digits and letters only
    if target.name in CHAR_TYPES:
        read = unicode_type(target)
        limit = None if _holds(target, sql_type) else target
        text = _whole(column, read, wide="nvarchar", limit=limit)
        return utf16_units(read, text) if source.utf16 else text
    if target.name in BINARY_TYPES:
        fits = target.is_max or (sql_type.name not in CHAR_TYPES and _holds(target, sql_type))
        return _whole(column, target.declaration, wide="varbinary", limit=None if fits else target)
    return _projected(target, utf16=source.utf16).replace("{0}", f"CAST({column} AS {target.declaration})")


def _holds(target: SqlType, source: SqlType) -> bool:
    """Return whether a target of the same family can hold every value of the source."""
    if target.is_max:
        return True
    if source.name in _BYTES:
        return _BYTES[source.name] <= target.max_length
    sized = source.name in CHAR_TYPES | BINARY_TYPES and not source.is_max
    return sized and _units(source) <= _units(target)


def _units(sql_type: SqlType) -> int:
    return sql_type.max_length // (2 if sql_type.name in {"nchar", "nvarchar"} else 1)


def _whole(column: str, read: str, *, wide: str, limit: SqlType | None) -> str:
    """Return a cast that fails (error 245) where CAST would truncate the value silently.

    The failing branch depends on the column, so no optimizer evaluates it in advance.
    """
    if limit is None:
        return f"CAST({column} AS {read})"
    # A conversion to a shorter char or binary type truncates without an error (Microsoft Learn, "CAST and
    # CONVERT", truncating and rounding results).
    length = f"DATALENGTH(CAST({column} AS {wide}(max)))"
    most = _units(limit) * (2 if wide == "nvarchar" else 1)
    failing = f"CAST(CAST(N'longer than {limit}: ' + CAST({length} AS nvarchar(20)) AS int) AS {read})"
    return f"CASE WHEN {length} > {most} THEN {failing} ELSE CAST({column} AS {read}) END"


def _projected(sql_type: SqlType, *, utf16: bool) -> str:
    if sql_type.name in {"char", "varchar"}:
        return f"CAST({{0}} AS {unicode_type(sql_type)})"
    if utf16 and sql_type.name in {"nchar", "nvarchar"}:
        return utf16_units(unicode_type(sql_type), "{0}")
    if utf16 and sql_type.name == "ntext":
        return utf16_units("nvarchar(max)", "{0}")
    return _PROJECTED.get(sql_type.name, "{0}")


def select_range(
    table: SourceTable, columns: Sequence[PlannedColumn], split_by: Sequence[Column], key_range: KeyRange
) -> Statement:
    """Return the rows of one range, unordered; result columns have the lake's names, in planned order."""
    select_list = ",\n       ".join(
        f"{column.projection} AS {quote_identifier(result_name(column.lake.name))}" for column in columns
    )
    pieces = range_pieces(split_by, key_range)
    head = f"SELECT {select_list}\nFROM {table_name(table)}"
    return Statement("\nUNION ALL\n".join(head + piece.where for piece in pieces), merged_parameters(pieces))


def select_keys(
    table: SourceTable, columns: Sequence[PlannedColumn], key: Sequence[Column], keys: Sequence[Bound]
) -> Statement:
    """Return the rows of some keys, by the server's comparison; result columns as in :func:`select_range`.

    :param keys: at least one, without NULLs; a statement has at most 2,100 parameters.
    """
    # Microsoft Learn, "Maximum capacity specifications for SQL Server": parameters per stored procedure.
    select_list = ",\n       ".join(
        f"{column.projection} AS {quote_identifier(result_name(column.lake.name))}" for column in columns
    )
    wanted = _one_of(key[0], keys) if len(key) == 1 else _any_of_keys(key, keys)
    return Statement(f"SELECT {select_list}\nFROM {table_name(table)}{wanted.where}", dict(wanted.parameters))


def _one_of(column: Column, keys: Sequence[Bound]) -> Predicate:
    bounds = [
        typed_bound(column.sql_type, value, f"k{number}")
        for number, (value,) in enumerate(keys)
        if value is not None
    ]
    text = f"{quote_identifier(column.name)} IN ({', '.join(bound.text for bound in bounds)})"
    return Predicate(text, {name: value for bound in bounds for name, value in bound.parameters.items()})


def _any_of_keys(key: Sequence[Column], keys: Sequence[Bound]) -> Predicate:
    return as_predicate(
        any_of(
            all_of(
                (equals(column, bound[at], f"k{number}_{at}") for at, column in enumerate(key)), word=" AND "
            )
            for number, bound in enumerate(keys)
        )
    )


def count_range(table: SourceTable, split_by: Sequence[Column], key_range: KeyRange) -> Statement:
    """Return the number of rows of one range, as ``row_count``."""
    pieces = range_pieces(split_by, key_range)
    counts = "\nUNION ALL\n".join(
        f"SELECT COUNT_BIG(*) AS [__$n] FROM {table_name(table)}{piece.where}" for piece in pieces
    )
    text = f"SELECT SUM(p.[__$n]) AS row_count\nFROM (\n{counts}\n) AS p"
    return Statement(text, merged_parameters(pieces))


def table_name(table: SourceTable) -> str:
    """Return ``[schema].[table]``; the database is the connection's."""
    return qualified(table.schema, table.name)


def merged_parameters(pieces: Iterable[Predicate]) -> dict[str, str | int]:
    """Merge the parameters of several pieces of one statement; a bound has one name in all of them."""
    return {name: value for piece in pieces for name, value in piece.parameters.items()}
