"""Stored values to bytes, one at a time: for short results, for long values, and as the reference that
the encoder of whole columns (``columns``) is compared with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.seam import GUID_ORDER, MAX, ResultColumn, Row, SqlType
from airflow_provider_mssql_cdc.embedded.tds import type_info
from airflow_provider_mssql_cdc.embedded.tds.type_info import (
    UnsupportedType,
    collation,
    decimal_bytes,
    scale_of,
)

ROW = 0xD1

ValueEncoder = Callable[[Any], bytes]

TICKS_PER_DAY = 864_000_000_000
DATETIME_TICKS_PER_DAY = 300 * 86_400
DECIMAL_BIAS = 1 << 127

_NULL_LENGTH = b"\x00"
_NULL_SHORT = b"\xff\xff"
_NULL_PLP = b"\xff" * 8
_TEXT_POINTER = b"\x10" + b"dummy textptr\x00\x00\x00" + b"dummyTS\x00"

#: ``wire[i] = stored[GUID_WIRE_ORDER[i]]``, the inverse of the seam's order.
GUID_WIRE_ORDER = tuple(GUID_ORDER.index(i) for i in range(16))

_FIXED = {
    "bit": "<BB",
    "tinyint": "<BB",
    "smallint": "<Bh",
    "int": "<Bi",
    "bigint": "<Bq",
    "real": "<Bf",
    "float": "<Bd",
    "smallmoney": "<Bi",
}


def encode_rows(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> bytes:
    """ROW tokens for these rows, value by value."""
    encoders = [value_encoder(column.type) for column in columns]
    out = bytearray()
    for row in rows:
        out.append(ROW)
        for encode, value in zip(encoders, row, strict=True):
            out += encode(value)
    return bytes(out)


@lru_cache(maxsize=1024)
def value_encoder(sql_type: SqlType) -> ValueEncoder:
    """A function from one stored value (or None) to its bytes in a ROW token."""
    name = type_info.name_of(sql_type)
    if name in _FIXED:
        packer = struct.Struct(_FIXED[name])
        return _nullable(_NULL_LENGTH, lambda value: packer.pack(packer.size - 1, value))
    if name in _BY_NAME:
        return _BY_NAME[name](sql_type)
    raise UnsupportedType(f"type {sql_type.name!r} is not spoken by the embedded server")


def _nullable(null: bytes, encode: ValueEncoder) -> ValueEncoder:
    return lambda value: null if value is None else encode(value)


def _short(encode: ValueEncoder) -> ValueEncoder:
    """One length byte, then the value."""

    def with_length(value: Any) -> bytes:
        data = encode(value)
        return bytes([len(data)]) + data

    return _nullable(_NULL_LENGTH, with_length)


def _decimal(sql_type: SqlType) -> ValueEncoder:
    precision = type_info.precision_of(sql_type)
    width = decimal_bytes(precision)

    def encode(value: int | bytes) -> bytes:
        scaled = value if isinstance(value, int) else int.from_bytes(value, "big") - DECIMAL_BIAS
        return bytes([scaled >= 0]) + abs(scaled).to_bytes(width, "little")

    return _short(encode)


def _money(_: SqlType) -> ValueEncoder:
    """The high half comes first."""
    return _short(lambda value: struct.pack("<iI", value >> 32, value & 0xFFFFFFFF))


def _date(_: SqlType) -> ValueEncoder:
    return _short(lambda days: days.to_bytes(3, "little"))


def _datetime(_: SqlType) -> ValueEncoder:
    return _short(lambda ticks: struct.pack("<iI", *divmod(ticks, DATETIME_TICKS_PER_DAY)))


def _smalldatetime(_: SqlType) -> ValueEncoder:
    return _short(lambda minutes: struct.pack("<HH", *divmod(minutes, 1440)))


def _clock(sql_type: SqlType) -> ValueEncoder:
    """Units of 100 ns of a day, cut to the type's digits."""
    scale = scale_of(sql_type, 7)
    unit, width = 10 ** (7 - scale), type_info.time_bytes(scale)
    return lambda units: (units // unit).to_bytes(width, "little")


def _moment(sql_type: SqlType) -> ValueEncoder:
    clock = _clock(sql_type)

    def encode(units: int) -> bytes:
        days, rest = divmod(units, TICKS_PER_DAY)
        return clock(rest) + days.to_bytes(3, "little")

    return encode


def _datetimeoffset(sql_type: SqlType) -> ValueEncoder:
    moment = _moment(sql_type)
    return _short(lambda text: moment(int(text[:20])) + struct.pack("<h", int(text[20:])))


def _guid(_: SqlType) -> ValueEncoder:
    return _short(lambda stored: bytes(stored[i] for i in GUID_WIRE_ORDER))


def _characters(sql_type: SqlType) -> ValueEncoder:
    if type_info.name_of(sql_type) in ("nchar", "nvarchar", "ntext", "xml"):
        return _bytes_of(sql_type, halves.utf16)
    codec = collation(sql_type.collation).codec
    return _bytes_of(sql_type, lambda text: text.encode(codec, "replace"))


def _binary(sql_type: SqlType) -> ValueEncoder:
    return _bytes_of(sql_type, bytes)


def _bytes_of(sql_type: SqlType, to_bytes: ValueEncoder) -> ValueEncoder:
    """The three shapes of variable data: two length bytes, PLP chunks, a text pointer."""
    name = type_info.name_of(sql_type)
    if name in ("text", "ntext", "image"):
        return _nullable(_NULL_LENGTH, lambda value: _pointed(to_bytes(value)))
    if sql_type.length == MAX or name == "xml":
        return _nullable(_NULL_PLP, lambda value: _chunked(to_bytes(value)))
    return _nullable(_NULL_SHORT, lambda value: _counted(to_bytes(value)))


def _counted(data: bytes) -> bytes:
    return struct.pack("<H", len(data)) + data


def _chunked(data: bytes) -> bytes:
    """PLP (section 2.2.5.2.3): the length, one chunk, the end."""
    if not data:
        return struct.pack("<QI", 0, 0)
    return struct.pack("<QI", len(data), len(data)) + data + b"\x00\x00\x00\x00"


def _pointed(data: bytes) -> bytes:
    return _TEXT_POINTER + struct.pack("<I", len(data)) + data


_BY_NAME: dict[str, Callable[[SqlType], ValueEncoder]] = {
    "decimal": _decimal,
    "money": _money,
    "date": _date,
    "time": lambda sql_type: _short(_clock(sql_type)),
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
    "datetime2": lambda sql_type: _short(_moment(sql_type)),
    "datetimeoffset": _datetimeoffset,
    "uniqueidentifier": _guid,
    "rowversion": _binary,
    **dict.fromkeys(("binary", "varbinary", "image"), _binary),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml"), _characters),
}
