"""Comparisons: operands brought to one type in such a way that an index on a column still serves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine import types
from airflow_provider_mssql_cdc.embedded.engine.conversions import load
from airflow_provider_mssql_cdc.embedded.engine.typed import Typed
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_EXACT = ("integer", "decimal")
_UNCOMPARABLE = frozenset({"text", "ntext", "image", "xml", "geometry", "geography"})


def compare(compiler: Compiler, operator: str, left: Typed, right: Typed) -> Typed:
    """``left operator right`` as a predicate, the column on the left side. Errors 402, 468."""
    if right.column and not left.column:
        left, right, operator = right, left, _MIRRORED[operator]
    constant = left.constant and right.constant
    if left.type is None or right.type is None:
        return Typed(f"({left.sql} {operator} {right.sql})", types.BIT, True, constant, boolean=True)
    if {left.type.name, right.type.name} & _UNCOMPARABLE:
        raise SqlError(
            402,
            f"The data types {left.type.name} and {right.type.name} are incompatible in the "
            "comparison operator.",
        )
    a, b = _aligned(compiler, left, right)
    return Typed(f"({a} {operator} {b})", types.BIT, True, constant, boolean=True)


def _aligned(compiler: Compiler, left: Typed, right: Typed) -> tuple[str, str]:
    families = types.family(left.known), types.family(right.known)
    if families == ("string", "string"):
        return _texts(compiler, left, right)
    if families[0] in _EXACT and families[1] in _EXACT:
        return _exact_numbers(compiler, left, right)
    if families == ("binary", "binary"):
        return _binaries(compiler, left, right)
    target = types.common(left.known, right.known)
    a, b = compiler.cast(left, target), compiler.cast(right, target)
    return compiler.collate(a.sql, target) if not _own_order(a) else a.sql, b.sql


def _own_order(value: Typed) -> bool:
    return value.column


def _texts(compiler: Compiler, left: Typed, right: Typed) -> tuple[str, str]:
    collation = _collation(compiler, left, right)
    own = left.column and left.known.collation == collation
    sql = left.sql
    if own and left.known.name not in types.NATIONAL and right.known.name in types.NATIONAL:
        # nvarchar wins: the column is converted, and under an SQL_ collation its index orders otherwise
        sql = f"+{sql}" if collation.upper().startswith("SQL_") else sql
    if own:
        return sql, right.sql
    return compiler.collate(sql, replace(left.known, collation=collation)), right.sql


def _collation(compiler: Compiler, left: Typed, right: Typed) -> str:
    explicit = {v.known.collation for v in (left, right) if v.explicit}
    if len(explicit) > 1:
        raise _conflict(left, right)
    chosen = explicit or {v.known.collation for v in (left, right) if not v.constant}
    chosen.discard(None)
    if len(chosen) > 1:
        raise _conflict(left, right)
    return next(iter(chosen), None) or compiler.catalog.collation


def _conflict(left: Typed, right: Typed) -> SqlError:
    pair = f'"{left.known.collation}" and "{right.known.collation}"'
    return SqlError(468, f"Cannot resolve the collation conflict between {pair} in the comparison operation.")


def _scale(type_: SqlType) -> int:
    return 4 if type_.name.endswith("money") else type_.scale or 0


def _exact_numbers(compiler: Compiler, left: Typed, right: Typed) -> tuple[str, str]:
    if types.family(left.known) == types.family(right.known) == "integer":
        return left.sql, right.sql
    narrow = left.column and not types.is_wide(left.known) and _scale(right.known) <= _scale(left.known)
    if narrow and right.constant:
        return left.sql, _scaled(compiler, right, _scale(left.known))
    target = types.common(_with_digits(left), _with_digits(right))
    return compiler.cast(left, target).sql, compiler.cast(right, target).sql


def _with_digits(value: Typed) -> SqlType:
    return types.decimal(value.digits) if value.digits is not None else value.known


def _scaled(compiler: Compiler, value: Typed, scale: int) -> str:
    """The value times 10**scale; past 64 bits the nearest integer there is, which compares the same."""
    if value.digits is not None and value.digits + scale <= 18:
        return f"({value.sql} * {10**scale})" if scale else value.sql
    loader = load(value.known) or (lambda v: v)
    return compiler.function(("scaled", value.known, scale), _clamped(loader, scale), value.sql)


def _clamped(loader: Callable[[Any], Any], scale: int) -> Callable[[Any], Any]:
    limit = 2**63 - 1

    def scaled(stored: Any) -> Any:
        if stored is None:
            return None
        number = Decimal(loader(stored))
        whole = int(number * 10**scale) if abs(number) < 10**19 else limit * (1 if number > 0 else -1)
        return max(-limit - 1, min(limit, whole))

    return scaled


def _binaries(compiler: Compiler, left: Typed, right: Typed) -> tuple[str, str]:
    for one, other in ((left, right), (right, left)):
        length = 8 if one.known.name == "timestamp" else one.known.length
        size = 8 if other.known.name == "timestamp" else other.known.length
        if one.known.name in ("binary", "timestamp") and length and size and 0 < size <= length:
            padded = compiler.cast(other, SqlType("binary", length)).sql
            return (left.sql, padded) if one is left else (padded, right.sql)
    return left.sql, right.sql
