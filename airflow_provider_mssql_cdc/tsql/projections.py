"""The SELECT list: hard types are projected, so that both drivers deliver the same value.

What each driver makes of a type was tried on the wire: tinyint is unsigned in one of them, money, xml and
time differ, so these are cast on the server. So are char and varchar: the drivers convert from the column's
code page themselves, put a question mark for each byte that the code page leaves undefined (0x81 of 1252),
and garble code page 936 next to a (max) column. A uniqueidentifier is left as it is: its text costs the
server more than the rest of a row, and either driver can make it.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.model.sql_type import BINARY_TYPES, CHAR_TYPES, SqlType
from airflow_provider_mssql_cdc.tsql.bounds import exact_text, is_bindable, unicode_type
from airflow_provider_mssql_cdc.tsql.identifiers import quote_identifier

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


def projection(name: str, sql_type: SqlType) -> str:
    """T-SQL that reads a column as it is planned; most types are read as they are."""
    return _projected(sql_type).replace("{0}", quote_identifier(name))


def cast_projection(name: str, sql_type: SqlType, target: SqlType) -> str:
    """T-SQL for a cast that the user asked for.

    A cast to a char type prints what a key bound prints (all digits, ISO 8601, hex), never the text of
    the server's default style, which drops seconds of a datetime. Texts are read as Unicode whatever the
    target's code page. A text or bytes that the target would cut make the statement fail.
    """
    column = quote_identifier(name)
    if target.name in CHAR_TYPES and sql_type.name not in CHAR_TYPES and is_bindable(sql_type):
        return f"CAST({exact_text(sql_type, column)} AS {target.declaration})"  # digits and letters only
    if target.name in CHAR_TYPES:
        read = unicode_type(target)
        return _whole(column, read, wide="nvarchar", limit=None if _holds(target, sql_type) else target)
    if target.name in BINARY_TYPES:
        fits = sql_type.name not in CHAR_TYPES and _holds(target, sql_type)
        return _whole(column, target.declaration, wide="varbinary", limit=None if fits else target)
    return _projected(target).replace("{0}", f"CAST({column} AS {target.declaration})")


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


def _projected(sql_type: SqlType) -> str:
    if sql_type.name in {"char", "varchar"}:
        return f"CAST({{0}} AS {unicode_type(sql_type)})"
    return _PROJECTED.get(sql_type.name, "{0}")
