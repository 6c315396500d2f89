"""Expressions to typed SQLite SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.compile import clock_functions, functions, operators, select
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import literal, syntax_error
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import collation
from airflow_provider_mssql_cdc.embedded.engine.values.stored import WIDE_BIAS
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler


_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def expression(compiler: Compiler, node: tree.Expression, scope: Scope | None) -> Typed:
    """Any expression; predicates come back with ``boolean`` set."""
    match node:
        case tree.Literal():
            return constant(compiler, node)
        case tree.Variable() | tree.ColumnName():
            return _named(compiler, node, scope)
        case tree.Unary():
            return _unary(compiler, node, scope)
        case tree.Binary():
            return _binary(compiler, node, scope)
        case tree.Cast():
            return _cast(compiler, node, scope)
        case tree.Collate():
            return _collate(compiler, node, scope)
        case tree.Call():
            return functions.call(compiler, node, scope)
        case tree.Case():
            return _case(compiler, node, scope)
        case tree.AtTimeZone():
            return _at_time_zone(compiler, node, scope)
    return _predicate(compiler, node, scope)


def _named(compiler: Compiler, node: tree.Variable | tree.ColumnName, scope: Scope | None) -> Typed:
    if isinstance(node, tree.ColumnName):
        return compiler.resolve(node.parts, scope)
    return functions.global_variable(compiler, node.name) or compiler.variable(node.name)


def _predicate(compiler: Compiler, node: tree.Expression, scope: Scope | None) -> Typed:
    match node:
        case tree.IsNull():
            operand = value(compiler, node.operand, scope)
            return _boolean(f"({operand.sql} IS {'NOT ' if node.negated else ''}NULL)", operand.constant)
        case tree.InList():
            return _in(compiler, node, scope)
        case tree.Exists():
            inner = select.query(compiler, node.query, scope)
            return _boolean(f"EXISTS ({inner.sql})", False)
        case tree.Scalar():
            return _scalar(compiler, node, scope)
    raise syntax_error("*")


def value(compiler: Compiler, node: tree.Expression, scope: Scope | None) -> Typed:
    """An expression that is not a predicate. Error 4145 turned around: a predicate where a value belongs."""
    typed = expression(compiler, node, scope)
    if typed.boolean:
        raise syntax_error("=")
    return typed


def predicate(compiler: Compiler, node: tree.Expression, scope: Scope | None) -> Typed:
    """A condition. Error 4145."""
    typed = expression(compiler, node, scope)
    if not typed.boolean:
        raise SqlError(
            4145, "An expression of non-boolean type specified in a context where a condition is expected."
        )
    return typed


def constant(compiler: Compiler, node: tree.Literal) -> Typed:
    if node.kind == "null":
        return Typed("NULL", None, constant=True)
    if node.kind == "integer":
        return _integer(node.text)
    if node.kind == "decimal":
        whole, _, fraction = node.text.partition(".")
        whole = whole.lstrip("0")
        type_ = types.decimal(max(len(whole) + len(fraction), 1), len(fraction))
        return compiler.cast(Typed(literal(node.text), types.varchar(), False, True), type_)
    if node.kind == "float":
        return Typed(repr(float(node.text)), types.FLOAT, False, True)
    if node.kind == "binary":
        digits = node.text[2:]
        digits = digits if len(digits) % 2 == 0 else "0" + digits
        return Typed(f"X'{digits}'", SqlType("varbinary", max(len(digits) // 2, 1)), False, True)
    return _text(compiler, node)


def _text(compiler: Compiler, node: tree.Literal) -> Typed:
    name = compiler.catalog.collation
    if node.kind == "nvarchar":
        units = halves.units(node.text)
        return Typed(
            literal(node.text), types.nvarchar(max(units, 1) if units <= 4000 else -1, name), False, True
        )
    text = collation(name).narrow(node.text)
    size = len(collation(name).encode(text))
    return Typed(literal(text), types.varchar(max(size, 1) if size <= 8000 else -1, name), False, True)


def _integer(text: str) -> Typed:
    number = int(text)
    digits = len(str(number))
    if number <= 2**31 - 1:
        return Typed(str(number), types.INT, False, True, digits=digits)
    type_ = types.decimal(digits)
    if digits <= 18:
        return Typed(str(number), type_, False, True)
    stored = (number + 2**127).to_bytes(16, "big").hex() if digits <= 38 else None
    if stored is None:
        raise SqlError(1007, f"The number '{text}' is out of the range for numeric representation.", 15)
    return Typed(f"X'{stored}'", type_, False, True)


def _boolean(sql: str, constant_: bool) -> Typed:
    return Typed(sql, types.BIT, True, constant_, boolean=True)


def _unary(compiler: Compiler, node: tree.Unary, scope: Scope | None) -> Typed:
    if node.operator == "NOT":
        inner = predicate(compiler, node.operand, scope)
        return _boolean(f"(NOT {inner.sql})", inner.constant)
    if node.operator == "-" and isinstance(node.operand, tree.Literal) and node.operand.kind == "integer":
        number = _integer(node.operand.text)
        if number.type == types.INT or (number.type and not types.is_wide(number.type)):
            return replace(number, sql=f"(-{number.sql})")
    operand = value(compiler, node.operand, scope)
    if node.operator == "+":
        return operand
    if types.family(operand.known) == "decimal":
        return _negated(compiler, operand)
    zero = Typed("0", types.INT, False, True, digits=1)
    negated = operators.binary(compiler, "-", zero, operand)
    return replace(negated, type=operand.type) if types.family(operand.known) == "integer" else negated


def _negated(compiler: Compiler, operand: Typed) -> Typed:
    """A decimal or money with the other sign; a sign is not a digit, so the type stays what it is."""
    if not types.is_wide(operand.known):
        return replace(operand, sql=f"(-{operand.sql})")
    negate = compiler.function(("negate", "wide"), _negate_wide, operand.sql)
    return replace(operand, sql=negate)


def _negate_wide(stored: bytes | None) -> bytes | None:
    bias = 2 * WIDE_BIAS
    return None if stored is None else (bias - int.from_bytes(stored, "big")).to_bytes(16, "big")


def _binary(compiler: Compiler, node: tree.Binary, scope: Scope | None) -> Typed:
    if node.operator in ("AND", "OR"):
        left, right = predicate(compiler, node.left, scope), predicate(compiler, node.right, scope)
        return _boolean(f"({left.sql} {node.operator} {right.sql})", left.constant and right.constant)
    left, right = value(compiler, node.left, scope), value(compiler, node.right, scope)
    if node.operator in _COMPARISONS:
        return operators.compare(compiler, node.operator, left, right)
    return operators.binary(compiler, node.operator, left, right)


def _cast(compiler: Compiler, node: tree.Cast, scope: Scope | None) -> Typed:
    operand = value(compiler, node.operand, scope)
    target = compiler.type_of(node.type)
    style = None
    if node.style is not None:
        if not isinstance(node.style, tree.Literal) or node.style.kind != "integer":
            raise SqlError(8116, "Argument data type is invalid for argument 3 of convert function.")
        style = int(node.style.text)
    if types.is_text(target) and operand.type is not None and types.is_text(operand.type):
        target = replace(target, collation=operand.type.collation)
    return compiler.cast(operand, target, style=style)


def _collate(compiler: Compiler, node: tree.Collate, scope: Scope | None) -> Typed:
    operand = value(compiler, node.operand, scope)
    name = compiler.catalog.collation if node.collation.lower() == "database_default" else node.collation
    known = collation(name)
    type_ = operand.known if operand.type else types.nvarchar()
    if not types.is_text(type_):
        raise SqlError(447, f"Expression type {type_.name} is invalid for COLLATE clause.")
    target = replace(type_, collation=known.name)
    if type_.name not in types.NATIONAL and operand.type is not None:
        operand = compiler.cast(operand, target)
    return replace(
        operand, type=target, explicit=True, column=operand.column and type_.collation == known.name
    )


def _case(compiler: Compiler, node: tree.Case, scope: Scope | None) -> Typed:
    conditions = []
    for condition, _ in node.whens:
        test = condition if node.operand is None else tree.Binary("=", node.operand, condition)
        conditions.append(predicate(compiler, test, scope).sql)
    branches = [value(compiler, result, scope) for _, result in node.whens]
    default = value(compiler, node.default, scope) if node.default is not None else Typed("NULL", None)
    *results, otherwise = unify(compiler, [*branches, default])
    pairs = " ".join(f"WHEN {c} THEN {r.sql}" for c, r in zip(conditions, results, strict=True))
    nullable = any(r.nullable for r in results) or otherwise.nullable
    return Typed(f"(CASE {pairs} ELSE {otherwise.sql} END)", otherwise.type or results[0].type, nullable)


def unify(compiler: Compiler, values: list[Typed]) -> list[Typed]:
    """All values in the type that precedence gives them."""
    found = [v.type for v in values if v.type is not None]
    if not found:
        return values
    target = found[0]
    for type_ in found[1:]:
        target = types.common(target, type_)
    if types.is_text(target):
        named = next(
            (v.type.collation for v in values if v.column and v.type and types.is_text(v.type)), None
        )
        target = replace(target, collation=named or target.collation or compiler.catalog.collation)
    return [compiler.cast(v, target) for v in values]


def _in(compiler: Compiler, node: tree.InList, scope: Scope | None) -> Typed:
    if isinstance(node.items, tree.Query):
        operand = value(compiler, node.operand, scope)
        inner = select.query(compiler, node.items, scope)
        target = types.common(operand.known, inner.columns[0].type)
        left = compiler.cast(operand, target)
        column = compiler.cast(Typed("c0", inner.columns[0].type), target)
        sql = f"({compiler.collate(left.sql, target)} {'NOT ' if node.negated else ''}IN "
        return _boolean(f"{sql}(SELECT {column.sql} FROM ({inner.sql})))", False)
    tests = [expression(compiler, tree.Binary("=", node.operand, item), scope) for item in node.items]
    joined = " OR ".join(t.sql for t in tests)
    return _boolean(f"({'NOT ' if node.negated else ''}({joined}))", all(t.constant for t in tests))


def _scalar(compiler: Compiler, node: tree.Scalar, scope: Scope | None) -> Typed:
    inner = select.query(compiler, node.query, scope)
    if len(inner.columns) != 1:
        raise SqlError(116, "Only one expression can be specified in the select list of a subquery.")
    return Typed(f"({inner.sql})", inner.columns[0].type)


def _at_time_zone(compiler: Compiler, node: tree.AtTimeZone, scope: Scope | None) -> Typed:
    operand = value(compiler, node.operand, scope)
    zone = value(compiler, node.zone, scope)
    source = operand.known
    scale = 3 if source.name == "datetime" else source.scale or 0
    target = SqlType("datetimeoffset", scale=scale)
    loader = moments.LOADERS[source.name]
    sql = compiler.function(
        ("at time zone", source),
        lambda v, z: (
            None if v is None or z is None else moments.store(clock_functions.at_zone(loader(v), z), target)
        ),
        operand.sql,
        zone.sql,
    )
    return Typed(sql, target, operand.nullable, operand.constant and zone.constant)
