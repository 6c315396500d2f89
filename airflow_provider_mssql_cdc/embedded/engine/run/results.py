"""Results: batches of rows, and values as Python has them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import (
    converter,
)
from airflow_provider_mssql_cdc.embedded.engine.values.stored import (
    guid_from_wire,
    guid_to_wire,
    load,
    store_binary,
    store_decimal,
    store_float,
    store_integer,
    store_text,
)
from airflow_provider_mssql_cdc.embedded.seam import ResultColumn, ResultSet, Row, SqlType

# local times, as SQL Server keeps them
_YEAR_ONE = datetime(1, 1, 1)  # noqa: DTZ001
_YEAR_1900 = datetime(1900, 1, 1)  # noqa: DTZ001


def result_set(columns: Iterable[tuple[str, SqlType]], rows: Iterable[Row]) -> ResultSet:
    """A result made in Python; the rows hold stored values."""
    return ResultSet(tuple(ResultColumn(n, t) for n, t in columns), iter([list(rows)]))


def _to_datetime(moment: moments.Moment) -> datetime:
    plain = _YEAR_ONE + timedelta(microseconds=moment.units // 10)
    return (
        plain if moment.offset is None else plain.replace(tzinfo=timezone(timedelta(minutes=moment.offset)))
    )


def decoder(type_: SqlType) -> Callable[[Any], Any]:
    """Stored value to Python: bool, int, Decimal, float, str, bytes, date, time, datetime, UUID."""
    family = types.family(type_)
    loader = load(type_)
    if type_.name == "bit":
        return bool
    if family == "guid":
        return lambda v: uuid.UUID(bytes_le=guid_to_wire(v))
    if family != "moment":
        return loader or (lambda v: v)
    assert loader is not None
    if type_.name == "date":
        return lambda v: date.fromordinal(v + 1)
    if type_.name == "datetime":
        return lambda v: _YEAR_1900 + timedelta(milliseconds=(v * 20 + 3) // 6)
    if type_.name == "time":
        return lambda v: _to_datetime(loader(v)).time()
    return lambda v: _to_datetime(loader(v))


def python_rows(result: ResultSet) -> list[Row]:
    """All rows of a result as Python values."""
    decoders = [decoder(c.type) for c in result.columns]
    return [
        tuple(None if v is None else d(v) for d, v in zip(decoders, row, strict=True))
        for batch in result.batches
        for row in batch
    ]


def guessed_type(value: Any) -> SqlType:
    """The SQL type that a driver would send a Python value as."""
    if isinstance(value, bool):
        return types.BIT
    if isinstance(value, int):
        return (
            types.INT
            if -(2**31) <= value < 2**31
            else types.BIGINT
            if -(2**63) <= value < 2**63
            else types.decimal(38)
        )
    if isinstance(value, float):
        return types.FLOAT
    if isinstance(value, Decimal):
        exponent = -int(value.as_tuple().exponent)
        digits = len(value.as_tuple().digits)
        return types.decimal(min(38, max(digits, exponent, 1)), max(exponent, 0))
    if isinstance(value, bytes | bytearray | memoryview):
        return SqlType("varbinary", -1 if len(value) > 8000 else max(len(value), 1))
    if isinstance(value, datetime):
        return SqlType("datetime2" if value.tzinfo is None else "datetimeoffset", scale=7)
    if isinstance(value, date):
        return SqlType("date")
    if isinstance(value, time):
        return SqlType("time", scale=7)
    if isinstance(value, uuid.UUID):
        return SqlType("uniqueidentifier")
    units = halves.units(halves.kept(str(value)))
    return types.nvarchar(-1 if units > 4000 else max(units, 1))


def _moment(value: Any) -> moments.Moment:
    if isinstance(value, datetime):
        seconds = (value.toordinal() - 1) * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
        units = seconds * moments.SECOND + value.microsecond * 10
        if value.tzinfo is None:
            return moments.Moment(units)
        offset = (value.utcoffset() or timedelta()) // timedelta(minutes=1)
        return moments.Moment(units, offset)
    if isinstance(value, date):
        return moments.Moment((value.toordinal() - 1) * moments.DAY)
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return moments.Moment(moments.DAY_1900 * moments.DAY + seconds * moments.SECOND + value.microsecond * 10)


def encoder(type_: SqlType) -> Callable[[Any], Any]:
    """Python value to the stored value of a column, as INSERT converts it; other kinds go through CAST."""
    exact = _exact_encoder(type_)
    other: dict[SqlType, Callable[[Any], Any] | None] = {}

    def encode(value: Any) -> Any:
        if value is None:
            return None
        done = exact(value)
        if done is not NotImplemented:
            return done
        source = guessed_type(value)
        if source not in other:
            other[source] = converter(source, type_, assign=True)
        stored = encoder(source)(value)
        convert = other[source]
        return stored if convert is None else convert(stored)

    return encode


def _exact_encoder(type_: SqlType) -> Callable[[Any], Any]:
    family = types.family(type_)
    if family == "integer":
        low, high = types.integer_bounds(type_)
        return lambda v: (
            v
            if type(v) is int and low <= v <= high
            else store_integer(v, type_)
            if isinstance(v, int)
            else NotImplemented
        )
    if family == "decimal":
        return _decimal_encoder(type_)
    if family == "float":
        return lambda v: store_float(float(v), type_) if isinstance(v, float | int) else NotImplemented
    if family == "string":
        fit = store_text(type_, assign=True)
        return lambda v: fit(v) if isinstance(v, str) else NotImplemented
    if family == "binary":
        cut = store_binary(type_, assign=True)
        return lambda v: cut(bytes(v)) if isinstance(v, bytes | bytearray | memoryview) else NotImplemented
    if family == "guid":
        return lambda v: guid_from_wire(v.bytes_le) if isinstance(v, uuid.UUID) else NotImplemented
    if family == "opaque":
        return lambda v: v
    return lambda v: moments.store(_moment(v), type_) if isinstance(v, date | time) else NotImplemented


def _decimal_encoder(type_: SqlType) -> Callable[[Any], Any]:
    narrow = type_.name in ("decimal", "numeric") and not types.is_wide(type_)
    factor, limit = Decimal(10) ** (type_.scale or 0), 10 ** (type_.precision or 18)

    def encode(value: Any) -> Any:
        if type(value) is Decimal:
            if narrow:
                scaled = value * factor
                whole = int(scaled)
                if whole == scaled and -limit < whole < limit:
                    return whole
            return store_decimal(value, type_)
        return store_decimal(Decimal(value), type_) if isinstance(value, int) else NotImplemented

    return encode


def encode_rows(
    encoders: Sequence[Callable[[Any], Any]], rows: Iterable[Sequence[Any]]
) -> Iterable[list[Any]]:
    for row in rows:
        yield [encode(value) for encode, value in zip(encoders, row, strict=True)]
