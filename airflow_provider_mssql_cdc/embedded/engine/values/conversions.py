"""CAST and CONVERT between stored values: one function per pair of types, built once."""

from __future__ import annotations

import decimal
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.engine.values.stored import (
    WIDE_BIAS,
    guid_from_wire,
    guid_text,
    guid_to_wire,
    integer_to_binary,
    load,
    store_binary,
    store_decimal,
    store_float,
    store_integer,
    store_text,
)
from airflow_provider_mssql_cdc.embedded.engine.values.texts import from_text, to_text
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable


GUID_CHARACTERS = 36


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


def _binary_to_integer(source: SqlType, target: SqlType, assign: bool) -> Callable[[Any], Any]:
    size = types.facts(target).length
    signed = target.name not in ("tinyint", "bit")
    return lambda v: store_integer(int.from_bytes(v[-size:].rjust(size, b"\0"), "big", signed=signed), target)


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
    ("binary", "integer"): _binary_to_integer,
    ("integer", "binary"): _integer_to_binary,
    ("binary", "guid"): lambda s, t, a: lambda v: guid_from_wire(v.ljust(16, b"\0")[:16]),
    ("guid", "binary"): lambda s, t, a: lambda v: store_binary(t, assign=a)(guid_to_wire(v)),
}
