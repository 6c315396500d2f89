"""Arithmetic and concatenation, with SQL Server's result types and errors."""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine import moments, types
from airflow_provider_mssql_cdc.embedded.engine.conversions import load, overflow, store_decimal, store_float
from airflow_provider_mssql_cdc.embedded.engine.typed import Typed
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler

CONTEXT = decimal.Context(prec=80)


def binary(compiler: Compiler, operator: str, left: Typed, right: Typed) -> Typed:
    """``left operator right``. Errors 402, 8115, 8117, 8134."""
    a, b = types.family(left.known), types.family(right.known)
    if left.type is None or right.type is None:
        return Typed("NULL", left.type or right.type, True, True)
    if operator == "+" and a == b == "string":
        return _concatenate(left, right)
    if operator == "+" and a == b == "binary":
        return _join_bytes(compiler, left, right)
    if "moment" in (a, b):
        return _shift(compiler, operator, left, right)
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


def _join_bytes(compiler: Compiler, left: Typed, right: Typed) -> Typed:
    sql = compiler.function(
        "join bytes", lambda a, b: None if a is None or b is None else a + b, left.sql, right.sql
    )
    return Typed(sql, SqlType("varbinary", 8000), **_known(left, right))


def _shift(compiler: Compiler, operator: str, left: Typed, right: Typed) -> Typed:
    """datetime + days."""
    if left.known.name not in ("datetime", "smalldatetime") or operator not in "+-":
        raise SqlError(402, f"The data types {left.known.name} and {right.known.name} are incompatible.")
    loader, type_, sign = moments.LOADERS[left.known.name], left.known, 1 if operator == "+" else -1
    days = compiler.cast(right, types.FLOAT)

    def shift(stored: Any, amount: Any) -> Any:
        if stored is None or amount is None:
            return None
        return moments.store(moments.Moment(loader(stored).units + sign * round(amount * moments.DAY)), type_)

    return Typed(
        compiler.function(("shift", type_, sign), shift, left.sql, days.sql), type_, **_known(left, right)
    )


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
    if operator in "&|":
        return Typed(f"({left.sql} {operator} {right.sql})", target, **known)
    if operator == "^":
        sql = f"(({left.sql} | {right.sql}) - ({left.sql} & {right.sql}))"
        return Typed(sql, target, **known)
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
    if operator == "/":
        return Typed(
            compiler.function("fdivide", _float_divide, left.sql, right.sql), target, **_known(left, right)
        )
    if operator not in "+-*":
        raise SqlError(402, f"The data types float and float are incompatible in the {operator} operator.")
    check = compiler.function(
        "finite",
        lambda v: None if v is None else store_float(v, types.FLOAT),
        f"({left.sql} {operator} {right.sql})",
    )
    return Typed(check, target, **_known(left, right))


def _float_divide(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if b == 0:
        raise _division_by_zero()
    return a / b


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
