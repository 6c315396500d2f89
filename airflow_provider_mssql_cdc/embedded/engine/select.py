"""Queries to SQLite SQL with result columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine import sources, tree, types
from airflow_provider_mssql_cdc.embedded.engine.expressions import predicate, value
from airflow_provider_mssql_cdc.embedded.engine.typed import OutputColumn, Scope, Typed
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler


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
    from airflow_provider_mssql_cdc.embedded.engine.expressions import unify

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
