"""Queries to SQLite SQL with result columns; aggregates and window functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile import expressions, functions, operators, sources
from airflow_provider_mssql_cdc.embedded.engine.compile.context import OutputColumn, Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler


_RANKING = frozenset({"row_number", "dense_rank", "ntile"})
NAMES = frozenset({"count", "count_big", "min", "max", "sum"}) | _RANKING


def call(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    """An aggregate, or a window function with its OVER."""
    over = "" if node.over is None else f" OVER ({_window(compiler, node.over, scope)})"
    name = node.name[-1].lower()
    if name in ("count", "count_big"):
        return _count_aggregate(compiler, node, scope, over=over)
    if name in _RANKING:
        values = functions.arguments(compiler, node, scope, least=1 if name == "ntile" else 0)
        return Typed(f"{name}({', '.join(v.sql for v in values)}){over}", types.BIGINT, False)
    if name not in NAMES:
        raise SqlError(195, f"'{name}' is not a window function that the embedded server knows.", 15)
    (operand,) = functions.arguments(compiler, node, scope, least=1)
    if operand.type is not None and operand.type.name == "bit":
        raise SqlError(8117, f"Operand data type bit is invalid for {name} operator.")
    distinct = "DISTINCT " if node.distinct else ""
    if name in ("min", "max"):
        return Typed(f"{name}({compiler.ordered(operand)}){over}", operand.type)
    if types.family(operand.known) != "integer":
        raise SqlError(8117, f"Operand data type {operand.known.name} is invalid for {name} operator.")
    type_ = types.BIGINT if operand.known.name == "bigint" else types.INT
    total = f"sum({distinct}{operand.sql}){over}"
    return Typed(compiler.function(("in range", type_), operators.in_range(type_), total), type_)


def _window(compiler: Compiler, over: tree.Over, scope: Scope | None) -> str:
    terms = []
    for item in over.order:
        key = expressions.value(compiler, item.expression, scope)
        terms.append(compiler.ordered(key) + (" DESC" if item.descending else ""))
    return "ORDER BY " + ", ".join(terms) if terms else ""


def _count_aggregate(compiler: Compiler, node: tree.Call, scope: Scope | None, *, over: str) -> Typed:
    type_ = types.BIGINT if node.name[-1].lower() == "count_big" else types.INT
    if len(node.arguments) == 1 and isinstance(node.arguments[0], tree.Star):
        return Typed(f"count(*){over}", type_, False)
    (operand,) = functions.arguments(compiler, node, scope, least=1)
    shown = compiler.ordered(operand) if node.distinct else operand.sql
    return Typed(f"count({'DISTINCT ' if node.distinct else ''}{shown}){over}", type_, False)


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """``sql`` names its columns c0, c1, …; ``simple``: it may stand in a compound as it is."""

    sql: str
    columns: tuple[OutputColumn, ...]
    simple: bool = True


def query(compiler: Compiler, node: tree.Query, parent: Scope | None = None) -> CompiledQuery:
    """A whole query with its ORDER BY. Error 102 for the ORDER BY of a UNION."""
    if isinstance(node.body, tree.Select):
        return _select(compiler, node.body, parent, order=node.order)
    if node.order:
        raise SqlError(102, "ORDER BY of a set operation is not known to the embedded server.", 15)
    return _body(compiler, node.body, parent)


def _body(
    compiler: Compiler, body: tree.Select | tree.Union | tree.Values, parent: Scope | None
) -> CompiledQuery:
    match body:
        case tree.Union():
            return _union(compiler, body, parent)
        case tree.Values():
            return _values(compiler, body, parent)
    return _select(compiler, body, parent, order=())


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
        typed = _output(compiler, expression, outputs) or expressions.value(compiler, expression, scope)
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


def _select(
    compiler: Compiler, node: tree.Select, parent: Scope | None, *, order: tuple[tree.OrderItem, ...]
) -> CompiledQuery:
    scope = Scope([], parent)
    from_sql, conjuncts = sources.compile_from(compiler, node.source, scope)
    items = _items(compiler, node, scope)
    columns = tuple(OutputColumn(name, typed.known, typed.nullable) for name, typed in items)
    select_list = ", ".join(f"{typed.sql} AS c{i}" for i, (_, typed) in enumerate(items))
    sql = f"SELECT {'DISTINCT ' if node.distinct else ''}{select_list}{from_sql}"
    if node.where is not None:
        conjuncts.append(expressions.predicate(compiler, node.where, scope).sql)
    if conjuncts:
        sql += " WHERE " + " AND ".join(conjuncts)
    sql += _grouping(compiler, node, scope)
    tail = _select_tail(compiler, node, scope, items=items, order=order)
    return CompiledQuery(sql + tail, columns, not tail)


def _select_tail(
    compiler: Compiler,
    node: tree.Select,
    scope: Scope,
    *,
    items: list[tuple[str, Typed]],
    order: tuple[tree.OrderItem, ...],
) -> str:
    """ORDER BY, TOP. Error 1060 for a TOP that is not a number."""
    tail = ""
    if order:
        outputs = [(OutputColumn(name, typed.known), (name, typed)) for name, typed in items]
        if node.distinct:
            outputs = [
                (o, (n, replace(t, sql=f"c{i}", column=False))) for i, (o, (n, t)) in enumerate(outputs)
            ]
        tail += " ORDER BY " + ", ".join(_order_term(compiler, item, scope, outputs) for item in order)
    if node.top is not None:
        top = expressions.value(compiler, node.top, scope)
        if top.digits is None:
            raise SqlError(1060, "The embedded server knows TOP with a number only.")
        tail += f" LIMIT {top.sql}"
    return tail


def _items(compiler: Compiler, node: tree.Select, scope: Scope) -> list[tuple[str, Typed]]:
    items: list[tuple[str, Typed]] = []
    for item in node.items:
        if isinstance(item.expression, tree.Star):
            items.extend(compiler.stars(item.expression.qualifier, scope))
            continue
        typed = expressions.value(compiler, item.expression, scope)
        items.append((item.alias or _implied_name(item.expression), typed))
    if node.distinct:
        items = [
            (n, replace(t, sql=compiler.collate(t.sql, t.type)) if not t.column else t) for n, t in items
        ]
    return items


def _implied_name(expression: tree.Expression) -> str:
    return expression.parts[-1] if isinstance(expression, tree.ColumnName) else ""


def _grouping(compiler: Compiler, node: tree.Select, scope: Scope) -> str:
    keys = [expressions.value(compiler, g, scope) for g in node.group]
    return " GROUP BY " + ", ".join(compiler.ordered(k) for k in keys) if keys else ""


def _union(compiler: Compiler, node: tree.Union, parent: Scope | None) -> CompiledQuery:
    left, right = _body(compiler, node.left, parent), _body(compiler, node.right, parent)
    if len(left.columns) != len(right.columns):
        raise SqlError(
            205,
            "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal "
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
    rows = [[expressions.value(compiler, e, parent) for e in row] for row in node.rows]
    unified = [expressions.unify(compiler, list(column)) for column in zip(*rows, strict=True)]
    columns = tuple(
        OutputColumn(f"column{i}", next((v.type for v in c if v.type), types.INT))
        for i, c in enumerate(unified)
    )
    terms = [
        "SELECT " + ", ".join(f"{v.sql} AS c{i}" for i, v in enumerate(row))
        for row in zip(*unified, strict=True)
    ]
    return CompiledQuery(" UNION ALL ".join(terms), columns)
