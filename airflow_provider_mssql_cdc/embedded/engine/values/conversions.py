"""CAST and CONVERT between stored values: one function per pair of types, built once."""

from __future__ import annotations

import decimal
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.engine.values.texts import from_text, to_text
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable


WIDE_BIAS = 2**127
GUID_CHARACTERS = 36
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
        import struct

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


@lru_cache(maxsize=5000)
def converter(
    source: SqlType, target: SqlType, *, style: int | None = None, assign: bool = False
) -> Callable[[Any], Any] | None:
    """The function from stored values of ``source`` to those of ``target``; None keeps the value.

    Errors when it is built: 529 (not allowed); when it runs: 241, 242, 245, 248, 8114, 8115, 8169, 220, 2628.
    """
    if _same(source, target, style):
        return None
    loader = load(source)
    step = _step(source, target, style, assign=assign)
    if (direct := _direct(source, target, style)) is not None:
        return lambda value: None if value is None else direct(value)

    def convert(value: Any) -> Any:
        return None if value is None else step(value if loader is None else loader(value))

    return convert


def _direct(source: SqlType, target: SqlType, style: int | None) -> Callable[[Any], Any] | None:
    """Conversions of every row of a large read, where the target holds whatever the source does."""
    if source.name == "uniqueidentifier" and target.name in ("varchar", "nvarchar"):
        return guid_text if (types.characters(target) or GUID_CHARACTERS) >= GUID_CHARACTERS else None
    if source.name in types.NATIONAL and target.name == "varbinary" and not style:
        room = target.length == MAX or 0 < (source.length or 0) <= (target.length or 0)
        return halves.utf16 if room else None
    return _widened(source, target)


def _widened(source: SqlType, target: SqlType) -> Callable[[Any], Any] | None:
    """money or a short decimal as a long one of the same scale: no arithmetic."""
    if {types.family(source), types.family(target)} != {"decimal"} or types.is_wide(source):
        return None
    if not types.is_wide(target) or target.name.endswith("money"):
        return None
    precision, scale = (
        (19, 4) if source.name.endswith("money") else (source.precision or 18, source.scale or 0)
    )
    if scale != (target.scale or 0) or precision > (target.precision or 18):
        return None
    return lambda v: (v + WIDE_BIAS).to_bytes(16, "big")


def _same(source: SqlType, target: SqlType, style: int | None) -> bool:
    if source == target:
        return True
    a, b = types.family(source), types.family(target)
    if a != b or a == "opaque" or (style in (1, 2) and a != "string"):
        return a == b == "opaque"
    if a == "integer":
        return types.facts(source).precedence <= types.facts(target).precedence
    if a == "decimal":
        return _same_decimal(source, target)
    if a == "string":
        return _same_text(source, target)
    if a == "binary":
        return target.name in ("varbinary", "image") and _fits(source, target)
    if a == "moment":
        return source.name == target.name and (source.scale or 0) <= (target.scale or 0)
    return (source.name, target.name) == ("real", "float")


def _same_decimal(source: SqlType, target: SqlType) -> bool:
    if "money" in source.name + target.name:
        return source.name == target.name or (source.name, target.name) == ("smallmoney", "money")
    if types.is_wide(source) != types.is_wide(target) or source.scale != target.scale:
        return False
    return (source.precision or 0) <= (target.precision or 0)


def _same_text(source: SqlType, target: SqlType) -> bool:
    if target.name in types.PADDED and (source.name != target.name or source.length != target.length):
        return False
    if target.name not in types.NATIONAL and source.name in types.NATIONAL:
        return False
    if target.name not in types.NATIONAL:
        pages = [collation(t.collation or DEFAULT).code_page for t in (source, target)]
        if pages[0] != pages[1]:
            return False
    return target.name != "xml" and _fits(source, target)


def _fits(source: SqlType, target: SqlType) -> bool:
    size = types.characters(target) if target.name in types.SIZED else None
    own = types.characters(source) if source.name in types.SIZED else None
    return size is None or (own is not None and own <= size)


def _step(source: SqlType, target: SqlType, style: int | None, *, assign: bool) -> Callable[[Any], Any]:
    a, b = types.family(source), types.family(target)
    if b == "string":
        fit = store_text(target, assign=assign)
        if a == "opaque":
            return lambda v: fit(str(v))
        render = to_text(source, target, style)
        return fit if render is None else _chain(render, fit)
    if a == "string":
        return from_text(target, style, source=source, assign=assign)
    if a == "opaque" and b == "binary":
        store = store_binary(target, assign=assign)
        return lambda v: store(v if isinstance(v, bytes) else halves.utf16(str(v)))
    function = _PAIRS.get((a, b))
    if function is None:
        raise SqlError(
            529, f"Explicit conversion from data type {source.name} to {target.name} is not allowed."
        )
    return function(source, target, assign)


def _chain(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda v: second(first(v))


def _numbers_to_integer(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    if source.name.endswith("money"):
        return lambda v: store_integer(int(Decimal(v).to_integral_value(decimal.ROUND_HALF_UP)), target)
    return lambda v: store_integer(int(v), target)


def _to_decimal(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    return lambda v: store_decimal(v if isinstance(v, Decimal) else Decimal(v), target)


def _to_float(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    return lambda v: store_float(float(v), target)


def _moment_to_moment(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    if {source.name, target.name} == {"date", "time"}:
        raise SqlError(
            529, f"Explicit conversion from data type {source.name} to {target.name} is not allowed."
        )
    return lambda v: moments.store(v, target)


def _integer_to_binary(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    size = types.facts(source).length
    if target.name == "varbinary":
        length = size if target.length in (None, MAX) else min(size, target.length or size)
        return lambda v: integer_to_binary(v, length)
    return lambda v: integer_to_binary(v, 8 if target.name == "timestamp" else target.length)


_PAIRS: dict[tuple[str, str], Callable[[SqlType, SqlType, bool], Callable[[Any], Any]]] = {
    ("integer", "integer"): _numbers_to_integer,
    ("decimal", "integer"): _numbers_to_integer,
    ("float", "integer"): _numbers_to_integer,
    ("integer", "decimal"): _to_decimal,
    ("decimal", "decimal"): _to_decimal,
    ("float", "decimal"): _to_decimal,
    ("integer", "float"): _to_float,
    ("decimal", "float"): _to_float,
    ("float", "float"): _to_float,
    ("moment", "moment"): _moment_to_moment,
    ("binary", "binary"): lambda s, t, a: store_binary(t, assign=a),
    ("integer", "binary"): _integer_to_binary,
    ("binary", "guid"): lambda s, t, a: lambda v: guid_from_wire(v.ljust(16, b"\0")[:16]),
    ("guid", "binary"): lambda s, t, a: lambda v: store_binary(t, assign=a)(guid_to_wire(v)),
}
