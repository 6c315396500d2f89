"""Comparisons, arithmetic and concatenation, with SQL Server's result types and errors."""

from __future__ import annotations

import decimal
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile.context import Typed
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.engine.values.stored import (
    load,
    overflow,
    store_decimal,
    store_float,
)
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler


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


CONTEXT = decimal.Context(prec=80)


def binary(compiler: Compiler, operator: str, left: Typed, right: Typed) -> Typed:
    """``left operator right``. Errors 402, 8115, 8117, 8134."""
    a, b = types.family(left.known), types.family(right.known)
    if left.type is None or right.type is None:
        return Typed("NULL", left.type or right.type, True, True)
    if operator == "+" and a == b == "string":
        return _concatenate(left, right)
    target = types.common(left.known, right.known)
    family = types.family(target)
    if family == "integer":
        return _integers(compiler, operator, target, left=left, right=right)
    if family == "float":
        pair = compiler.cast(left, target), compiler.cast(right, target)
        return _floats(compiler, operator, *pair, target)
    if family == "decimal" and a in ("integer", "decimal") and b in ("integer", "decimal"):
        return _decimals(compiler, operator, left, right)
    if family in ("decimal", "integer") and "string" in (a, b):
        return binary(compiler, operator, compiler.cast(left, target), compiler.cast(right, target))
    raise SqlError(8117, f"Operand data type {target.name} is invalid for operator '{operator}'.")


def _known(*values: Typed) -> dict[str, bool]:
    return {"nullable": any(v.nullable for v in values), "constant": all(v.constant for v in values)}


def _concatenate(left: Typed, right: Typed) -> Typed:
    national = any(v.known.name in types.NATIONAL for v in (left, right))
    sizes = [types.characters(v.known) for v in (left, right)]
    collation = next(
        (v.known.collation for v in (left, right) if v.explicit or v.column), left.known.collation
    )
    limit = 4000 if national else 8000
    total = MAX if None in sizes else min(sum(s or 0 for s in sizes), limit)
    type_ = types.nvarchar(total, collation) if national else types.varchar(total, collation)
    explicit = left.explicit or right.explicit
    return Typed(f"({left.sql} || {right.sql})", type_, explicit=explicit, **_known(left, right))


def _division_by_zero() -> SqlError:
    return SqlError(8134, "Divide by zero error encountered.")


def _divide(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if b == 0:
        raise _division_by_zero()
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if b == 0:
        raise _division_by_zero()
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


def in_range(type_: SqlType) -> Callable[[Any], Any]:
    """Checks an integer result; SQLite turns what passes 64 bits into a float."""
    low, high = types.integer_bounds(type_)

    def check(number: Any) -> Any:
        if number is None or (isinstance(number, int) and low <= number <= high):
            return number
        raise overflow(type_)

    return check


def _integers(compiler: Compiler, operator: str, target: SqlType, *, left: Typed, right: Typed) -> Typed:
    known = _known(left, right)
    if target.name == "bit":
        raise SqlError(8117, "Operand data type bit is invalid for add operator.")
    if operator == "/":
        return Typed(compiler.function("divide", _divide, left.sql, right.sql), target, **known)
    if operator == "%":
        nonzero = right.digits is not None and right.sql.lstrip("-0") != ""
        sql = f"({left.sql} % {right.sql})"
        return Typed(
            sql if nonzero else compiler.function("mod", _remainder, left.sql, right.sql), target, **known
        )
    sql = compiler.function(("in range", target), in_range(target), f"({left.sql} {operator} {right.sql})")
    return Typed(sql, target, **known)


def _floats(compiler: Compiler, operator: str, left: Typed, right: Typed, target: SqlType) -> Typed:
    if operator not in "+-*":
        raise SqlError(402, f"The data types float and float are incompatible in the {operator} operator.")
    check = compiler.function(
        "finite",
        lambda v: None if v is None else store_float(v, types.FLOAT),
        f"({left.sql} {operator} {right.sql})",
    )
    return Typed(check, target, **_known(left, right))


def result_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """Precision and scale of decimal arithmetic (Transact-SQL: Precision, scale, and length)."""
    a, b = types.as_decimal(left), types.as_decimal(right)
    p1, s1, p2, s2 = a.precision or 0, a.scale or 0, b.precision or 0, b.scale or 0
    if operator in "+-":
        scale = max(s1, s2)
        precision = scale + max(p1 - s1, p2 - s2) + 1
    elif operator == "*":
        scale, precision = s1 + s2, p1 + p2 + 1
    elif operator == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > 38:
        whole = precision - scale
        scale = max(38 - whole, min(scale, 6)) if operator in "*/" else max(38 - whole, 0)
        precision = 38
    return types.decimal(precision, scale)


def _decimals(compiler: Compiler, operator: str, left: Typed, right: Typed) -> Typed:
    both_money = left.known.name == right.known.name and left.known.name.endswith("money")
    a, b = (types.decimal(v.digits) if v.digits is not None else v.known for v in (left, right))
    type_ = left.known if both_money else result_type(operator, a, b)
    loaders = load(left.known) or Decimal, load(right.known) or Decimal

    def compute(first: Any, second: Any) -> Any:
        if first is None or second is None:
            return None
        x, y = Decimal(loaders[0](first)), Decimal(loaders[1](second))
        if operator in "/%" and y == 0:
            raise _division_by_zero()
        operation = {"+": CONTEXT.add, "-": CONTEXT.subtract, "*": CONTEXT.multiply,
                     "/": CONTEXT.divide, "%": CONTEXT.remainder}[operator]  # fmt: skip
        return store_decimal(operation(x, y), type_)

    key = ("decimals", operator, left.known, right.known, type_)
    return Typed(compiler.function(key, compute, left.sql, right.sql), type_, **_known(left, right))
