"""Arrow arrays of constants, and small conversions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa


def naive_utc(value: datetime) -> datetime:
    """The same instant as a UTC time without zone; a time that has no zone is UTC already."""
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
    """``length`` times ``value``; None is NULL. A text becomes a dictionary of one word."""
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
    """An array of numbers or times, none of them NULL."""
    layout, convert = _LAYOUT[arrow_type]
    packed = b"".join(struct.pack(layout, convert(value)) for value in values)
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(packed)])


def one(value: Any, arrow_type: pa.DataType) -> pa.Array:
    """An array of ``value`` alone, of exactly this type."""
    if value is not None and pa.types.is_boolean(arrow_type):
        return pa.Array.from_buffers(arrow_type, 1, [None, pa.py_buffer(bytes([bool(value)]))])
    if value is not None and pa.types.is_string(arrow_type):
        return one_text(value)
    return repeated(value, arrow_type, length=1)


def one_text(value: str) -> pa.Array:
    encoded = value.encode()
    offsets = struct.pack("<ii", 0, len(encoded))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(encoded)])


def read_all(stream: Any) -> pa.Table:
    """What deltalake returns, as a pyarrow table."""
    return pa.RecordBatchReader.from_stream(stream).read_all()
