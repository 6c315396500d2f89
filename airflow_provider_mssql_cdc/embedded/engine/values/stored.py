"""The stored value of each type, from the form that conversions share; lengths, ranges and their errors."""

from __future__ import annotations

import decimal
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable


WIDE_BIAS = 2**127
_CONTEXT = decimal.Context(prec=100)


def overflow(target: SqlType) -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting expression to data type {target.name}.")


def load(type_: SqlType) -> Callable[[Any], Any] | None:
    """Stored value to the form that conversions share: int, Decimal, float, str, bytes, Moment."""
    family = types.family(type_)
    if family == "moment":
        return moments.LOADERS[type_.name]
    if family == "decimal":
        scale = -(type_.scale or 0) if type_.name in ("decimal", "numeric") else -4
        if types.is_wide(type_):
            return lambda v: Decimal(int.from_bytes(v, "big") - WIDE_BIAS).scaleb(scale, _CONTEXT)
        return lambda v: Decimal(v).scaleb(scale, _CONTEXT)
    return None


def store_decimal(value: Decimal, type_: SqlType) -> Any:
    """Round half up to the scale. Error 8115."""
    precision, scale = (type_.precision or 18, type_.scale or 0)
    if type_.name in ("money", "smallmoney"):
        precision, scale = 0, 4
    scaled = int(value.scaleb(scale, _CONTEXT).to_integral_value(decimal.ROUND_HALF_UP))
    if type_.name in ("money", "smallmoney"):
        if (
            not -(2 ** (63 if type_.name == "money" else 31))
            <= scaled
            < 2 ** (63 if type_.name == "money" else 31)
        ):
            raise overflow(type_)
        return scaled
    if abs(scaled) >= 10**precision:
        raise SqlError(8115, f"Arithmetic overflow error converting numeric to data type {type_.name}.")
    return scaled if precision <= 18 else (scaled + WIDE_BIAS).to_bytes(16, "big")


def store_integer(value: int, type_: SqlType) -> int:
    """Errors 220 (tinyint, smallint) and 8115."""
    if type_.name == "bit":
        return int(value != 0)
    low, high = types.integer_bounds(type_)
    if low <= value <= high:
        return value
    if type_.name in ("tinyint", "smallint"):
        raise SqlError(220, f"Arithmetic overflow error for data type {type_.name}, value = {value}.")
    raise overflow(type_)


def store_float(value: float, type_: SqlType) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise overflow(type_)
    if type_.name == "real":
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            raise SqlError(232, "Arithmetic overflow error for type real.") from None
    return value


def store_text(type_: SqlType, *, assign: bool) -> Callable[[str], str]:
    """Cut or refuse at the declared length, in the column's code page; pad char and nchar."""
    limit = types.characters(type_)
    padded = type_.name in types.PADDED
    if type_.name in types.NATIONAL:
        return lambda text: _fit_utf16(text, limit, padded=padded, assign=assign)
    found = collation(type_.collation or DEFAULT)

    def fit(text: str) -> str:
        if text.isascii() and (limit is None or len(text) <= limit):
            return text.ljust(limit) if padded and limit else text
        data = found.encode(text)
        if limit is not None and len(data) > limit:
            if assign and data[limit:].strip(b" "):
                raise too_long(text)
            data = data[:limit]
            return data.decode(found.codec, "ignore")
        narrowed = found.decode(data)
        return narrowed + " " * (limit - len(data)) if padded and limit else narrowed

    return fit


def _fit_utf16(text: str, limit: int | None, *, padded: bool, assign: bool) -> str:
    if limit is None:
        return halves.kept(text)
    text = halves.kept(text)
    units = halves.units(text)
    if units > limit:
        if assign and halves.cut(text, limit, None).strip(" "):
            raise too_long(text)
        return halves.cut(text, 0, limit)
    return text + " " * (limit - units) if padded else text


def too_long(value: Any) -> SqlError:
    return SqlError(2628, f"String or binary data would be truncated. Truncated value: '{str(value)[:100]}'.")


def store_binary(type_: SqlType, *, assign: bool) -> Callable[[bytes], bytes]:
    length = 8 if type_.name == "timestamp" else type_.length
    padded = type_.name in ("binary", "timestamp")

    def fit(data: bytes) -> bytes:
        if length is None or length == MAX:
            return data
        if len(data) > length:
            if assign:
                raise too_long(data)
            return data[:length]
        return data.ljust(length, b"\0") if padded else data

    return fit


def integer_to_binary(value: int, length: int | None) -> bytes:
    size = 8 if length in (None, MAX) else length or 8
    return (value % (1 << (8 * max(size, 8)))).to_bytes(max(size, 8), "big")[-size:]


def guid_from_wire(data: bytes) -> bytes:
    """uuid.bytes_le to the order of comparison."""
    return data[10:16] + data[8:10] + data[6:8] + data[4:6] + data[0:4]


def guid_to_wire(stored: bytes) -> bytes:
    return stored[12:16] + stored[10:12] + stored[8:10] + stored[6:8] + stored[0:6]


def guid_text(stored: bytes) -> str:
    tail, head = stored[:8].hex(), stored[:7:-1].hex()
    return f"{head[:8]}-{head[8:12]}-{head[12:]}-{tail[12:]}-{tail[:12]}".upper()
