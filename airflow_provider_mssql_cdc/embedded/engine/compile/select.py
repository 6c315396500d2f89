"""Queries to SQLite SQL with result columns; aggregates and window functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile import operators, sources
from airflow_provider_mssql_cdc.embedded.engine.compile.context import OutputColumn, Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.compile.expressions import predicate, value
from airflow_provider_mssql_cdc.embedded.engine.compile.functions import arguments
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import load, store_decimal
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler


_RANKING = frozenset({"row_number", "rank", "dense_rank", "ntile"})
_SHIFTING = frozenset({"lag", "lead", "first_value", "last_value"})
NAMES = frozenset({"count", "count_big", "min", "max", "sum", "avg", "string_agg"}) | _RANKING | _SHIFTING


def call(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    """An aggregate, or a window function with its OVER."""
    over = "" if node.over is None else f" OVER ({_window(compiler, node.over, scope)})"
    name = node.name[-1].lower()
    if name in ("count", "count_big"):
        return _count_aggregate(compiler, node, scope, over=over)
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
    from airflow_provider_mssql_cdc.embedded.engine.compile.expressions import value

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


def _count_aggregate(compiler: Compiler, node: tree.Call, scope: Scope | None, *, over: str) -> Typed:
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
            return Typed(compiler.function(("in range", type_), operators.in_range(type_), total), type_)
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
                self.total, self.count = operators.CONTEXT.add(self.total, loader(stored)), self.count + 1

        def finalize(self) -> Any:
            if not self.count:
                return None
            value = self.total if name == "sum" else operators.CONTEXT.divide(self.total, Decimal(self.count))
            return store_decimal(value, type_)

    return Total


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """``sql`` names its columns c0, c1, …; ``simple``: it may stand in a compound as it is.

    ``variables``: what ``SELECT @x = …`` assigns, in the columns' order.
    """

    sql: str
    columns: tuple[OutputColumn, ...]
    simple: bool = True
    variables: tuple[str, ...] = ()


def query(compiler: Compiler, node: tree.Query, parent: Scope | None = None) -> CompiledQuery:
    """A whole query with its ORDER BY, OFFSET and CTEs."""
    compiler.ctes.append(
        {compiler.catalog.fold(name): (inner, columns) for name, columns, inner in node.ctes}
    )
    try:
        if isinstance(node.body, tree.Select):
            return _select(compiler, node.body, parent, outer=node)
        inner = _body(compiler, node.body, parent)
        if not node.order:
            return inner
        return _ordered(compiler, inner, node, parent)
    finally:
        compiler.ctes.pop()


def _body(
    compiler: Compiler, body: tree.Query | tree.Select | tree.Union | tree.Values, parent: Scope | None
) -> CompiledQuery:
    match body:
        case tree.Query():
            return query(compiler, body, parent)
        case tree.Union():
            return _union(compiler, body, parent)
        case tree.Values():
            return _values(compiler, body, parent)
    return _select(compiler, body, parent, outer=None)


def _ordered(
    compiler: Compiler, inner: CompiledQuery, node: tree.Query, parent: Scope | None
) -> CompiledQuery:
    """ORDER BY over a set operation refers to the output columns."""
    alias = compiler.alias()
    relation = sources.derived(alias, None, inner)
    scope = Scope([relation], parent)
    terms = [
        _order_term(compiler, item, scope, list(zip(inner.columns, relation.columns, strict=True)))
        for item in node.order
    ]
    sql = (
        f"SELECT * FROM ({inner.sql}) AS {alias} ORDER BY {', '.join(terms)}{_limit(compiler, node, parent)}"
    )
    return CompiledQuery(sql, inner.columns, False)


def _order_term(
    compiler: Compiler,
    item: tree.OrderItem,
    scope: Scope,
    outputs: list[tuple[OutputColumn, tuple[str, Typed]]],
) -> str:
    expression = item.expression
    suffix = " DESC" if item.descending else ""
    if isinstance(expression, tree.Literal) and expression.kind == "integer":
        position = int(expression.text)
        if not 1 <= position <= len(outputs):
            raise SqlError(108, f"The ORDER BY position number {position} is out of range.")
        typed = outputs[position - 1][1][1]
    else:
        typed = _output(compiler, expression, outputs) or value(compiler, expression, scope)
    return compiler.ordered(typed) + suffix


def _output(
    compiler: Compiler, expression: tree.Expression, outputs: list[tuple[OutputColumn, tuple[str, Typed]]]
) -> Typed | None:
    if isinstance(expression, tree.ColumnName) and len(expression.parts) == 1:
        wanted = compiler.catalog.fold(expression.parts[0])
        for output, (_, typed) in outputs:
            if output.name and compiler.catalog.fold(output.name) == wanted:
                return typed
    return None


def _limit(compiler: Compiler, node: tree.Query, parent: Scope | None) -> str:
    if node.offset is None:
        return ""
    offset = _count(compiler, node.offset, parent)
    fetch = "-1" if node.fetch is None else _count(compiler, node.fetch, parent)
    return f" LIMIT {fetch} OFFSET {offset}"


def _count(compiler: Compiler, node: tree.Expression, parent: Scope | None) -> str:
    """TOP's and OFFSET's number. Errors 1014, 10742, 1060."""
    typed = value(compiler, node, parent)
    if typed.digits is not None:
        return typed.sql
    bigint = compiler.cast(typed, types.BIGINT)
    return compiler.function("row count", _row_count, bigint.sql)


def _row_count(number: int | None) -> int:
    if number is None or number < 0:
        raise SqlError(
            1060,
            "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.",
        )
    return number


def _select(
    compiler: Compiler, node: tree.Select, parent: Scope | None, *, outer: tree.Query | None
) -> CompiledQuery:
    scope = Scope([], parent)
    from_sql, conjuncts = sources.compile_from(compiler, node.source, scope)
    items = _items(compiler, node, scope)
    columns = tuple(OutputColumn(name, typed.known, typed.nullable) for name, typed in items)
    _check_assignments(node)
    select_list = ", ".join(f"{typed.sql} AS c{i}" for i, (_, typed) in enumerate(items))
    sql = f"SELECT {'DISTINCT ' if node.distinct else ''}{select_list}{from_sql}"
    if node.where is not None:
        conjuncts.append(predicate(compiler, node.where, scope).sql)
    if conjuncts:
        sql += " WHERE " + " AND ".join(conjuncts)
    sql += _grouping(compiler, node, scope)
    tail = _select_tail(compiler, node, scope, items=items, outer=outer)
    variables = tuple(item.variable for item in node.items if item.variable is not None)
    return CompiledQuery(sql + tail, columns, not tail, variables)


def _select_tail(
    compiler: Compiler,
    node: tree.Select,
    scope: Scope,
    *,
    items: list[tuple[str, Typed]],
    outer: tree.Query | None,
) -> str:
    """ORDER BY, TOP, OFFSET."""
    tail = ""
    if outer is not None and outer.order:
        outputs = [(OutputColumn(name, typed.known), (name, typed)) for name, typed in items]
        if node.distinct:
            outputs = [
                (o, (n, replace(t, sql=f"c{i}", column=False))) for i, (o, (n, t)) in enumerate(outputs)
            ]
        tail += " ORDER BY " + ", ".join(_order_term(compiler, item, scope, outputs) for item in outer.order)
    if node.top is not None:
        tail += f" LIMIT {_count(compiler, node.top, scope)}"
    elif outer is not None:
        tail += _limit(compiler, outer, scope.parent)
    return tail


def _check_assignments(node: tree.Select) -> None:
    assigned = [item.variable is not None for item in node.items]
    if any(assigned) and not all(assigned):
        raise SqlError(
            141,
            "A SELECT statement that assigns a value to a variable must not be combined with "
            "data-retrieval operations.",
            15,
        )


def _items(compiler: Compiler, node: tree.Select, scope: Scope) -> list[tuple[str, Typed]]:
    items: list[tuple[str, Typed]] = []
    for item in node.items:
        if isinstance(item.expression, tree.Star):
            items.extend(compiler.stars(item.expression.qualifier, scope))
            continue
        typed = value(compiler, item.expression, scope)
        items.append((item.alias or _implied_name(item.expression), typed))
    if node.distinct:
        items = [
            (n, replace(t, sql=compiler.collate(t.sql, t.type)) if not t.column else t) for n, t in items
        ]
    return items


def _implied_name(expression: tree.Expression) -> str:
    return expression.parts[-1] if isinstance(expression, tree.ColumnName) else ""


def _grouping(compiler: Compiler, node: tree.Select, scope: Scope) -> str:
    sql = ""
    if node.group:
        keys = [value(compiler, g, scope) for g in node.group]
        sql += " GROUP BY " + ", ".join(compiler.ordered(k) for k in keys)
    if node.having is not None:
        sql += " HAVING " + predicate(compiler, node.having, scope).sql
    return sql


def _union(compiler: Compiler, node: tree.Union, parent: Scope | None) -> CompiledQuery:
    left, right = _body(compiler, node.left, parent), _body(compiler, node.right, parent)
    if len(left.columns) != len(right.columns):
        raise SqlError(
            205,
            "All queries combined using a UNION, INTERSECT or EXCEPT operator "
            "must have an equal "
            "number of expressions in their target lists.",
        )
    columns = tuple(
        OutputColumn(a.name, _common(compiler, a, b), a.nullable or b.nullable)
        for a, b in zip(left.columns, right.columns, strict=True)
    )
    compound = isinstance(node.right, tree.Union)
    sql = f"{_term(compiler, left, columns, compound=False)} {node.operator} "
    return CompiledQuery(sql + _term(compiler, right, columns, compound=compound), columns)


def _common(compiler: Compiler, left: OutputColumn, right: OutputColumn) -> SqlType:
    common = types.common(left.type, right.type)
    if types.is_text(common) and common.collation is None:
        return replace(common, collation=compiler.catalog.collation)
    return common


def _term(
    compiler: Compiler, inner: CompiledQuery, columns: tuple[OutputColumn, ...], *, compound: bool
) -> str:
    """One branch of a compound, brought to the common types."""
    cast = [
        compiler.cast(Typed(f"c{i}", own.type), target.type).sql
        for i, (own, target) in enumerate(zip(inner.columns, columns, strict=True))
    ]
    if all(sql == f"c{i}" for i, sql in enumerate(cast)):
        return inner.sql if inner.simple and not compound else f"SELECT * FROM ({inner.sql})"
    shown = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(cast))
    return f"SELECT {shown} FROM ({inner.sql})"


def _values(compiler: Compiler, node: tree.Values, parent: Scope | None) -> CompiledQuery:
    from airflow_provider_mssql_cdc.embedded.engine.compile.expressions import unify

    rows = [[value(compiler, e, parent) for e in row] for row in node.rows]
    unified = [unify(compiler, list(column)) for column in zip(*rows, strict=True)]
    columns = tuple(
        OutputColumn(f"column{i}", next((v.type for v in c if v.type), types.INT))
        for i, c in enumerate(unified)
    )
    terms = [
        "SELECT " + ", ".join(f"{v.sql} AS c{i}" for i, v in enumerate(row))
        for row in zip(*unified, strict=True)
    ]
    return CompiledQuery(" UNION ALL ".join(terms), columns)
