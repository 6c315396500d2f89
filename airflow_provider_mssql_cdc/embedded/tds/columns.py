"""A column of stored values to bytes, all at once.

Each encoder gives the column as *cells*: a matrix of bytes with a row for each value and, where values differ
in length, a mask of the bytes that count. ``rows`` puts the cells of all columns next to each other and takes
the bytes that count, in order. The bytes are those of ``plain``; a test compares them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.seam import SqlType
from airflow_provider_mssql_cdc.embedded.tds import type_info
from airflow_provider_mssql_cdc.embedded.tds.plain import (
    DATETIME_TICKS_PER_DAY,
    GUID_WIRE_ORDER,
    TICKS_PER_DAY,
)
from airflow_provider_mssql_cdc.embedded.tds.type_info import collation

#: Padding per value that is never too much.
UNEVEN_BYTES = 128

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Cells:
    """``block[i][mask[i]]`` are the bytes of value i; without a mask all of them count."""

    block: Bytes
    mask: Mask | None = None


#: Gives None for values so uneven in length that their matrix would be mostly padding.
ColumnEncoder = Callable[[Values], list[Cells] | None]


@lru_cache(maxsize=1024)
def column_encoder(sql_type: SqlType) -> ColumnEncoder | None:
    """The encoder of whole columns of this type, or None: such values are better encoded one by one."""
    name = type_info.name_of(sql_type)
    if type_info.is_large(sql_type):
        return None
    if name in _INTEGERS:
        return _fixed(_integers(_INTEGERS[name]))
    if name in _FLOATS:
        return _fixed(_floats(_FLOATS[name]))
    if name == "decimal" and type_info.precision_of(sql_type) > 18:
        return _fixed(_long_decimals(type_info.decimal_bytes(type_info.precision_of(sql_type))))
    if name in _FROM_INTEGERS:
        return _fixed(_from_integers(_FROM_INTEGERS[name](sql_type)))
    if name == "datetimeoffset":
        return _fixed(_offsets(type_info.scale_of(sql_type, 7)))
    if name == "uniqueidentifier":
        return _fixed(_guids)
    if name in ("binary", "varbinary", "rowversion"):
        return _binaries
    if name in ("char", "varchar", "nchar", "nvarchar"):
        return _wide_strings if name.startswith("n") else _narrow_strings(sql_type)
    return None


# -- values of a fixed width: one length byte, which is zero for NULL ---------------------------------------


def _fixed(encode: Callable[[Values], Bytes]) -> ColumnEncoder:
    """Wrap an encoder of values that are never None; NULLs are found when it fails."""

    def cells(values: Values) -> list[Cells]:
        try:
            return [_with_length(encode(values))]
        except (TypeError, struct.error):
            if None not in values:
                raise
        present = _present(values)
        if not present.any():
            return [Cells(np.zeros((len(values), 1), np.uint8))]
        compact = encode([value for value in values if value is not None])
        block = np.zeros((len(values), compact.shape[1]), np.uint8)
        block[present] = compact
        return [_with_length(block, present)]

    return cells


def _with_length(block: Bytes, present: Mask | None = None) -> Cells:
    rows, width = block.shape
    out = np.empty((rows, width + 1), np.uint8)
    out[:, 0] = width
    out[:, 1:] = block
    if present is None:
        return Cells(out)
    out[~present, 0] = 0
    mask = np.empty((rows, width + 1), np.bool_)
    mask[:, 0] = True
    mask[:, 1:] = present[:, None]
    return Cells(out, mask)


def _integers(code: str) -> Callable[[Values], Bytes]:
    return lambda values: _matrix(struct.pack(f"<{len(values)}{code}", *values), len(values))


def _floats(code: str) -> Callable[[Values], Bytes]:
    return lambda values: _matrix(struct.pack(f"<{len(values)}{code}", *values), len(values))


def _from_integers(convert: Callable[[Integers], Bytes]) -> Callable[[Values], Bytes]:
    """Types that are stored as integers and sent as something else."""

    def encode(values: Values) -> Bytes:
        packed = struct.pack(f"<{len(values)}q", *values)
        return convert(np.frombuffer(packed, np.int64))

    return encode


def _decimals(sql_type: SqlType) -> Callable[[Integers], Bytes]:
    width = type_info.decimal_bytes(type_info.precision_of(sql_type))

    def convert(scaled: Integers) -> Bytes:
        out = np.empty((len(scaled), 1 + width), np.uint8)
        out[:, 0] = scaled >= 0
        out[:, 1:] = _low_bytes(np.abs(scaled), width)
        return out

    return convert


def _money(_: SqlType) -> Callable[[Integers], Bytes]:
    return lambda scaled: np.roll(_low_bytes(scaled, 8), 4, axis=1)


def _dates(_: SqlType) -> Callable[[Integers], Bytes]:
    return lambda days: _low_bytes(days, 3)


def _times(sql_type: SqlType) -> Callable[[Integers], Bytes]:
    scale = type_info.scale_of(sql_type, 7)
    unit, width = 10 ** (7 - scale), type_info.time_bytes(scale)
    return lambda units: _low_bytes(units // unit, width)


def _moments(sql_type: SqlType) -> Callable[[Integers], Bytes]:
    """datetime2: the time of day in the type's own units, then the day."""
    times = _times(sql_type)

    def convert(units: Integers) -> Bytes:
        days = units // TICKS_PER_DAY
        return np.concatenate([times(units - days * TICKS_PER_DAY), _low_bytes(days, 3)], axis=1)

    return convert


def _datetimes(_: SqlType) -> Callable[[Integers], Bytes]:
    def convert(ticks: Integers) -> Bytes:
        days = ticks // DATETIME_TICKS_PER_DAY
        rest = ticks - days * DATETIME_TICKS_PER_DAY
        return np.concatenate([_low_bytes(days, 4), _low_bytes(rest, 4)], axis=1)

    return convert


def _smalldatetimes(_: SqlType) -> Callable[[Integers], Bytes]:
    def convert(minutes: Integers) -> Bytes:
        return np.concatenate([_low_bytes(minutes // 1440, 2), _low_bytes(minutes % 1440, 2)], axis=1)

    return convert


def _long_decimals(width: int) -> Callable[[Values], Bytes]:
    """16 bytes, big-endian, biased by 2**127: the sign is the first bit, the rest two's complement."""

    def encode(values: Values) -> Bytes:
        words = np.frombuffer(b"".join(values), ">u8").reshape(len(values), 2).astype(np.uint64)
        high, low = words[:, 0] ^ np.uint64(1 << 63), words[:, 1]
        negative = (high >> np.uint64(63)).astype(np.bool_)
        carry = (low == 0).astype(np.uint64)
        out = np.empty((len(values), 1 + width), np.uint8)
        out[:, 0] = ~negative
        magnitude = np.stack([np.where(negative, -low, low), np.where(negative, ~high + carry, high)], axis=1)
        out[:, 1:] = magnitude.astype("<u8").view(np.uint8)[:, :width]
        return out

    return encode


def _offsets(scale: int) -> Callable[[Values], Bytes]:
    """datetimeoffset: 20 digits of UTC units, a sign, four digits of minutes."""
    moments = _moments(SqlType("datetime2", scale=scale))
    units_of = 10 ** np.arange(18, -1, -1, dtype=np.int64)
    minutes_of = 10 ** np.arange(3, -1, -1, dtype=np.int64)

    def encode(values: Values) -> Bytes:
        text = np.frombuffer("".join(values).encode("ascii"), np.uint8).reshape(len(values), 25)
        digits = text.astype(np.int64) - ord("0")
        minutes = digits[:, 21:] @ minutes_of
        minutes[text[:, 20] == ord("-")] *= -1
        return np.concatenate([moments(digits[:, 1:20] @ units_of), _low_bytes(minutes, 2)], axis=1)

    return encode


def _guids(values: Values) -> Bytes:
    return _matrix(b"".join(values), len(values))[:, GUID_WIRE_ORDER]


def _present(values: Values) -> Mask:
    return np.frombuffer(bytes([value is not None for value in values]), np.bool_)


def _matrix(data: bytes, rows: int) -> Bytes:
    return np.frombuffer(data, np.uint8).reshape(rows, -1)


def _low_bytes(numbers: Integers, count: int) -> Bytes:
    """The low bytes of each integer, little-endian."""
    little = np.ascontiguousarray(numbers.astype("<i8", copy=False))
    return little.view(np.uint8).reshape(len(numbers), 8)[:, :count]


# -- values of any length: two length bytes, 0xFFFF for NULL -------------------------------------------------


def _binaries(values: Values) -> list[Cells] | None:
    lengths, present, values = _lengths(values, b"")
    return _variable(lengths, present, b"".join(values))


def _wide_strings(values: Values) -> list[Cells] | None:
    lengths, present, values = _lengths(values, "")
    data = halves.utf16("".join(values))
    if len(data) != 2 * int(lengths.sum()):  # some characters are two units
        pieces = [halves.utf16(value) for value in values]
        return _variable(_lengths_of(pieces), present, b"".join(pieces))
    return _variable(2 * lengths, present, data)


def _narrow_strings(sql_type: SqlType) -> ColumnEncoder:
    codec = collation(sql_type.collation).codec
    single_byte = collation(sql_type.collation).single_byte

    def cells(values: Values) -> list[Cells] | None:
        lengths, present, values = _lengths(values, "")
        text = "".join(values)
        if text.isascii():
            return _variable(lengths, present, text.encode("ascii"))
        if single_byte:
            return _variable(lengths, present, text.encode(codec, "replace"))
        pieces = [value.encode(codec, "replace") for value in values]
        return _variable(_lengths_of(pieces), present, b"".join(pieces))

    return cells


def _lengths(values: Values, empty: str | bytes) -> tuple[Integers, Mask | None, Values]:
    """Lengths, which values are there (None: all), and the values with ``empty`` for NULL."""
    try:
        return _lengths_of(values), None, values
    except TypeError:
        present = _present(values)
        filled = [empty if value is None else value for value in values]
        return _lengths_of(filled), present, filled


def _lengths_of(values: Values) -> Integers:
    return np.frombuffer(struct.pack(f"<{len(values)}q", *map(len, values)), np.int64)


def _variable(lengths: Integers, present: Mask | None, data: bytes) -> list[Cells] | None:
    counts = lengths if present is None else np.where(present, lengths, 0xFFFF)
    prefix = Cells(_low_bytes(counts, 2))
    width = int(lengths.max(initial=0))
    flat = np.frombuffer(data, np.uint8)
    if width * len(lengths) == len(flat):
        return [prefix, Cells(flat.reshape(len(lengths), width))]
    if width * len(lengths) > 4 * len(flat) + UNEVEN_BYTES * len(lengths):
        return None
    mask = np.arange(width, dtype=np.uint16) < lengths.astype(np.uint16)[:, None]
    block = np.zeros((len(lengths), width), np.uint8)
    block[mask] = flat
    return [prefix, Cells(block, mask)]


_INTEGERS = {"bit": "B", "tinyint": "B", "smallint": "h", "int": "i", "bigint": "q", "smallmoney": "i"}
_FLOATS = {"real": "f", "float": "d"}
_FROM_INTEGERS: dict[str, Callable[[SqlType], Callable[[Integers], Bytes]]] = {
    "decimal": _decimals,
    "money": _money,
    "date": _dates,
    "time": _times,
    "datetime2": _moments,
    "datetime": _datetimes,
    "smalldatetime": _smalldatetimes,
}
