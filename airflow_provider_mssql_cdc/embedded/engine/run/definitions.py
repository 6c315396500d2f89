"""DDL statements against a session: what each changes in the catalog and in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile import dml
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions, tables
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Column, Table
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import (
    converter,
)
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction


def create_table(session: Session, node: ddl_tree.CreateTable) -> None:
    """CREATE TABLE. Errors 2714, 2759 (schema), 1750 and 8110 for keys."""
    with session.write() as write:
        catalog = write.edit_catalog()
        permissions.require_ddl(session, catalog, "CREATE TABLE")
        schema = _schema(catalog, node.name)
        compiler = Compiler(session.engine.registry, catalog, {})
        name = node.name[-1]
        table = Table(catalog.new_object_id(), schema, name, catalog.storage_name(schema, name), [], [])
        for definition in node.columns:
            if catalog.column(table, definition.name) is not None:
                raise SqlError(
                    2705,
                    f"Column names in each table must be unique. Column name '{definition.name}' in "
                    f"table '{name}' is specified more than once.",
                )
            column = tables.column_of(compiler, definition, table)
            column.storage = column.name
            table.columns.append(column)
        for column in table.columns:
            column.storage = ""
        _add_indexes(catalog, table, node.indexes)
        tables.settle(table)
        catalog.add_table(table)
        tables.build(write, catalog, table)
        catalog.functions |= compiler.needs.functions
        write.save_catalog(catalog)
        session.changed(write, "create table", table, node.text)


def _add_indexes(catalog: Catalog, table: Table, definitions: tuple[ddl_tree.IndexDefinition, ...]) -> None:
    # a nonclustered primary key may stand before a clustered one
    for definition in sorted(definitions, key=lambda d: d.clustered is not True):
        if definition.primary_key and table.primary_key is not None:
            raise SqlError(8110, f"Cannot add multiple PRIMARY KEY constraints to table '{table.name}'.")
        table.indexes.append(tables.index_of(table, definition, catalog))


def _schema(catalog: Catalog, name: tree.Name) -> str:
    wanted = name[-2] if len(name) > 1 and name[-2] else "dbo"
    found = catalog.schema_name(wanted)
    if found is None:
        raise SqlError(
            2760,
            f'The specified schema name "{wanted}" either does not exist or you '
            "do not have permission to use it.",
        )
    return found


def create_index(session: Session, node: ddl_tree.CreateIndex) -> None:
    with session.write() as write:
        catalog, table = _editable(session, write, node.table)
        index = tables.index_of(table, node.index, catalog)
        table.indexes.append(index)
        was_clustered = table.clustered
        tables.settle(table)
        if table.clustered != was_clustered:
            tables.rebuild(write, catalog, table, {})
        else:
            tables.build_index(write, catalog, table, index)
        write.save_catalog(catalog)
        session.changed(write, "create index", table, node.text)


def _editable(session: Session, write: WriteTransaction, name: tree.Name) -> tuple[Catalog, Table]:
    """A private catalog and the table in it. Errors 4902, 262."""
    catalog = write.edit_catalog()
    permissions.require_ddl(session, catalog, "ALTER TABLE")
    table = catalog.resolve(name)
    if table is None:
        raise SqlError(
            4902,
            f'Cannot find the object "{".".join(name)}" because it does not '
            "exist or you do not have permissions.",
        )
    return catalog, table


def alter_table(session: Session, node: ddl_tree.AlterTable) -> None:
    """ADD, ALTER COLUMN, DROP COLUMN."""
    with session.write() as write:
        catalog, table = _editable(session, write, node.name)
        values: dict[str, str] = {}
        if node.action == "add":
            _add(session, catalog, table, node=node, values=values)
        elif node.action == "alter":
            _alter_column(session, write, catalog, table=table, node=node, values=values)
        else:
            _drop_columns(catalog, table, node.dropped)
        tables.settle(table)
        tables.rebuild(write, catalog, table, values)
        write.save_catalog(catalog)
        session.changed(write, "alter table", table, node.text)


def _add(
    session: Session, catalog: Catalog, table: Table, *, node: ddl_tree.AlterTable, values: dict[str, str]
) -> None:
    compiler = Compiler(session.engine.registry, catalog, {})
    for definition in node.columns:
        if catalog.column(table, definition.name) is not None:
            raise SqlError(
                2705, f"Column name '{definition.name}' in table '{table.name}' is specified more than once."
            )
        column = tables.column_of(compiler, definition, table)
        table.columns.append(column)
        if column.computed is None:
            values[column.name] = _first_value(compiler, table, column)
    _add_indexes(catalog, table, node.indexes)
    catalog.functions |= compiler.needs.functions
    session.needs_functions(compiler.needs.functions)


def _first_value(compiler: Compiler, table: Table, column: Column) -> str:
    """What existing rows get: the default if the column is NOT NULL, else NULL."""
    if column.type.name == "timestamp":
        return dml.rowversion(compiler)
    if column.identity is not None:
        return dml.generated(compiler, table, [c for c in table.stored_columns if c is not column])[0][1]
    return "NULL" if column.nullable else dml.default(compiler, column)


def _alter_column(
    session: Session,
    write: WriteTransaction,
    catalog: Catalog,
    *,
    table: Table,
    node: ddl_tree.AlterTable,
    values: dict[str, str],
) -> None:
    compiler = Compiler(session.engine.registry, catalog, {})
    (definition,) = node.columns
    column = catalog.require_column(table, definition.name)
    changed = tables.column_of(compiler, definition, table)
    if changed.type != column.type:
        call = converter(column.type, changed.type, assign=True)
        if call is not None:
            key = (column.type, changed.type, None, True)
            values[column.name] = compiler.function(key, call, quote(column.storage))
    column.type, column.nullable, column.alias = changed.type, changed.nullable, changed.alias
    write.link.know_functions(compiler.needs.functions)


def _drop_columns(catalog: Catalog, table: Table, names: tuple[str, ...]) -> None:
    for name in names:
        column = catalog.require_column(table, name)
        used = [i.name for i in table.indexes if column.name in [c for c, _ in i.columns]]
        if used:
            raise SqlError(5074, f"The index '{used[0]}' is dependent on column '{name}'.")
        table.columns.remove(column)


def drop(session: Session, node: ddl_tree.DropObject) -> None:
    """DROP TABLE, USER, ROLE, LOGIN, DATABASE."""
    if node.kind == "DATABASE":
        for name in node.names:
            session.engine.drop_database(name[-1], if_exists=node.if_exists)
        return
    if node.kind == "LOGIN":
        for name in node.names:
            session.engine.drop_login(name[-1])
        return
    with session.write() as write:
        permissions.require_ddl(session, write.catalog(), f"DROP {node.kind}")
        for name in node.names:
            if node.kind == "TABLE":
                _drop_table(session, write, node, name)
            else:
                _drop_principal(write, node, name)


def _drop_table(
    session: Session, write: WriteTransaction, node: ddl_tree.DropObject, name: tree.Name
) -> None:
    table = write.catalog().resolve(name)
    if table is None:
        if node.if_exists:
            return
        raise SqlError(
            3701,
            f"Cannot drop the table '{'.'.join(name)}', because it does not exist or you do not have "
            "permission.",
            11,
            5,
        )
    session.changed(write, "drop table", table, node.text)
    tables.drop_table(write, table.schema, table.name)


def _drop_principal(write: WriteTransaction, node: ddl_tree.DropObject, name: tree.Name) -> None:
    catalog = write.edit_catalog()
    folded = catalog.fold(name[-1])
    missing = catalog.principals.pop(folded, None) is None
    catalog.members = {m for m in catalog.members if folded not in m}
    catalog.grants = [g for g in catalog.grants if g.principal != folded]
    if missing and not node.if_exists:
        raise SqlError(
            15151,
            f"Cannot drop the {node.kind.lower()} '{name[-1]}', because it does not exist or you do "
            "not have permission.",
        )
    write.save_catalog(catalog)


def create_schema(session: Session, node: ddl_tree.CreateSchema) -> None:
    with session.write() as write:
        catalog = write.edit_catalog()
        permissions.require_ddl(session, catalog, "CREATE SCHEMA")
        if catalog.schema_name(node.name) is not None:
            raise SqlError(2714, f"There is already an object named '{node.name}' in the database.")
        catalog.schemas[node.name] = max(catalog.schemas.values()) + 1
        write.save_catalog(catalog)


def create_type(session: Session, node: ddl_tree.CreateType) -> None:
    with session.write() as write:
        catalog = write.edit_catalog()
        permissions.require_ddl(session, catalog, "CREATE TYPE")
        schema = _schema(catalog, node.name)
        base = Compiler(session.engine.registry, catalog, {}).type_of(node.base, default_length=1)
        key = (catalog.fold(schema), catalog.fold(node.name[-1]))
        if key in catalog.aliases:
            raise SqlError(
                219, f"The type '{node.name[-1]}' already exists, or you do not have permission to create it."
            )
        catalog.aliases[key] = (schema, node.name[-1], base, node.nullable)
        write.save_catalog(catalog)


def create_policy(session: Session, node: ddl_tree.CreateSecurityPolicy) -> None:
    """Row-level security is seen in the catalog; rows are not filtered."""
    with session.write() as write:
        catalog, table = _editable(session, write, node.table)
        catalog.policies.append((_schema(catalog, node.name), node.name[-1], table.object_id, node.enabled))
        write.save_catalog(catalog)


def alter_database(session: Session, node: ddl_tree.AlterDatabase) -> None:
    """SET ALLOW_SNAPSHOT_ISOLATION or READ_COMMITTED_SNAPSHOT. Error 5058 for another option."""
    database = session.engine.find_database(node.name or session.database)
    if database is None:
        raise SqlError(
            5011,
            f"User does not have permission to alter database '{node.name}', the database does not "
            "exist, or the database is not in a state that allows access checks.",
            14,
            5,
        )
    with session.write(database) as write:
        catalog = write.edit_catalog()
        permissions.require_ddl(session, catalog, "ALTER DATABASE")
        option, value = node.option[0], node.option[-1]
        if option == "ALLOW_SNAPSHOT_ISOLATION":
            catalog.snapshot_isolation = value == "ON"
        elif option == "READ_COMMITTED_SNAPSHOT":
            catalog.read_committed_snapshot = value == "ON"
        else:
            raise SqlError(5058, f"Option '{option}' cannot be set in the embedded server.")
        write.save_catalog(catalog)
