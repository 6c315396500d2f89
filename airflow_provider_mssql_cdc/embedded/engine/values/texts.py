"""Conversions from and to text: SQL Server's spellings, styles and errors."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.engine.values.stored import (
    guid_from_wire,
    guid_text,
    store_binary,
    store_decimal,
    store_float,
    store_integer,
)
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable


_INTEGER = re.compile(r"[+-]?\d*", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)


def style_unknown(source: SqlType, style: int | None) -> SqlError:
    return SqlError(281, f"The embedded server has no text for {source.name} in style {style or 0}.")


def float_text(value: float, style: int, *, real: bool) -> str:
    """Styles 1 (eight digits, scientific), 2 (sixteen), 3 (all digits, exact)."""
    digits = {1: 7, 2: 15, 3: 8 if real else 16}[style]
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent):+04d}"


def to_text(source: SqlType, target: SqlType, style: int | None) -> Callable[[Any], str] | None:
    """From the shared form of ``source`` to text; None when it is text already."""
    family = types.family(source)
    if family == "integer":
        limit = types.characters(target)
        return lambda v: str(v) if limit is None or len(str(v)) <= limit else _too_small(source, target)
    if family == "decimal":
        if source.name.endswith("money"):
            if style not in (2, 126):
                raise style_unknown(source, style)
            return lambda v: f"{v:.4f}"
        return lambda v: f"{v:f}"
    if family == "float":
        if style not in (1, 2, 3):
            raise style_unknown(source, style)
        return lambda v: float_text(v, style, real=source.name == "real")
    if family == "moment":
        return lambda v: moments.render(v, source, style)
    if family == "guid":
        return guid_text
    if family == "binary":
        return _binary_text(target, style)
    return None


def _too_small(source: SqlType, target: SqlType) -> str:
    if target.name in types.NATIONAL:
        raise SqlError(8115, f"Arithmetic overflow error converting expression to data type {target.name}.")
    return "*"


def _binary_text(target: SqlType, style: int | None) -> Callable[[bytes], str]:
    if style in (1, 2):
        prefix = "0x" if style == 1 else ""
        return lambda v: prefix + v.hex().upper()
    if target.name in types.NATIONAL:
        return halves.from_utf16
    return collation(target.collation or DEFAULT).decode


def from_text(target: SqlType, style: int | None, *, source: SqlType, assign: bool) -> Callable[[str], Any]:
    """From text to stored values of ``target``. Errors 241, 245, 248, 8114, 8169, 235."""
    family = types.family(target)
    if family == "integer":
        return lambda v: _text_to_integer(v, source, target)
    if family == "decimal":
        return lambda v: store_decimal(_number(v, source, target), target)
    if family == "float":
        return lambda v: store_float(float(_number(v, source, target)), target)
    if family == "moment":
        return lambda v: moments.store(moments.parse(v, target.name), target)
    if family == "guid":
        return _text_to_guid
    if family == "binary":
        return _text_to_binary(target, style, source=source, assign=assign)
    return lambda v: v


def _text_to_integer(text: str, source: SqlType, target: SqlType) -> int:
    stripped = text.strip(" ")
    if target.name == "bit" and stripped.lower() in ("true", "false"):
        return int(stripped.lower() == "true")
    if not _INTEGER.fullmatch(stripped):
        message = (
            f"Conversion failed when converting the {source.name} value '{text}' to data type {target.name}."
        )
        if target.name == "bigint":
            raise SqlError(8114, f"Error converting data type {source.name} to bigint.")
        raise SqlError(245, message)
    value = int(stripped) if stripped.strip("+-") else 0
    low, high = types.integer_bounds(target)
    if target.name == "int" and not low <= value <= high:
        raise SqlError(248, f"The conversion of the {source.name} value '{text}' overflowed an int column.")
    return store_integer(value, target)


def _number(text: str, source: SqlType, target: SqlType) -> Decimal:
    stripped = text.strip(" ")
    if target.name.endswith("money"):
        stripped = stripped.lstrip("$").replace(",", "")
    try:
        value = Decimal(stripped) if stripped.isascii() and "_" not in stripped else None
    except InvalidOperation:
        value = None
    exponent_in_exact = types.family(target) == "decimal" and "e" in stripped.lower()
    if value is None or not value.is_finite() or exponent_in_exact:
        if target.name.endswith("money"):
            raise SqlError(235, "Cannot convert a char value to money. The char value has incorrect syntax.")
        raise SqlError(8114, f"Error converting data type {source.name} to {target.name}.")
    return value


def _text_to_guid(text: str) -> bytes:
    body = text.strip(" ")
    body = body[1:-1] if body.startswith("{") and body.endswith("}") else body[:36]
    pieces = [len(piece) for piece in body.split("-")]
    if pieces != [8, 4, 4, 4, 12] or not _HEX.fullmatch(body.replace("-", "")):
        raise SqlError(8169, "Conversion failed when converting from a character string to uniqueidentifier.")
    return guid_from_wire(uuid.UUID(body).bytes_le)


def _text_to_binary(
    target: SqlType, style: int | None, *, source: SqlType, assign: bool
) -> Callable[[str], bytes]:
    fit = store_binary(target, assign=assign)
    if style in (1, 2):
        return lambda v: fit(_hex_bytes(v, source, target, prefix=style == 1))
    if source.name in types.NATIONAL:
        return lambda v: fit(halves.utf16(v))
    return lambda v: fit(collation(source.collation or DEFAULT).encode(v))


def _hex_bytes(text: str, source: SqlType, target: SqlType, *, prefix: bool) -> bytes:
    body = text.rstrip(" ")
    valid = body[:2].lower() == "0x" if prefix else True
    digits = body[2:] if prefix else body
    if not valid or len(digits) % 2 or not _HEX.fullmatch(digits):
        raise SqlError(8114, f"Error converting data type {source.name} to {target.name}.")
    return bytes.fromhex(digits)
