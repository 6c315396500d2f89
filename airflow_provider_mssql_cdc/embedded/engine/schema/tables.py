"""Tables and indexes: catalog entries and their SQLite counterparts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler, Relation, Scope
from airflow_provider_mssql_cdc.embedded.engine.compile.expressions import predicate, value
from airflow_provider_mssql_cdc.embedded.engine.compile.sources import column_sql
from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse_expression
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import (
    Catalog,
    Column,
    Index,
    Table,
    column_storage,
)
from airflow_provider_mssql_cdc.embedded.engine.values import collations, types
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mssql_cdc.embedded.engine.run.registry import Registry
    from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction


_UNKEYABLE = frozenset({"text", "ntext", "image", "xml", "sql_variant", "geography", "geometry"})


def collated(type_: SqlType, collation: str | None, catalog: Catalog) -> SqlType:
    """A column's type with the collation it was given or the database's. Error 448."""
    if not types.is_text(type_) or type_.name == "xml":
        return type_
    named = collation or type_.collation
    return replace(type_, collation=collations.collation(named).name if named else catalog.collation)


def column_of(compiler: Compiler, node: ddl_tree.ColumnDefinition, table: Table | None = None) -> Column:
    """A column as defined; ids and storage come later."""
    if node.computed is not None:
        shown = [] if table is None else [(c.name, column_sql(c, "")) for c in table.stored_columns]
        typed = value(compiler, node.computed, Scope([Relation(None, (), shown)]))
        type_ = collated(typed.known, None, compiler.catalog)
        return Column(node.name, type_, nullable=typed.nullable, computed=node.text)
    assert node.type is not None
    type_ = collated(compiler.type_of(node.type, default_length=1), node.collation, compiler.catalog)
    alias = compiler.catalog.aliases.get(_alias_key(compiler.catalog, node.type.name))
    sysname = node.type.name[-1].lower() == "sysname"
    nullable = node.nullable if node.nullable is not None else not sysname and (alias is None or alias[3])
    if node.column_set:
        type_ = SqlType("xml")
    return Column(
        node.name,
        type_,
        nullable=nullable and node.identity is None and type_.name != "timestamp",
        identity=node.identity,
        default=node.text if node.default is not None else None,
        sparse=node.sparse,
        column_set=node.column_set,
        mask=node.mask,
        encrypted=node.encrypted,
        alias=alias[1] if alias else "sysname" if sysname else None,
    )


def _alias_key(catalog: Catalog, name: tree.Name) -> tuple[str, str]:
    return catalog.fold(name[-2] if len(name) > 1 else "dbo"), catalog.fold(name[-1])


def index_of(table: Table, node: ddl_tree.IndexDefinition, catalog: Catalog) -> Index:
    """An index as defined, with the catalog's spelling of its columns and a name. Errors 1919, 207, 1913."""
    columns = [(catalog.require_column(table, name), descending) for name, descending in node.columns]
    for column, _ in columns:
        if column.type.name in _UNKEYABLE or column.type.length == -1:
            raise SqlError(
                1919,
                f"Column '{column.name}' in table '{table.full_name}' is of a type that is invalid for "
                "use as a key column in an index.",
            )
        if node.primary_key:
            column.nullable = False
    prefix = "PK" if node.primary_key else "UQ"
    name = node.name or f"{prefix}__{table.name[:9]}__{table.object_id:08X}{len(table.indexes):02X}"
    if any(catalog.fold(i.name) == catalog.fold(name) for i in table.indexes):
        raise SqlError(
            1913, f"The operation failed because an index or statistics with name '{name}' already exists."
        )
    taken = any(i.clustered for i in table.indexes)
    clustered = node.clustered if node.clustered is not None else node.primary_key and not taken
    included = tuple(catalog.require_column(table, c).name for c in node.included)
    number = 1 if clustered else max([i.index_id for i in table.indexes] + [1]) + 1
    return Index(
        name,
        tuple((c.name, d) for c, d in columns),
        node.unique,
        node.primary_key,
        node.constraint,
        bool(clustered),
        included,
        node.filter_text or None,
        number,
    )


def _column_text(column: Column) -> str:
    text = quote(column.storage)
    if column.type.name == "datetimeoffset":
        text += f" COLLATE {quote(collations.INSTANT)}"
    elif column.type.collation is not None:
        text += f" COLLATE {quote(collations.sqlite_name(column.type.collation))}"
    return text if column.nullable else text + " NOT NULL"


def table_text(table: Table) -> str:
    """CREATE TABLE for SQLite. A unique clustered key is the table's own B-tree (WITHOUT ROWID)."""
    parts = [_column_text(c) for c in table.stored_columns]
    own = next((i for i in table.indexes if i.clustered and i.storage is None), None)
    if own is not None:
        parts.append(f"PRIMARY KEY ({_key_text(table, own)})")
    tail = " WITHOUT ROWID" if own is not None else ""
    return f"CREATE TABLE {quote(table.storage)} ({', '.join(parts)}){tail}"


def _key_text(table: Table, index: Index) -> str:
    stored = {c.name: c.storage for c in table.columns}
    return ", ".join(
        quote(stored[name]) + (" DESC" if descending else "") for name, descending in index.columns
    )


def index_texts(table: Table, index: Index, where: str) -> list[str]:
    """CREATE INDEX for SQLite. SQL Server's unique indexes hold NULL once, SQLite's any number of times."""
    assert index.storage is not None
    unique = "UNIQUE " if index.unique else ""
    head = f"CREATE {unique}INDEX {quote(index.storage)} ON {quote(table.storage)}"
    texts = [f"{head} ({_key_text(table, index)}){where}"]
    columns = {c.name: c for c in table.columns}
    keys = [columns[name] for name, _ in index.columns]
    if index.unique and any(c.nullable for c in keys):
        shown = ", ".join(f"ifnull({quote(c.storage)}, X'00FF'){_collate_text(c)}" for c in keys)
        texts.append(
            f"CREATE UNIQUE INDEX {quote(index.storage + '#null')} ON {quote(table.storage)} ({shown}){where}"
        )
    return texts


def _collate_text(column: Column) -> str:
    return _column_text(replace(column, nullable=True, storage="")).removeprefix('""')


def settle(table: Table) -> None:
    """Ids and storage names for columns and indexes that have none yet."""
    taken = {c.storage.lower() for c in table.columns if c.storage}
    for column in table.columns:
        if not column.column_id:  # that of a dropped column is not given again
            table.last_column_id = max(table.last_column_id, *(c.column_id for c in table.columns)) + 1
            column.column_id = table.last_column_id
            column.storage = column_storage(column.name, taken, column.column_id)
    own = next((i for i in table.indexes if i.clustered and i.unique and i.filter is None), None)
    columns = {c.name: c for c in table.columns}
    if own is not None and any(columns[name].nullable or columns[name].computed for name, _ in own.columns):
        own = None
    table.clustered = own is not None
    for index in table.indexes:
        for name, _ in index.columns:
            if columns[name].computed is not None:
                raise SqlError(
                    1901,
                    f"Cannot create index '{index.name}': the embedded server keeps no values of the "
                    f"computed column '{name}'.",
                )
        index.storage = None if index is own else f"{table.storage}.{index.name}"


def filter_text(registry: Registry, catalog: Catalog, table: Table, index: Index) -> str:
    """The WHERE of a filtered index; functions in it become part of the catalog."""
    if index.filter is None:
        return ""
    compiler = Compiler(registry, catalog, {})
    relation = Relation(None, (), [(c.name, column_sql(c, "")) for c in table.stored_columns])
    sql = predicate(compiler, parse_expression(index.filter), Scope([relation])).sql
    catalog.functions |= compiler.needs.functions
    return f" WHERE {sql}"


def build(write: WriteTransaction, catalog: Catalog, table: Table) -> None:
    """Make the SQLite table and its indexes."""
    link = write.link
    link.know_collations({c.type.collation for c in table.columns if c.type.collation})
    write.connection.execute(table_text(table))
    for index in table.indexes:
        if index.storage is not None:
            build_index(write, catalog, table, index)


def build_index(write: WriteTransaction, catalog: Catalog, table: Table, index: Index) -> None:
    where = filter_text(write.session.engine.registry, catalog, table, index)
    write.link.know_functions(catalog.functions)
    for text in index_texts(table, index, where):
        write.connection.execute(text)


def rebuild(write: WriteTransaction, catalog: Catalog, table: Table, values: dict[str, str]) -> None:
    """Rebuild the SQLite table as the table is now; ``values``: SQL for columns that change."""
    old = f"{table.storage}#old"
    columns = table.stored_columns
    shown = ", ".join(values.get(c.name, quote(c.storage)) for c in columns)
    write.connection.execute("PRAGMA legacy_alter_table = ON")
    write.connection.execute(f"ALTER TABLE {quote(table.storage)} RENAME TO {quote(old)}")
    for (name,) in write.connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (old,)
    ).fetchall():
        write.connection.execute(f"DROP INDEX {quote(name)}")
    build(write, catalog, table)
    names = ", ".join(quote(c.storage) for c in columns)
    write.connection.execute(f"INSERT INTO {quote(table.storage)} ({names}) SELECT {shown} FROM {quote(old)}")
    write.connection.execute(f"DROP TABLE {quote(old)}")


def create_system_table(
    write: WriteTransaction,
    schema: str,
    name: str,
    columns: Sequence[tuple[str, SqlType] | Column],
    *,
    primary_key: Sequence[str] = (),
    indexes: Sequence[Index] = (),
) -> Table:
    """A table made by Python, marked as the server's own; columns are nullable unless given as ``Column``."""
    catalog = write.edit_catalog()
    made = [c if isinstance(c, Column) else Column(c[0], c[1]) for c in columns]
    for column in made:
        column.type = collated(column.type, None, catalog)
        column.nullable = column.nullable and column.name not in primary_key
    table = Table(
        catalog.new_object_id(), schema, name, catalog.storage_name(schema, name), made, list(indexes)
    )
    table.system = True
    if primary_key:
        keys = tuple((k, False) for k in primary_key)
        table.indexes.insert(0, Index(f"{name}_clustered_idx", keys, True, clustered=True, index_id=1))
    if catalog.schema_name(schema) is None:
        catalog.schemas[schema] = max(catalog.schemas.values()) + 1
    settle(table)
    catalog.add_table(table)
    build(write, catalog, table)
    write.save_catalog(catalog)
    return table


def drop_table(write: WriteTransaction, schema: str, name: str) -> None:
    """Remove a table and its rows. Error 3701."""
    catalog = write.edit_catalog()
    table = catalog.table(schema, name)
    if table is None:
        raise SqlError(
            3701,
            f"Cannot drop the table '{schema}.{name}', because it does not exist or you do not have "
            "permission.",
            11,
            5,
        )
    write.connection.execute(f"DROP TABLE {quote(table.storage)}")
    catalog.remove_table(table)
    write.save_catalog(catalog)
