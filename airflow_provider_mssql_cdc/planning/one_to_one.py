"""Whether what silver calls a key tells the source's keys apart: casts and code pages of key columns.

A cast is known to be one-to-one when each value either stays distinct from all others that a unique
index holds apart, or makes the statement fail (an overflow). What is not listed here is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider_mssql_cdc.model.source_table import Column, PlannedColumn, SourceFacts
from airflow_provider_mssql_cdc.model.sql_type import BINARY_TYPES, CHAR_TYPES, INTEGER_TYPES, SqlType
from airflow_provider_mssql_cdc.tsql.bounds import is_bindable, text_length
from airflow_provider_mssql_cdc.tsql.identifiers import shown

_DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "uniqueidentifier": 16, "rowversion": 8}
_SCALES = {"money": 4, "smallmoney": 4}
_EXACT_DIGITS = {"float": 15, "real": 6}
"""Decimal digits of a whole number that these hold, whatever the number."""
_WIDE_CHARS = frozenset({"nchar", "nvarchar"})
_MICROSECOND_DIGITS = 6
_SECONDS = {"smalldatetime": 0, "datetime": 3, "date": 0}
"""Digits after the second; datetime's ticks of 1/300 s are apart with three."""
_DATETIME_DIGITS = 2
"""As many digits as datetime holds apart."""
_HIERARCHY_CHARACTERS, _HIERARCHY_BYTES = 4000, 892


def is_one_to_one(source: SqlType, target: SqlType) -> bool:
    """Whether no two key values of ``source`` become one as ``target`` in the lake."""
    if target.name in CHAR_TYPES:
        return _as_text(source, target)
    if target.name in BINARY_TYPES:
        return _as_bytes(source, target)
    if source.name in _DIGITS or source.name == "decimal" or source.name in _SCALES:
        return _as_number(source, target)
    if source.name in {"real", "float"}:
        return target.name == "float" or target.name == source.name
    if source.name == "rowversion":
        return target.name == "bigint"
    if source.name == "time":
        return target.name == "time" and target.scale >= source.scale
    if source.name in _SECONDS or source.name in {"datetime2", "datetimeoffset"}:
        return _as_moment(source, target)
    return source.name == target.name == "uniqueidentifier"


def _as_text(source: SqlType, target: SqlType) -> bool:
    """Texts of other types are exact ones; trailing blanks tell no keys apart, so padding does no harm."""
    if source.name in CHAR_TYPES:
        return _units(target) >= _units(source) and (
            source.name not in _WIDE_CHARS or target.name in _WIDE_CHARS
        )
    if source.name == "hierarchyid":
        return _units(target) >= _HIERARCHY_CHARACTERS
    needed = text_length(source)
    return is_bindable(source) and needed is not None and _units(target) >= needed


def _as_bytes(source: SqlType, target: SqlType) -> bool:
    if source.name in BINARY_TYPES:
        padded = source.name == "varbinary" and target.name == "binary"
        return not padded and _units(target) >= _units(source)
    if source.name == "hierarchyid":
        return target.name == "varbinary" and _units(target) >= _HIERARCHY_BYTES
    if source.name == "clr":
        return target.is_max
    return source.name in _BYTES and _units(target) >= _BYTES[source.name]


def _units(sql_type: SqlType) -> float:
    """Characters, or bytes, that a type has room for."""
    if sql_type.is_max:
        return float("inf")
    return sql_type.max_length // (2 if sql_type.name in _WIDE_CHARS else 1)


def _as_number(source: SqlType, target: SqlType) -> bool:
    """Rounding makes two numbers one; a number that is too large is an error (8115, 220)."""
    scale = _SCALES.get(source.name, source.scale)
    if target.name in INTEGER_TYPES:
        return scale == 0
    if target.name == "decimal" or target.name in _SCALES:
        return _SCALES.get(target.name, target.scale) >= scale
    if target.name in _EXACT_DIGITS:
        digits = _DIGITS.get(source.name, source.precision)
        return scale == 0 and source.name not in _SCALES and digits <= _EXACT_DIGITS[target.name]
    return source.name == target.name == "bit"


def _as_moment(source: SqlType, target: SqlType) -> bool:
    """Digits are rounded, and an offset that is left out makes two instants one."""
    digits = _SECONDS.get(source.name, source.scale)
    if source.name == "datetimeoffset" and target.name != "datetimeoffset":
        return False
    if target.name in {"datetime2", "datetimeoffset"}:
        return digits <= min(target.scale, _MICROSECOND_DIGITS)
    if target.name == "datetime":
        return source.name == "datetime" or digits <= _DATETIME_DIGITS
    if target.name == "smalldatetime":
        return source.name in {"smalldatetime", "date"}
    return source.name == target.name == "date"


def cast_problems(key: Sequence[Column], planned: Sequence[PlannedColumn]) -> list[str]:
    """One sentence for each key column whose cast may turn two keys into one."""
    casts = {column.source.name: column.cast for column in planned}
    return [
        f"casts: column {shown(column.name)} ({column.sql_type}) is part of the key, and {cast} may turn two "
        "of its values into one, so that silver would lose rows: leave the cast out, or name a type that "
        f"holds every value apart{_suggested(column.sql_type)}"
        for column in key
        if (cast := casts.get(column.name)) is not None and not is_one_to_one(column.sql_type, cast)
    ]


def _suggested(sql_type: SqlType) -> str:
    if sql_type.name in CHAR_TYPES:
        return ""
    if sql_type.name == "hierarchyid":
        return ", for instance nvarchar(4000)"
    needed = text_length(sql_type)
    return f", for instance varchar({needed})" if needed else ", or key=(…) that names other columns"


def code_page_problems(key: Sequence[Column], facts: SourceFacts, *, allow: Collection[str]) -> list[str]:
    """One sentence for each char or varchar column of the key in another code page than the database.

    CDC keeps captured values in variables of the database's collation, so characters outside ASCII may
    change on the way to the change table, and to no other rows ("Collation differences",
    learn.microsoft.com, known issues and errors of change data capture).
    """
    accepted = {name.casefold() for name in allow}
    return [
        f"column {shown(column.name)} ({column.sql_type}, {column.sql_type.collation}) is part of the key "
        f"and in another code page than the database ({facts.database_collation}): change rows may hold "
        "other characters than the table, and silver would keep a row twice or lose it. Make the column "
        "nvarchar or give it the database's collation; if it holds ASCII alone, allow it by name, "
        f'allow=("{column.name}",)'
        for column in key
        if column.name.casefold() not in accepted and is_of_other_code_page(column, facts)
    ]


def is_of_other_code_page(column: Column, facts: SourceFacts) -> bool:
    """Whether CDC may change the column's characters; a code page that is not known counts as another."""
    collation = column.sql_type.collation
    if column.sql_type.name not in {"char", "varchar"} or facts.database_collation is None:
        return False
    if collation is None or collation == facts.database_collation:
        return False
    pages: Mapping[str, int | None] = facts.code_pages
    page = pages.get(collation)
    return page is None or page != pages.get(facts.database_collation)
