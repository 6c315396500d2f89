"""The SELECT list: hard types are projected, so that both drivers deliver the same value.

What each driver makes of a type was tried on the wire: tinyint is unsigned in one of them, money,
uniqueidentifier, xml and time differ, so these are cast on the server. So are char and varchar: the
drivers convert from the column's code page themselves, put a question mark for each byte that the code
page leaves undefined (0x81 of 1252), and garble code page 936 next to a (max) column.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.model.sql_type import CHAR_TYPES, SqlType
from airflow_provider_mssql_cdc.tsql.bounds import exact_text, is_bindable, unicode_type
from airflow_provider_mssql_cdc.tsql.identifiers import quote_identifier

_PROJECTED = {
    "tinyint": "CAST({0} AS smallint)",
    "money": "CAST({0} AS decimal(19,4))",
    "smallmoney": "CAST({0} AS decimal(10,4))",
    "time": "CONVERT(varchar(16), CAST({0} AS time(7)), 121)",
    "uniqueidentifier": "CONVERT(varchar(36), {0})",
    "rowversion": "CAST({0} AS binary(8))",
    "xml": "CAST({0} AS nvarchar(max))",
    "text": "CAST({0} AS nvarchar(max))",
    "ntext": "CAST({0} AS nvarchar(max))",
    "image": "CAST({0} AS varbinary(max))",
    "json": "CAST({0} AS nvarchar(max))",
    "vector": "CAST({0} AS nvarchar(max))",
}


def projection(name: str, sql_type: SqlType) -> str:
    """T-SQL that reads a column as it is planned; most types are read as they are."""
    return _projected(sql_type).replace("{0}", quote_identifier(name))


def cast_projection(name: str, sql_type: SqlType, target: SqlType) -> str:
    """T-SQL for a cast that the user asked for.

    A cast to a char type prints what a key bound prints (all digits, ISO 8601, hex), never the text of
    the server's default style, which drops seconds of a datetime.
    """
    column = quote_identifier(name)
    exact = target.name in CHAR_TYPES and sql_type.name not in CHAR_TYPES and is_bindable(sql_type)
    cast = f"CAST({exact_text(sql_type, column) if exact else column} AS {target.declaration})"
    plain = target.name in CHAR_TYPES and sql_type.name not in CHAR_TYPES  # digits and letters only
    return cast if plain else _projected(target).replace("{0}", cast)


def _projected(sql_type: SqlType) -> str:
    if sql_type.name in {"char", "varchar"}:
        return f"CAST({{0}} AS {unicode_type(sql_type)})"
    return _PROJECTED.get(sql_type.name, "{0}")
