"""Aggregates and window functions."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine import arithmetic, tree, types
from airflow_provider_mssql_cdc.embedded.engine.conversions import load, store_decimal
from airflow_provider_mssql_cdc.embedded.engine.functions import arguments
from airflow_provider_mssql_cdc.embedded.engine.typed import Scope, Typed
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler

_RANKING = frozenset({"row_number", "rank", "dense_rank", "ntile"})
_SHIFTING = frozenset({"lag", "lead", "first_value", "last_value"})
NAMES = frozenset({"count", "count_big", "min", "max", "sum", "avg", "string_agg"}) | _RANKING | _SHIFTING


def call(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    """An aggregate, or a window function with its OVER."""
    over = "" if node.over is None else f" OVER ({_window(compiler, node.over, scope)})"
    name = node.name[-1].lower()
    if name in ("count", "count_big"):
        return _count(compiler, node, scope, over=over)
    if name in _RANKING:
        values = arguments(compiler, node, scope, least=1 if name == "ntile" else 0)
        return Typed(f"{name}({', '.join(v.sql for v in values)}){over}", types.BIGINT, False)
    if name in _SHIFTING:
        values = arguments(compiler, node, scope, least=1, most=3)
        return Typed(f"{name}({', '.join(v.sql for v in values)}){over}", values[0].type)
    if name == "string_agg":
        text, separator = arguments(compiler, node, scope, least=2)
        shown = compiler.cast(text, types.nvarchar()) if not types.is_text(text.known) else text
        return Typed(f"group_concat({shown.sql}, {separator.sql}){over}", shown.type)
    (operand,) = arguments(compiler, node, scope, least=1)
    if operand.type is not None and operand.type.name == "bit":
        raise SqlError(8117, f"Operand data type bit is invalid for {name} operator.")
    distinct = "DISTINCT " if node.distinct else ""
    if name in ("min", "max"):
        return Typed(f"{name}({compiler.ordered(operand)}){over}", operand.type)
    return _total(compiler, name, operand, distinct=distinct, over=over)


def _window(compiler: Compiler, over: tree.Over, scope: Scope | None) -> str:
    from airflow_provider_mssql_cdc.embedded.engine.expressions import value

    parts = []
    if over.partition:
        keys = [value(compiler, p, scope) for p in over.partition]
        parts.append("PARTITION BY " + ", ".join(compiler.ordered(k) for k in keys))
    if over.order:
        terms = []
        for item in over.order:
            key = value(compiler, item.expression, scope)
            terms.append(compiler.ordered(key) + (" DESC" if item.descending else ""))
        parts.append("ORDER BY " + ", ".join(terms))
    return " ".join(parts)


def _count(compiler: Compiler, node: tree.Call, scope: Scope | None, *, over: str) -> Typed:
    type_ = types.BIGINT if node.name[-1].lower() == "count_big" else types.INT
    if len(node.arguments) == 1 and isinstance(node.arguments[0], tree.Star):
        return Typed(f"count(*){over}", type_, False)
    (operand,) = arguments(compiler, node, scope, least=1)
    shown = compiler.ordered(operand) if node.distinct else operand.sql
    return Typed(f"count({'DISTINCT ' if node.distinct else ''}{shown}){over}", type_, False)


def _total(compiler: Compiler, name: str, operand: Typed, *, distinct: str, over: str) -> Typed:
    known = operand.known
    family = types.family(known)
    if family == "float":
        return Typed(f"{name}({distinct}{operand.sql}){over}", types.FLOAT)
    if family == "integer":
        type_ = types.BIGINT if known.name == "bigint" else types.INT
        if name == "sum":
            total = f"sum({distinct}{operand.sql}){over}"
            return Typed(compiler.function(("in range", type_), arithmetic.in_range(type_), total), type_)
        total, count = f"sum({distinct}{operand.sql}){over}", f"count({distinct}{operand.sql}){over}"
        return Typed(f"({total} / {count})", type_)
    if family != "decimal":
        raise SqlError(8117, f"Operand data type {known.name} is invalid for {name} operator.")
    type_ = _total_type(name, known)
    aggregate = _decimal_aggregate(name, known, type_)
    key = ("aggregate", name, known)
    sql = compiler.function(key, aggregate, f"{distinct}{operand.sql}", aggregate=True)
    if over:
        raise SqlError(
            4113, f"The function '{name}' over decimal values is not a valid windowing function here."
        )
    return Typed(sql, type_)


def _total_type(name: str, known: SqlType) -> SqlType:
    if known.name.endswith("money"):
        return SqlType("money")
    scale = known.scale or 0
    return types.decimal(38, scale if name == "sum" else max(scale, 6))


def _decimal_aggregate(name: str, known: SqlType, type_: SqlType) -> type[Any]:
    loader = load(known) or Decimal

    class Total:
        def __init__(self) -> None:
            self.total, self.count = Decimal(0), 0

        def step(self, stored: Any) -> None:
            if stored is not None:
                self.total, self.count = arithmetic.CONTEXT.add(self.total, loader(stored)), self.count + 1

        def finalize(self) -> Any:
            if not self.count:
                return None
            value = (
                self.total if name == "sum" else arithmetic.CONTEXT.divide(self.total, Decimal(self.count))
            )
            return store_decimal(value, type_)

    return Total
