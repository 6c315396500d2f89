"""Convert a driver's batch to the planned schema: check names, cast types, name the column in errors."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import one_text, several, texts
from airflow_provider_mssql_cdc.errors import SchemaDrift, ValueDoesNotFit
from airflow_provider_mssql_cdc.planning.columns import source_name
from airflow_provider_mssql_cdc.tsql.statement import result_name, shown

Cast = Callable[[pa.Array], pa.Array]

# 0001-01-01 00:00:00 and 9999-12-31 23:59:59.999999, in µs since 1970: an instant near either end with an
# offset can lie outside in UTC, where neither Python nor Spark can read it.
FIRST_MICROSECOND = -62_135_596_800_000_000
LAST_MICROSECOND = 253_402_300_799_999_999

_HEAD_BYTES, _WIDE_BYTES = 1024, 16 << 10


class PlannedBatches:
    """Cast every batch of one result to the planned schema; the casts are chosen once.

    :raises SchemaDrift: in the constructor, when names or kinds of types differ from the plan.
    """

    def __init__(self, produced: pa.Schema, planned: pa.Schema, *, table: str) -> None:
        check_names(produced.names, planned, table=table)
        self._planned, self._table = planned, table
        self._casts = [
            self._cast_for(source.type, target) for source, target in zip(produced, planned, strict=True)
        ]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """:raises ValueDoesNotFit: names the column, never the value."""
        arrays = [
            column if cast is None else self._checked(cast, column, self._planned.field(index).name)
            for index, (cast, column) in enumerate(zip(self._casts, batch.columns, strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._planned)

    def _checked(self, cast: Cast, column: pa.Array, name: str) -> pa.Array:
        try:
            return cast(column)
        except UnicodeDecodeError:
            raise half_a_pair(self._table, name) from None  # its text shows the value
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as exc:
            raise does_not_fit(self._table, name, self._planned.field(name).type) from exc

    def _cast_for(self, source: pa.DataType, target: pa.Field) -> Cast | None:
        wanted = target.type
        if pa.types.is_timestamp(wanted) and wanted.tz is not None and pa.types.is_timestamp(source):
            return lambda column: in_calendar(column.cast(wanted))
        if source == wanted:
            return None
        if pa.types.is_string(wanted) and (pa.types.is_binary(source) or pa.types.is_large_binary(source)):
            return text_of_units
        if not _is_harmless(source, wanted):
            raise SchemaDrift(
                f"{self._table}: column {target.name}: expected {wanted}, the server returned {source}; "
                "its type has changed since the plan: clear the plan task"
            )
        return lambda column: column.cast(wanted, safe=True)


def check_names(sent: Sequence[str], planned: pa.Schema, *, table: str) -> None:
    """Check that the result has the requested columns in their order.

    :raises SchemaDrift: it has other columns.
    """
    if list(sent) != [result_name(name) for name in planned.names]:
        raise SchemaDrift(
            f"{table}: the server sent columns {list(sent)}, planned were {planned.names}; "
            "clear the plan task"
        )


def text_of_units(column: pa.Array) -> pa.Array:
    """Decode strings from their UTF-16 units; fast when all characters are ASCII.

    :raises UnicodeDecodeError: a value has an unpaired surrogate.
    """
    plain = None if column.offset else _ascii(column)
    if plain is not None:
        return plain
    if column.nbytes > _WIDE_BYTES * len(column):  # a copy of each value would cost more than its scalar
        wide = (scalar.as_buffer() for scalar in column)
        return pa.array([None if units is None else _decoded(units) for units in wide], pa.string())
    together = _decoded_together(column)
    if together is not None:
        return together
    return texts([None if units is None else _decoded(units) for units in column.to_pylist()])


_BETWEEN = "\uffff"
"""Stands between two values; no character, so a value that holds it is most likely damaged."""
_UNITS_BETWEEN = pa.Array.from_buffers(
    pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(_BETWEEN.encode("utf-16-le"))]
)[0]
_NO_BYTES, _NO_TEXT, _ONE = (
    one_text("").cast(pa.binary())[0],
    pa.nulls(1, pa.string())[0],
    several([1], pa.int32())[0],
)


def _decoded_together(column: pa.Array) -> pa.Array | None:
    """The strings of many values, decoded as one text in a tenth of the time that each alone takes.

    Half of a pair at the end of a value meets what stands between two, and is an error as before. None where
    a value holds that itself, or an odd number of bytes.
    """
    values = pc.fill_null(column.cast(pa.binary()), _NO_BYTES)
    odd = pc.max(pc.bit_wise_and(pc.binary_length(values), _ONE)).as_py()
    listed = pa.ListArray.from_arrays(several([0, len(values)], pa.int32()), values)
    text = "" if odd else _decoded(pc.binary_join(listed, _UNITS_BETWEEN)[0].as_buffer())
    if odd or text.count(_BETWEEN) != len(values) - 1:
        return None
    found = pc.split_pattern(one_text(text), pattern=_BETWEEN).flatten()
    return pc.if_else(column.is_valid(), found, _NO_TEXT) if column.null_count else found


def _decoded(units: bytes | pa.Buffer, errors: str = "strict") -> str:
    return codecs.decode(units, "utf-16-le", errors)


def _ascii(column: pa.Array) -> pa.Array | None:
    """Return the column's strings if all are ASCII; the check copies nothing."""
    large = pa.types.is_large_binary(column.type)
    validity, offsets, data = column.buffers()
    ends = pa.Array.from_buffers(pa.int64() if large else pa.int32(), len(column) + 1, [None, offsets])
    units = b"" if data is None else data[: ends[-1].as_py()]
    if not _decoded(units[:_HEAD_BYTES], "replace").isascii():
        return None
    text = _decoded(units, "replace")
    if not text.isascii():
        return None
    halved = pc.divide(ends, several([2], ends.type)[0]).buffers()[1]
    kind = pa.large_string() if large else pa.string()
    array = pa.Array.from_buffers(kind, len(column), [validity, halved, pa.py_buffer(text.encode())])
    return array.cast(pa.string())


def in_calendar(column: pa.Array) -> pa.Array:
    """Return the column if all its instants are in the years 1 to 9999.

    :raises OverflowError: one is not.
    """
    numbers = column.view(pa.int64())
    ends = pc.min_max(numbers)
    lowest, highest = ends["min"].as_py(), ends["max"].as_py()
    if lowest is not None and not FIRST_MICROSECOND <= lowest <= highest <= LAST_MICROSECOND:
        raise OverflowError
    return column


def half_a_pair(table: str, column: str) -> ValueDoesNotFit:
    """:param column: its name in the lake."""
    name = source_name(column)
    return ValueDoesNotFit(
        f"{table}: column {shown(name)} holds half of a surrogate pair, a character that was cut in two (by "
        "LEFT or by a short column, for instance), which no Unicode text can hold; nothing of what was read "
        "is committed. Correct the value at the source, or load the column's UTF-16 units as binary: "
        f"casts={{{name!r}: 'varbinary(max)'}}",
        column=name,
    )


def does_not_fit(table: str, column: str, planned: pa.DataType) -> ValueDoesNotFit:
    """:param column: its name in the lake."""
    name = source_name(column)
    return ValueDoesNotFit(
        f"{table}: column {shown(name)} holds a value that {planned} cannot hold; nothing of what was read "
        "is committed. Correct the value at the source, or read the column as text: "
        f"casts={{{name!r}: 'varchar(100)'}}",
        column=name,
    )


def _is_harmless(source: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether the cast keeps every value or raises; any other pair means that the source changed."""
    families = (
        (pa.types.is_string, pa.types.is_large_string),
        (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
        (pa.types.is_integer,),
        (pa.types.is_decimal,),
        (pa.types.is_timestamp,),
    )
    return any(
        any(is_kind(source) for is_kind in family) and any(is_kind(wanted) for is_kind in family)
        for family in families
    )
