"""Calls in expressions: dispatch, and the built-in functions on text and plain values."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.compile import (
    clock_functions,
    expressions,
    operators,
    select,
    server_functions,
)
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.engine.values.stored import (
    guid_from_wire,
)
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.parser import tree


Handler = "Callable[[Compiler, tree.Call, Scope | None], Typed]"


def call(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    """A function call. Error 195 for a name that is not known."""
    name = node.name[-1].lower()
    if node.over is not None or name in select.NAMES:
        return select.call(compiler, node, scope)
    if len(node.name) == 1:
        for handlers in (HANDLERS, clock_functions.HANDLERS, server_functions.HANDLERS):
            handler = handlers.get(name)
            if handler is not None:
                return handler(compiler, node, scope)
    registered = compiler.registry.scalar(node.name)
    if registered is not None:
        return server_functions.registered(compiler, registered, node, scope)
    if len(node.name) > 1:
        raise SqlError(
            4121,
            f'Cannot find either column "{node.name[0]}" or the user-defined function or aggregate '
            f'"{".".join(node.name)}", or the name is ambiguous.',
        )
    raise SqlError(195, f"'{node.name[-1]}' is not a recognized built-in function name.", 15)


def global_variable(compiler: Compiler, name: str) -> Typed | None:
    """``@@SPID`` and its like."""
    return server_functions.global_variable(compiler, name)


def arguments(
    compiler: Compiler, node: tree.Call, scope: Scope | None, *, least: int, most: int | None = None
) -> list[Typed]:
    """The call's arguments. Error 174."""
    if not least <= len(node.arguments) <= (least if most is None else most):
        raise SqlError(174, f"The {node.name[-1].lower()} function requires {least} argument(s).", 15)
    return [expressions.value(compiler, a, scope) for a in node.arguments]


def python(
    compiler: Compiler, key: Any, function: Callable[..., Any], values: list[Typed], *, returns: SqlType
) -> Typed:
    """A call of a Python function that is NULL when an argument is."""

    def strict(*stored: Any) -> Any:
        return None if any(v is None for v in stored) else function(*stored)

    sql = compiler.function(key, strict, *(v.sql for v in values))
    explicit = any(v.explicit for v in values)
    return Typed(sql, returns, True, all(v.constant for v in values), explicit=explicit)


def _text(compiler: Compiler, value: Typed) -> Typed:
    return value if types.is_text(value.known) else compiler.cast(value, types.nvarchar())


def _text_function(name: str, function: Callable[[str], str]) -> Callable[..., Typed]:
    def handler(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
        (operand,) = arguments(compiler, node, scope, least=1)
        text = _text(compiler, operand)
        variable = {"char": "varchar", "nchar": "nvarchar"}.get(text.known.name, text.known.name)
        return python(compiler, name, function, [text], returns=replace(text.known, name=variable))

    return handler


def _len(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    (operand,) = arguments(compiler, node, scope, least=1)
    if types.family(operand.known) == "binary":
        return python(compiler, "len binary", len, [operand], returns=types.INT)
    text = _text(compiler, operand)
    return python(compiler, "len", lambda t: halves.units(t.rstrip(" ")), [text], returns=types.INT)


def _datalength(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    (operand,) = arguments(compiler, node, scope, least=1)
    known, family = operand.known, types.family(operand.known)
    returns = types.BIGINT if known.length == -1 else types.INT
    if family == "string":
        if known.name in types.NATIONAL:
            key = ("datalength", "utf-16")
            return python(compiler, key, lambda t: 2 * halves.units(t), [operand], returns=returns)
        codec = collation(known.collation or DEFAULT).codec
        key = ("datalength", codec)
        return python(compiler, key, lambda t: len(t.encode(codec, "replace")), [operand], returns=returns)
    if family == "binary":
        return python(compiler, "datalength", len, [operand], returns=returns)
    size = types.max_length(known)
    return Typed(f"(CASE WHEN {operand.sql} IS NULL THEN NULL ELSE {size} END)", types.INT, operand.nullable)


def _substring(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    operand, start, length = arguments(compiler, node, scope, least=3)
    if types.family(operand.known) != "binary":
        operand = _text(compiler, operand)
    variable = {"char": "varchar", "nchar": "nvarchar", "binary": "varbinary"}
    returns = replace(operand.known, name=variable.get(operand.known.name, operand.known.name))
    return python(compiler, "substring", _cut, [operand, start, length], returns=returns)


def _cut(value: Any, start: int, length: int) -> Any:
    if length < 0:
        raise SqlError(537, "Invalid length parameter passed to the LEFT or SUBSTRING function.")
    first, end = max(start - 1, 0), max(start - 1 + length, 0)
    return halves.cut(value, first, end) if isinstance(value, str) else value[first:end]


def _left_right(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    operand, length = arguments(compiler, node, scope, least=2)
    text = _text(compiler, operand)
    if node.name[-1].lower() == "left":
        return python(compiler, "left", lambda t, n: _cut(t, 1, n), [text, length], returns=text.known)
    return python(compiler, "right", _right, [text, length], returns=text.known)


def _right(text: str, length: int) -> str:
    return halves.cut(text, max(halves.units(text) - length, 0), None)


def _replace(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    values = [_text(compiler, v) for v in arguments(compiler, node, scope, least=3)]
    name = values[0].known.collation or compiler.catalog.collation
    flags = 0 if collation(name).case_sensitive else re.IGNORECASE
    returns = replace(values[0].known, length=8000 if values[0].known.length != -1 else -1)

    def substitute(text: str, old: str, new: str) -> str:
        return re.sub(re.escape(old), lambda _: new, text, flags=flags) if old else text

    return python(compiler, ("replace", flags), substitute, values, returns=returns)


def _concat(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    values = arguments(compiler, node, scope, least=2, most=254)
    national = any(v.known.name in types.NATIONAL for v in values)
    text = [v if types.is_text(v.known) and v.type else compiler.cast(v, types.varchar()) for v in values]
    sql = " || ".join(f"ifnull({v.sql}, '')" for v in text)
    name = compiler.catalog.collation
    return Typed(f"({sql})", types.nvarchar(4000, name) if national else types.varchar(8000, name), False)


def _coalesce(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    values = expressions.unify(compiler, arguments(compiler, node, scope, least=2, most=254))
    sql = f"coalesce({', '.join(v.sql for v in values)})"
    return Typed(sql, values[0].type, all(v.nullable for v in values), all(v.constant for v in values))


def _isnull(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    first, second = arguments(compiler, node, scope, least=2)
    if first.type is None:
        return second
    other = compiler.cast(second, first.type)
    sql = f"ifnull({first.sql}, {other.sql})"
    return Typed(sql, first.type, first.nullable and other.nullable, first.constant and other.constant)


def _nullif(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    first, second = arguments(compiler, node, scope, least=2)
    test = operators.compare(compiler, "=", first, second)
    return Typed(f"(CASE WHEN {test.sql} THEN NULL ELSE {first.sql} END)", first.type)


def _newid(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    arguments(compiler, node, scope, least=0)
    sql = compiler.function("newid", lambda: guid_from_wire(uuid.uuid4().bytes_le), deterministic=False)
    return Typed(sql, SqlType("uniqueidentifier"), False)


def _replicate(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    text, count = arguments(compiler, node, scope, least=2)
    limit = 4000 if text.known.name in types.NATIONAL else 8000
    unlimited = text.known.length == -1

    def repeat(value: str, times: int) -> str | None:
        return None if times < 0 else value * times if unlimited else (value * times)[:limit]

    returns = replace(text.known, length=text.known.length if unlimited else 8000)
    return python(compiler, ("replicate", limit, unlimited), repeat, [text, count], returns=returns)


def _char(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    values = [compiler.cast(v, types.INT) for v in arguments(compiler, node, scope, least=1)]
    name = compiler.catalog.collation
    if node.name[-1].lower() == "nchar":
        returns = types.nvarchar(1, name)
        return python(compiler, "nchar", lambda v: halves.kept(chr(v)), values, returns=returns)
    decode, returns = collation(name).decode, types.varchar(1, name)
    return python(compiler, ("char", name), lambda v: decode(bytes([v])), values, returns=returns)


HANDLERS: dict[str, Callable[..., Typed]] = {
    "char": _char,
    "coalesce": _coalesce,
    "concat": _concat,
    "datalength": _datalength,
    "isnull": _isnull,
    "left": _left_right,
    "len": _len,
    "lower": _text_function("lower", str.lower),
    "nchar": _char,
    "newid": _newid,
    "nullif": _nullif,
    "replace": _replace,
    "replicate": _replicate,
    "right": _left_right,
    "substring": _substring,
    "upper": _text_function("upper", str.upper),
}
