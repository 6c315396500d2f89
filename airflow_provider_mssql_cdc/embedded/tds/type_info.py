"""TYPE_INFO: how a column's type is told to the client (sections 2.2.5.4 and 2.2.5.6).

The nullable forms are used throughout (INTN, not INT4), as SQL Server does for nullable columns; whether a
column may be NULL is a flag of its own.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlType
from airflow_provider_mssql_cdc.embedded.tds.collations import collation

IMAGE, TEXT, GUID, INTN = 0x22, 0x23, 0x24, 0x26
DATE, TIME, DATETIME2, DATETIMEOFFSET = 0x28, 0x29, 0x2A, 0x2B
NTEXT, BITN, DECIMALN, NUMERICN, FLTN, MONEYN, DATETIMN = 0x63, 0x68, 0x6A, 0x6C, 0x6D, 0x6E, 0x6F
VARBINARY, VARCHAR, BINARY, CHAR, NVARCHAR, NCHAR, XML = 0xA5, 0xA7, 0xAD, 0xAF, 0xE7, 0xEF, 0xF1

MAX_ON_WIRE = 0xFFFF

_TIMESTAMP_USER_TYPE = 80

# name -> token, bytes of a value
_INTEGER_LIKE: dict[str, tuple[int, int]] = {
    "bit": (BITN, 1),
    "tinyint": (INTN, 1),
    "smallint": (INTN, 2),
    "int": (INTN, 4),
    "bigint": (INTN, 8),
    "real": (FLTN, 4),
    "float": (FLTN, 8),
    "smallmoney": (MONEYN, 4),
    "money": (MONEYN, 8),
    "smalldatetime": (DATETIMN, 4),
    "datetime": (DATETIMN, 8),
    "uniqueidentifier": (GUID, 16),
}
_LARGE = {"text": TEXT, "ntext": NTEXT, "image": IMAGE}
_STRINGS = {"char": CHAR, "varchar": VARCHAR, "nchar": NCHAR, "nvarchar": NVARCHAR}
_BINARIES = {"binary": BINARY, "varbinary": VARBINARY}
_ALIASES = {"numeric": "decimal", "timestamp": "rowversion", "sysname": "nvarchar"}


class UnsupportedType(Exception):
    """A type that this server does not send or receive."""


def name_of(sql_type: SqlType) -> str:
    """The type's name with its synonyms resolved."""
    return _ALIASES.get(sql_type.name, sql_type.name)


def user_type(sql_type: SqlType) -> int:
    return _TIMESTAMP_USER_TYPE if name_of(sql_type) == "rowversion" else 0


def decimal_bytes(precision: int) -> int:
    """Bytes of a decimal's magnitude on the wire."""
    return 4 if precision <= 9 else 8 if precision <= 19 else 12 if precision <= 28 else 16


def time_bytes(scale: int) -> int:
    """Bytes of a time of day with so many fractional digits."""
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def precision_of(sql_type: SqlType) -> int:
    return 18 if sql_type.precision is None else sql_type.precision


def scale_of(sql_type: SqlType, default: int) -> int:
    return default if sql_type.scale is None else sql_type.scale


def is_large(sql_type: SqlType) -> bool:
    """True for values without a useful upper bound: the (max) types, text, ntext, image, xml."""
    return sql_type.length == MAX or name_of(sql_type) in _LARGE or name_of(sql_type) == "xml"


@lru_cache(maxsize=1024)
def type_info(sql_type: SqlType) -> bytes:
    """The bytes of TYPE_INFO; raises UnsupportedType for a type outside the seam's table."""
    name = name_of(sql_type)
    if name in _INTEGER_LIKE:
        return bytes(_INTEGER_LIKE[name])
    if name == "decimal":
        precision = precision_of(sql_type)
        return bytes([DECIMALN, decimal_bytes(precision) + 1, precision, scale_of(sql_type, 0)])
    if name == "date":
        return bytes([DATE])
    if name in ("time", "datetime2", "datetimeoffset"):
        token = {"time": TIME, "datetime2": DATETIME2, "datetimeoffset": DATETIMEOFFSET}[name]
        return bytes([token, scale_of(sql_type, 7)])
    if name == "rowversion":
        return struct.pack("<BH", BINARY, 8)
    if name in _BINARIES:
        return struct.pack("<BH", _BINARIES[name], _length(sql_type))
    if name in _STRINGS:
        return struct.pack("<BH", _STRINGS[name], _length(sql_type)) + collation(sql_type.collation).wire
    if name == "xml":
        return bytes([XML, 0])
    if name in _LARGE:
        return _large(sql_type, _LARGE[name])
    raise UnsupportedType(f"type {sql_type.name!r} is not spoken by the embedded server")


def _length(sql_type: SqlType) -> int:
    if sql_type.length == MAX:
        return MAX_ON_WIRE
    if name_of(sql_type) == "nvarchar" and sql_type.length is None:
        return 256  # sysname
    return max(1, sql_type.length or 1)


def _large(sql_type: SqlType, token: int) -> bytes:
    """text, ntext and image carry the name of their table, which may be empty."""
    sort = b"" if token == IMAGE else collation(sql_type.collation).wire
    return struct.pack("<BI", token, 0x7FFFFFFF) + sort + struct.pack("<BH", 1, 0)
