"""INSERT, UPDATE and DELETE to SQLite SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile import select, sources
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiled, Relation, Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.compile.expressions import predicate, value
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse_expression
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Column, Table
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.run.storage import Link


def target_columns(compiler: Compiler, table: Table, names: tuple[str, ...]) -> list[Column]:
    """The columns that an INSERT gives values for. Errors 207, 264, 271, 273, 544."""
    if names:
        columns = [compiler.catalog.require_column(table, n) for n in names]
        if len({c.name for c in columns}) < len(columns):
            raise SqlError(
                264, "The column name is specified more than once in the SET clause or column list."
            )
    else:
        columns = [
            c
            for c in table.stored_columns
            if c.type.name != "timestamp" and not c.column_set and c.identity is None
        ]
    for column in columns:
        if column.computed is not None:
            raise SqlError(
                271, f'The column "{column.name}" cannot be modified because it is a computed column.'
            )
        if column.type.name == "timestamp":
            raise SqlError(273, "Cannot insert an explicit value into a timestamp column.")
        if column.identity is not None:
            text = f"Cannot insert explicit value for identity column in table '{table.name}'"
            raise SqlError(544, f"{text} when IDENTITY_INSERT is set to OFF.")
    return columns


def generated(compiler: Compiler, table: Table, given: list[Column]) -> list[tuple[Column, str]]:
    """Values for the columns that the statement does not name: identity, rowversion, defaults."""
    named = {c.name for c in given}
    values = []
    for column in table.stored_columns:
        if column.name in named:
            continue
        if column.type.name == "timestamp":
            values.append((column, rowversion(compiler)))
        elif column.identity is not None:
            key = ("identity", table.object_id, column.identity)
            call = _identity(table.object_id, column.identity)
            values.append((column, compiler.function(key, call, deterministic=False, bound=True)))
        elif column.default is not None:
            values.append((column, default(compiler, column)))
    return values


def default(compiler: Compiler, column: Column) -> str:
    if column.default is None:
        return "NULL"
    typed = value(compiler, parse_expression(column.default), None)
    return compiler.cast(typed, column.type, assign=True).sql


def rowversion(compiler: Compiler) -> str:
    return compiler.function("rowversion", _next_rowversion, deterministic=False, bound=True)


def _next_rowversion(link: Link) -> bytes:
    assert link.session is not None
    return link.session.database_file.next_rowversion()


def _identity(object_id: int, definition: tuple[int, int]) -> Callable[[Link], int]:
    seed, step = definition

    def following(link: Link) -> int:
        assert link.session is not None
        identities = link.session.database_file.identities
        number = identities[object_id] + step if object_id in identities else seed
        identities[object_id] = number
        return number

    return following


def assigned(compiler: Compiler, typed: Typed, column: Column) -> str:
    """A value brought to a column's type. Error 206 for types that do not meet implicitly."""
    if typed.type is not None:
        _check_implicit(typed.type, column.type)
    return compiler.cast(typed, column.type, assign=True).sql


def _check_implicit(source: SqlType, target: SqlType) -> None:
    pair = types.family(source), types.family(target)
    clash = pair in (("integer", "guid"), ("guid", "integer"), ("moment", "integer"), ("string", "binary"))
    if clash and source.name not in ("datetime", "smalldatetime"):
        number = 257 if pair[0] in ("moment", "string") else 206
        raise SqlError(
            number,
            f"Implicit conversion from data type {source.name} to {target.name} is not allowed. Use "
            "the CONVERT function to run this query.",
        )


def insert(compiler: Compiler, node: tree.Insert) -> tuple[Compiled, Table]:
    """INSERT … VALUES and INSERT … SELECT."""
    table = compiler.catalog.require(node.table)
    columns = target_columns(compiler, table, node.columns)
    more = generated(compiler, table, columns)
    names = ", ".join(quote(c.storage) for c in [*columns, *(c for c, _ in more)])
    tail = [sql for _, sql in more]
    head = f"INSERT INTO {quote(table.storage)} ({names}) "
    if isinstance(node.source.body, tree.Values) and not node.source.order:
        rows = [_row(compiler, row, columns, tail=tail) for row in node.source.body.rows]
        return Compiled(f"{head}VALUES {', '.join(rows)}", compiler.needs), table
    inner = select.query(compiler, node.source)
    _check_count(len(inner.columns), len(columns))
    shown = [
        assigned(compiler, Typed(f"c{i}", o.type, o.nullable), c)
        for i, (o, c) in enumerate(zip(inner.columns, columns, strict=True))
    ]
    return Compiled(f"{head}SELECT {', '.join([*shown, *tail])} FROM ({inner.sql})", compiler.needs), table


def _row(
    compiler: Compiler, row: tuple[tree.Expression, ...], columns: list[Column], *, tail: list[str]
) -> str:
    _check_count(len(row), len(columns))
    values = [
        assigned(compiler, value(compiler, item, None), column)
        for item, column in zip(row, columns, strict=True)
    ]
    return f"({', '.join([*values, *tail])})"


def _check_count(given: int, wanted: int) -> None:
    if given < wanted:
        raise SqlError(
            109,
            "There are more columns in the INSERT statement than values specified in the VALUES clause.",
            15,
        )
    if given > wanted:
        raise SqlError(213, "Column name or number of supplied values does not match table definition.")


def keys(table: Table) -> list[str]:
    """The SQLite columns that identify a row."""
    if not table.clustered:
        return ["rowid"]
    clustered = next(i for i in table.indexes if i.clustered)
    stored = {c.name: c.storage for c in table.columns}
    return [quote(stored[name]) for name, _ in clustered.columns]


def _single(compiler: Compiler, table: Table, alias: str, target: tree.Name) -> Scope:
    relation = Relation(None, (table.schema, table.name), [], table)
    relation.columns = sources.table_columns(compiler, table, alias)
    return Scope([relation])


def update(compiler: Compiler, node: tree.Update) -> tuple[Compiled, Table]:
    """UPDATE of one table."""
    table = compiler.catalog.require(node.target)
    columns = [compiler.catalog.require_column(table, name) for name, _ in node.assignments]
    for column in columns:
        if column.computed is not None or column.identity is not None or column.type.name == "timestamp":
            number = 271 if column.computed else 8102 if column.identity else 272
            raise SqlError(number, f"Cannot update column '{column.name}'.")
    stamps = [
        f"{quote(c.storage)} = {rowversion(compiler)}" for c in table.columns if c.type.name == "timestamp"
    ]
    alias = compiler.alias()
    scope = _single(compiler, table, alias, node.target)
    pairs = [
        f"{quote(c.storage)} = {_new_value(compiler, e, scope, column=c)}"
        for c, (_, e) in zip(columns, node.assignments, strict=True)
    ]
    where = "" if node.where is None else " WHERE " + predicate(compiler, node.where, scope).sql
    sql = f"UPDATE {quote(table.storage)} AS {alias} SET {', '.join([*pairs, *stamps])}{where}"
    return Compiled(sql, compiler.needs), table


def _new_value(compiler: Compiler, node: tree.Expression, scope: Scope, *, column: Column) -> str:
    return assigned(compiler, value(compiler, node, scope), column)


def _changed(compiler: Compiler, node: tree.Update, table: Table, scope: Scope) -> tuple[str, str, list[str]]:
    """FROM and WHERE text of the query that finds the rows, and the table's keys in it."""
    from_sql, _ = sources.compile_from(compiler, tree.TableSource(node.target, None), scope)
    alias = scope.relations[0].columns[0][1].sql.partition(".")[0]
    where = "" if node.where is None else " WHERE " + predicate(compiler, node.where, scope).sql
    return from_sql, where, [f"{alias}.{key}" for key in keys(table)]


def delete(compiler: Compiler, node: tree.Delete) -> tuple[Compiled, Table]:
    """DELETE from one table."""
    table = compiler.catalog.require(node.target)
    alias = compiler.alias()
    scope = _single(compiler, table, alias, node.target)
    where = "" if node.where is None else " WHERE " + predicate(compiler, node.where, scope).sql
    return Compiled(f"DELETE FROM {quote(table.storage)} AS {alias}{where}", compiler.needs), table
