"""FROM: tables, views of the catalog, derived tables, joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile import expressions, select
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Relation, Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse_expression
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import literal, quote
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Column, Table
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.compile.select import CompiledQuery
    from airflow_provider_mssql_cdc.embedded.engine.run.registry import View
    from airflow_provider_mssql_cdc.embedded.engine.run.storage import Link


_JOINS = {
    "INNER": "JOIN",
    "LEFT": "LEFT JOIN",
    "CROSS": "CROSS JOIN",
}


def compile_from(compiler: Compiler, source: tree.Source | None, scope: Scope) -> tuple[str, list[str]]:
    """The FROM text, and conjuncts that belong first into WHERE (the tallies of counted reads)."""
    if source is None:
        return "", []
    sql, conjuncts = _source(compiler, source, scope)
    return f" FROM {sql}", conjuncts


def _source(compiler: Compiler, source: tree.Source, scope: Scope) -> tuple[str, list[str]]:
    match source:
        case tree.TableSource():
            return _named(compiler, source, scope)
        case tree.DerivedSource():
            return _derived(compiler, source, scope)
        case tree.Join():
            return _join(compiler, source, scope)
    raise AssertionError(source)


def _join(compiler: Compiler, source: tree.Join, scope: Scope) -> tuple[str, list[str]]:
    left, conjuncts = _source(compiler, source.left, scope)
    right, more = _source(compiler, source.right, scope)
    right = f"({right})" if isinstance(source.right, tree.Join) else right
    if source.kind == "CROSS":
        return f"{left} CROSS JOIN {right}", conjuncts + more
    if source.kind != "INNER":
        _become_nullable(scope)
    assert source.condition is not None
    condition = expressions.predicate(compiler, source.condition, scope).sql
    if source.kind == "INNER":
        return f"{left} JOIN {right} ON {condition}", conjuncts + more
    return f"{left} {_JOINS[source.kind]} {right} ON {' AND '.join([*more, condition])}", conjuncts


def _become_nullable(scope: Scope) -> None:
    for relation in scope.relations:
        relation.columns = [(n, replace(t, nullable=True)) for n, t in relation.columns]


def derived(alias: str, name: str | None, inner: CompiledQuery, columns: tuple[str, ...] = ()) -> Relation:
    """A query as a relation. Error 8155 for a column without a name is left to the caller."""
    shown = [(columns[i] if columns else c.name, Typed(f"{alias}.c{i}", c.type, c.nullable))
             for i, c in enumerate(inner.columns)]  # fmt: skip
    return Relation(name, (), shown)


def _derived(compiler: Compiler, source: tree.DerivedSource, scope: Scope) -> tuple[str, list[str]]:
    alias = compiler.alias()
    inner = select.query(compiler, source.query, scope.parent)
    scope.relations.append(derived(alias, source.alias, inner, source.columns))
    return f"({inner.sql}) AS {alias}", []


def _named(compiler: Compiler, source: tree.TableSource, scope: Scope) -> tuple[str, list[str]]:
    view = compiler.registry.view(source.name)
    if view is not None:
        return _view(compiler, view[0], view[1], source=source, scope=scope)
    fold = compiler.catalog.fold
    if len(source.name) > 2 and source.name[-3] and fold(source.name[-3]) != fold(compiler.catalog.name):
        raise SqlError(
            40515, f"Reference to database '{source.name[-3]}' is not supported by the embedded server."
        )
    return _table(compiler, compiler.catalog.require(source.name), source, scope)


def _table(compiler: Compiler, table: Table, source: tree.TableSource, scope: Scope) -> tuple[str, list[str]]:
    alias = compiler.alias()
    relation = Relation(source.alias, (table.schema, table.name), [], table)
    relation.columns = table_columns(compiler, table, alias)
    scope.relations.append(relation)
    compiler.needs.reads_data = True
    compiler.needs.columns.setdefault(table.object_id, set())
    conjuncts = [_tally(compiler, table, alias)] if compiler.counting else []
    return f"{quote(table.storage)} AS {alias}", conjuncts


def table_columns(compiler: Compiler, table: Table, alias: str) -> list[tuple[str, Typed]]:
    """A table's columns in SQL; a computed column is its expression."""
    plain = [(c.name, column_sql(c, alias)) for c in table.stored_columns]
    if len(plain) == len(table.columns):
        return plain
    return [
        (c.name, _computed(compiler, c, plain) if c.computed else column_sql(c, alias)) for c in table.columns
    ]


def column_sql(column: Column, alias: str) -> Typed:
    sql = f"{alias}.{quote(column.storage)}" if alias else quote(column.storage)
    return Typed(sql, column.type, column.nullable, column=True)


def _computed(compiler: Compiler, column: Column, plain: list[tuple[str, Typed]]) -> Typed:
    scope = Scope([Relation(None, (), plain)])
    typed = expressions.value(compiler, parse_expression(column.computed or ""), scope)
    return compiler.cast(typed, column.type)


def _tally(compiler: Compiler, table: Table, alias: str) -> str:
    """Counts every row or index entry that is visited: an argument that all indexes carry, never constant."""
    if table.clustered:
        first = next(i for i in table.indexes if i.clustered)
        stored = next(c.storage for c in table.columns if c.name == first.columns[0][0])
    else:
        stored = "rowid"
    shown = f"{alias}.{quote(stored)}" if stored != "rowid" else f"{alias}.rowid"
    return compiler.function(
        "tally", _count_read, literal(table.full_name), shown, deterministic=False, bound=True
    )


def _count_read(link: Link, table: str, _: object) -> int:
    link.reads[table] = link.reads.get(table, 0) + 1
    return 1


def _view(
    compiler: Compiler, key: tuple[str, str], view: View, *, source: tree.TableSource, scope: Scope
) -> tuple[str, list[str]]:
    alias = compiler.alias()
    name = compiler.catalog.collation
    columns = []
    for column, type_ in view.columns:
        known = types.nvarchar(types.characters(type_) or -1, name) if types.is_text(type_) else type_
        columns.append((column, Typed(f"{alias}.{quote(column)}", known)))
    scope.relations.append(Relation(source.alias, key, columns))
    compiler.needs.views.add(key)
    return f"temp.{quote('.'.join(key))} AS {alias}", []
