"""SQL types as a user writes them in ``casts``: parsed, so that nothing else can reach the statement."""

from __future__ import annotations

import re

from airflow_provider_mssql_cdc.model.sql_type import BINARY_TYPES, CHAR_TYPES, MAX_LENGTH, SqlType

_ARGUMENTS = r"\(\s*(max|\d{1,4})\s*(?:,\s*(\d{1,2})\s*)?\)"
_DECLARED = re.compile(rf"\s*([A-Za-z][A-Za-z0-9]*)\s*(?:{_ARGUMENTS}\s*)?\Z", re.I | re.ASCII)
_SYNONYMS = {"numeric": "decimal", "dec": "decimal", "integer": "int", "sysname": "nvarchar"}
_SCALED = frozenset({"time", "datetime2", "datetimeoffset"})
_WITHOUT_ARGUMENTS = frozenset(
    "bit tinyint smallint int bigint date datetime smalldatetime money smallmoney real "
    "uniqueidentifier xml".split()
)
_LONGEST_REAL = 24


def parse_type(text: str) -> SqlType:
    """Read a type such as ``varchar(100)``, ``decimal(18, 4)`` or ``datetime2``.

    :raises ValueError: for anything that is no type a column can be cast to, with what was expected.
    """
    match = _DECLARED.match(text)
    if not match:
        raise ValueError(f"{text!r} is not written as a SQL type like varchar(100) or decimal(18, 4)")
    name = _SYNONYMS.get(match[1].lower(), match[1].lower())
    length, scale = match[2], match[3]
    try:
        return _build(name, length.lower() if length else None, scale)
    except ValueError as exc:
        raise ValueError(f"{text!r} is no type that a column can be cast to ({exc})") from exc


def _build(name: str, length: str | None, scale: str | None) -> SqlType:
    if scale is not None and name != "decimal":
        raise ValueError(f"{name} takes no second number")
    if name in CHAR_TYPES | BINARY_TYPES:
        return SqlType(name, _bytes(name, length))
    if length == "max":
        raise ValueError(f"{name} takes no (max)")
    if name == "decimal":
        return SqlType(name, precision=int(length or 18), scale=int(scale or 0))
    if name in _SCALED:
        return SqlType(name, scale=7 if length is None else int(length))
    if name == "float":
        return SqlType("real" if length and int(length) <= _LONGEST_REAL else "float")
    if name in _WITHOUT_ARGUMENTS and length is None:
        return SqlType(name)
    raise ValueError("numbers, dates, times, texts, binary types, uniqueidentifier and xml can be named")


def _bytes(name: str, length: str | None) -> int:
    """A missing length is an error here: CAST would take 30 and cut the rest without a word."""
    if length is None:
        raise ValueError(f"{name} needs a length, for instance {name}(100)")
    if length == "max":
        return MAX_LENGTH
    return int(length) * (2 if name in {"nchar", "nvarchar"} else 1)
