"""The lake's column types as Arrow types, and arrays that are built without NumPy."""

from __future__ import annotations

import array
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.model.source_table import LakeColumn

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)\Z")
_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(data_type: str) -> pa.DataType:
    """The Arrow type of a :class:`~.model.planned_column.LakeColumn`'s ``data_type``.

    :raises ValueError: for a name that no column is planned with.
    """
    if match := _DECIMAL.match(data_type):
        return pa.decimal128(int(match[1]), int(match[2]))
    try:
        return _TYPES[data_type]
    except KeyError:
        raise ValueError(f"no column of the lake has the type {data_type!r}") from None


def captured_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """The captured columns, in order, as the lake names them; all of them may hold NULL."""
    return pa.schema([pa.field(column.name, arrow_type(column.data_type)) for column in columns])


def naive_utc(value: datetime) -> datetime:
    """Return the same instant as a UTC time without a zone; a time without a zone is taken as UTC."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC without a zone, as Delta's timestamp_ntz


def _microseconds(value: datetime) -> int:
    return (naive_utc(value) - _EPOCH) // timedelta(microseconds=1)


_LAYOUT: dict[pa.DataType, tuple[str, Callable[[Any], Any]]] = {
    pa.int32(): ("<i", int),
    pa.int64(): ("<q", int),
    pa.float64(): ("<d", float),
    pa.timestamp("us"): ("<q", _microseconds),
}


def repeated(value: Any, arrow_type: pa.DataType, *, length: int) -> pa.Array:
    """Repeat ``value`` ``length`` times; None is NULL, a string becomes a dictionary of one entry."""
    if value is None:
        return pa.nulls(length, arrow_type)
    if pa.types.is_string(arrow_type):
        indices = pa.Array.from_buffers(pa.int8(), length, [None, pa.py_buffer(bytes(length))])
        return pa.DictionaryArray.from_arrays(indices, one_text(value))
    layout, convert = _LAYOUT[arrow_type]
    return pa.Array.from_buffers(
        arrow_type, length, [None, pa.py_buffer(struct.pack(layout, convert(value)) * length)]
    )


def several(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Build an array of numbers or times, none of them NULL."""
    layout, convert = _LAYOUT[arrow_type]
    packed = b"".join(struct.pack(layout, convert(value)) for value in values)
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(packed)])


def one(value: Any, arrow_type: pa.DataType) -> pa.Array:
    """Build an array of ``value`` alone, of exactly this type."""
    if value is not None and pa.types.is_boolean(arrow_type):
        return pa.Array.from_buffers(arrow_type, 1, [None, pa.py_buffer(bytes([bool(value)]))])
    if value is not None and pa.types.is_string(arrow_type):
        return one_text(value)
    return repeated(value, arrow_type, length=1)


def one_text(value: str) -> pa.Array:
    encoded = value.encode()
    offsets = struct.pack("<ii", 0, len(encoded))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(encoded)])


def texts(values: Sequence[str | None]) -> pa.Array:
    """Build an array of strings.

    ``pa.array`` and ``pa.scalar`` of Python values import pandas where it is installed (pyarrow's array.pxi,
    ``_is_array_like``): 40 MB of a task that needs none of it.
    """
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = array.array("i", itertools.accumulate(map(len, encoded), initial=0))
    known = bytes(value is not None for value in values)
    flags = pa.Array.from_buffers(pa.uint8(), len(known), [None, pa.py_buffer(known)]).cast(pa.bool_())
    validity = None if all(known) else flags.buffers()[1]
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


_LSN_BYTES = 10
_PREFIX, _NOTHING = (one_text(text)[0] for text in ("0x", ""))


def lsn_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return LSNs as bronze holds them, ``0x`` and 20 upper-case hex digits, of their ten bytes.

    :raises pa.ArrowInvalid: a value of another length.
    """
    return pa.chunked_array([_lsn_texts(chunk) for chunk in column.chunks], pa.string())


def _lsn_texts(chunk: pa.Array) -> pa.Array:
    fixed = chunk.cast(pa.binary(_LSN_BYTES))
    begin, count = fixed.offset * _LSN_BYTES, len(fixed) * _LSN_BYTES
    # The digits of all values at once: Arrow has no function for it, and bytes.hex() is a loop in C.
    digits = bytes(fixed.buffers()[1][begin : begin + count]).hex().upper().encode()
    each = pa.Array.from_buffers(pa.binary(2 * _LSN_BYTES), len(fixed), [None, pa.py_buffer(digits)])
    return pc.binary_join_element_wise(_PREFIX, each.cast(pa.binary()).cast(pa.string()), _NOTHING)
