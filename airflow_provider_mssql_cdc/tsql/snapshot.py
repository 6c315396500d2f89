"""SELECT of a key range: projections, predicate, counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.source_table import Column, PlannedColumn, SourceTable
from airflow_provider_mssql_cdc.model.sql_type import BINARY_TYPES, CHAR_TYPES, SqlType
from airflow_provider_mssql_cdc.tsql.bounds import exact_text, is_bindable, unicode_type, utf16_units
from airflow_provider_mssql_cdc.tsql.identifiers import qualified, quote_identifier, result_name
from airflow_provider_mssql_cdc.tsql.predicates import Predicate, range_pieces
from airflow_provider_mssql_cdc.tsql.statement import Statement

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
    """T-SQL that reads a column as it is planned; most types are read as they are."""
    return _projected(column.sql_type, utf16=column.utf16).replace("{0}", quote_identifier(column.name))


def cast_projection(source: Column, target: SqlType) -> str:
    """T-SQL for a cast that the user asked for.

    A cast to a char type prints what a key bound prints (all digits, ISO 8601, hex), never the text of
    the server's default style, which drops seconds of a datetime. Texts are read as Unicode whatever the
    target's code page. A text or bytes that the target would cut make the statement fail.
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
    """Whether a target of the same family has room for every value of the source."""
    if target.is_max:
        return True
    if source.name in _BYTES:
        return _BYTES[source.name] <= target.max_length
    sized = source.name in CHAR_TYPES | BINARY_TYPES and not source.is_max
    return sized and _units(source) <= _units(target)


def _units(sql_type: SqlType) -> int:
    return sql_type.max_length // (2 if sql_type.name in {"nchar", "nvarchar"} else 1)


def _whole(column: str, read: str, *, wide: str, limit: SqlType | None) -> str:
    """A cast that fails (error 245) where CAST would cut the value without a word.

    The failing branch depends on the column, so that no optimizer evaluates it beforehand.
    """
    if limit is None:
        return f"CAST({column} AS {read})"
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
