"""Key values passed through Python: the server renders them as exact text and reads the text back typed.

Neither direction depends on a language, a DATEFORMAT or a driver. Bounds are never compared here;
:func:`is_canonical` says for which types equal values always have equal text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from airflow_provider_mssql_cdc.model.source_table import (
    BINARY_TYPES,
    CHAR_TYPES,
    INTEGER_TYPES,
    Column,
    SqlType,
)

_NOTHING: Mapping[str, str] = MappingProxyType({})
_CONTROL = re.compile(r"([\x00-\x1f])")
_MAX_NVARCHAR = 4000
_MAX_VARCHAR = 8000

_RENDERED = {
    "bit": "CONVERT(varchar(1), CAST({0} AS tinyint))",
    "money": "CONVERT(varchar(41), CAST({0} AS decimal(19,4)))",
    "smallmoney": "CONVERT(varchar(41), CAST({0} AS decimal(10,4)))",
    "decimal": "CONVERT(varchar(41), {0})",
    "real": "CONVERT(varchar(40), {0}, 3)",
    "float": "CONVERT(varchar(40), {0}, 3)",
    "date": "CONVERT(varchar(10), {0}, 23)",
    "datetime": "CONVERT(varchar(23), {0}, 126)",
    "smalldatetime": "CONVERT(varchar(19), {0}, 126)",
    "datetime2": "CONVERT(varchar(27), {0}, 121)",
    "datetimeoffset": "CONVERT(varchar(34), {0}, 121)",
    "time": "CONVERT(varchar(16), {0}, 121)",
    "uniqueidentifier": "CONVERT(varchar(36), {0})",
    "rowversion": "CONVERT(varchar(18), CAST({0} AS binary(8)), 1)",
}
_MULTI_BYTE = ("Japanese", "Chinese", "Korean")
"""Name prefixes of the collations with code pages 932, 936, 949 and 950."""
_LENGTHS = {
    "bit": 1,
    "tinyint": 3,
    "smallint": 6,
    "int": 11,
    "bigint": 20,
    "money": 21,
    "smallmoney": 12,
    "real": 24,
    "float": 24,
    "date": 10,
    "datetime": 23,
    "smalldatetime": 19,
    "uniqueidentifier": 36,
    "rowversion": 18,
}
_SCALED_LENGTHS = {"time": 8, "datetime2": 19, "datetimeoffset": 26}
_CANONICAL = INTEGER_TYPES | (frozenset(_RENDERED) - {"real", "float", "datetimeoffset"}) | {"binary"}


@dataclass(frozen=True, slots=True)
class BoundText:
    """T-SQL of one typed bound, with the parameters of its markers."""

    text: str
    parameters: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


def is_bindable(sql_type: SqlType) -> bool:
    """Return whether a bound of this type is exact and comparable: true for every type an index allows."""
    if sql_type.name in CHAR_TYPES | BINARY_TYPES:
        return not sql_type.is_max
    return sql_type.name in INTEGER_TYPES or sql_type.name in _RENDERED


def is_canonical(sql_type: SqlType) -> bool:
    """Return whether values that the server compares as equal always have the same text.

    False for char types (case, accents and trailing blanks, in any collation), varbinary (trailing zero
    bytes), datetimeoffset (one instant, two offsets) and floats (two zeros).
    """
    return sql_type.name in _CANONICAL


def exact_text(sql_type: SqlType, expression: str) -> str:
    """Return T-SQL that renders a key value as text which reads back as the same value.

    Styles: 121 and 126 print all fractional digits of the type, 3 prints 17 digits of a float, 1 prints
    ``0x`` and hex digits (Microsoft Learn, "CAST and CONVERT").
    """
    if sql_type.name in CHAR_TYPES:
        return _unicode_text(sql_type, expression)
    if sql_type.name in BINARY_TYPES:
        digits = 2 + 2 * sql_type.max_length
        return f"CONVERT(varchar({digits if digits <= _MAX_VARCHAR else 'max'}), {expression}, 1)"
    if sql_type.name in INTEGER_TYPES:
        return f"CONVERT(varchar(20), {expression})"
    return _RENDERED[sql_type.name].format(expression)


def _unicode_text(sql_type: SqlType, expression: str) -> str:
    """Return a char value as Unicode; with U+FFFD if its code page does not convert back to the same bytes.

    Invalid bytes of a multi-byte code page become another character in Unicode. A bound with that character
    would have another place in the order, so callers do not use a text with U+FFFD.
    """
    text = f"CAST({expression} AS {unicode_type(sql_type)})"
    collation = sql_type.collation or ""
    if sql_type.name in {"nchar", "nvarchar"} or not collation.startswith(_MULTI_BYTE):
        return text
    raw = f"varbinary({sql_type.max_length})"
    back = f"CAST(CAST({text} COLLATE {collation} AS {sql_type.declaration}) AS {raw})"
    return f"CASE WHEN CAST({expression} AS {raw}) <> {back} THEN NCHAR(65533) ELSE {text} END"


def text_length(sql_type: SqlType) -> int | None:
    """Return the maximum length of :func:`exact_text` in characters; None for types without a limit."""
    if sql_type.name in BINARY_TYPES and not sql_type.is_max:
        return 2 + 2 * sql_type.max_length
    if sql_type.name in _SCALED_LENGTHS:
        return _SCALED_LENGTHS[sql_type.name] + (sql_type.scale + 1 if sql_type.scale else 0)
    if sql_type.name == "decimal":
        return sql_type.precision + (sql_type.scale > 0) + (sql_type.scale == sql_type.precision) + 1
    return _LENGTHS.get(sql_type.name)


def typed_bound(sql_type: SqlType, value: str, name: str) -> BoundText:
    """Return T-SQL that converts a bound's text to exactly the column's declared type.

    A plain text parameter would be nvarchar, so the server would convert a varchar column instead: it loses
    the seek, and under some collations skips rows.

    :param name: of the parameter, unique in the statement.
    """
    if sql_type.name in CHAR_TYPES:
        return _char_bound(sql_type, value, name)
    # Data type precedence converts the operand of lower precedence: nvarchar is above varchar, so without
    # this conversion the column would be converted (Microsoft Learn, "Data type precedence").
    marker = BoundText(f"%({name})s", {name: value})
    if sql_type.name in BINARY_TYPES:
        return BoundText(f"CONVERT({sql_type.declaration}, {marker.text}, 1)", marker.parameters)
    if sql_type.name == "rowversion":
        return BoundText(f"CONVERT(binary(8), {marker.text}, 1)", marker.parameters)
    return BoundText(f"CAST({marker.text} AS {sql_type.declaration})", marker.parameters)


def text_of_value(sql_type: SqlType, value: Any) -> str:
    """Return a lake value as the text of a bound, which :func:`typed_bound` converts back.

    :param value: of a column without a user's cast; not NULL.
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime):
        # datetime has steps of 1/300 s, printed with three digits; its CAST refuses more of them.
        digits = "milliseconds" if sql_type.name == "datetime" else "microseconds"
        return value.isoformat(timespec="seconds" if sql_type.name == "smalldatetime" else digits)
    return value.isoformat() if isinstance(value, date) else str(value)


def _char_bound(sql_type: SqlType, value: str, name: str) -> BoundText:
    """Return a char bound in the column's own collation, which decides order and varchar's code page.

    An nvarchar bound is converted first: a collation without a code page rejects varchar (error 459), which
    one of the drivers sends for plain ASCII.
    """
    text = _plain_text(value, name)
    collate = f" COLLATE {sql_type.collation}" if sql_type.collation else ""
    if sql_type.name in {"nchar", "nvarchar"}:
        return BoundText(f"CAST({text.text} AS {sql_type.declaration}){collate}", text.parameters)
    return BoundText(f"CAST({text.text}{collate} AS {sql_type.declaration})", text.parameters)


def _plain_text(value: str, name: str) -> BoundText:
    """Return a text as one marker, or as parts around its control characters.

    A NUL ends a statement for one of the drivers, and SQL Server removes a backslash before a line break
    from a literal, so control characters are written by number. Concatenated parts are limited to 4,000
    characters, beyond which the server truncates silently, unless one of them is a (max) type.
    """
    # Microsoft Learn, "Backslash (Line Continuation)", for the lost line breaks, and "+ (String
    # Concatenation)" for results above 8,000 bytes, which are truncated unless one operand is a large value
    # type.
    pieces = [piece for piece in _CONTROL.split(value) if piece]
    if len(pieces) <= 1 and not _CONTROL.search(value):
        return BoundText(f"%({name})s", {name: value})
    length = len(value.encode("utf-16-le", "surrogatepass")) // 2
    width = "max" if length > _MAX_NVARCHAR else _MAX_NVARCHAR
    texts: list[str] = []
    parameters: dict[str, str] = {}
    for piece in pieces:
        if _CONTROL.match(piece):
            texts.append(f"NCHAR({ord(piece)})")
        else:
            marker = f"{name}_{len(parameters)}"
            parameters[marker] = piece
            texts.append(f"CAST(%({marker})s AS nvarchar({width}))")
    return BoundText(f"({' + '.join(texts)})", parameters)


def utf16_units(unicode: str, expression: str) -> str:
    """Return T-SQL for a string's UTF-16 units as bytes; drivers would replace unpaired surrogates.

    :param unicode: the nvarchar that holds every value, see :func:`unicode_type`.
    """
    length = unicode.removeprefix("nvarchar(").removesuffix(")")
    size = length if length == "max" else 2 * int(length)
    return f"CAST(CAST({expression} AS {unicode}) AS varbinary({size}))"


def key_text(column: Column, expression: str) -> str:
    """Return a key value for a bound: :func:`exact_text`, of nchar and nvarchar as UTF-16 units."""
    sql_type = column.sql_type
    if column.utf16 and sql_type.name in {"nchar", "nvarchar"}:
        return utf16_units(unicode_type(sql_type), expression)
    return exact_text(sql_type, expression)


def unicode_type(sql_type: SqlType) -> str:
    """Return the nvarchar type that holds every value of a char type."""
    characters = sql_type.max_length // 2 if sql_type.name in {"nchar", "nvarchar"} else sql_type.max_length
    return f"nvarchar({characters if 0 < characters <= _MAX_NVARCHAR else 'max'})"
