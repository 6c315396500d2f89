"""What change data capture keeps in a database, and what DDL on a tracked table does to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.cdc import functions, instances, tracking
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import (
    EXTRA,
    CapturedColumn,
    CaptureInstance,
    CdcState,
    state_of,
)
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction
from airflow_provider_mssql_cdc.embedded.engine.schema import tables
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Column, Grant, Principal, Table
from airflow_provider_mssql_cdc.embedded.engine.schema.tables import create_system_table, drop_table
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import (
    converter,
)
from airflow_provider_mssql_cdc.embedded.seam import SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.cdc.service import ChangeDataCapture


SYSTEM_DATABASES = frozenset({"master", "tempdb", "model", "msdb"})


def enable_database(write: WriteTransaction) -> None:
    """Schema cdc with its tables. Errors 22905, 22906, 22989."""
    catalog = write.edit_catalog()
    if catalog.name.lower() in SYSTEM_DATABASES:
        raise cdc_error(22989, catalog.name)
    if catalog.cdc_enabled:
        raise cdc_error(22905, catalog.name)
    if catalog.schema_name("cdc") is not None:
        raise cdc_error(22906, catalog.name)
    catalog.schemas["cdc"] = max(catalog.schemas.values()) + 1
    catalog.cdc_enabled = True
    catalog.extra[EXTRA] = CdcState()
    write.save_catalog(catalog)
    for name, (columns, key) in instances.METADATA.items():
        _create(write, name, columns, key)
    write.connection.execute(tracking.CREATE_PENDING)
    _let_all_read_times(write)


def disable_database(write: WriteTransaction) -> None:
    """Take all of it away."""
    drop_instances(write, state_of(write.catalog()).instances)
    for name in instances.METADATA:
        drop_table(write, "cdc", name)
    write.connection.execute(f"DROP TABLE IF EXISTS {tracking.PENDING}")
    catalog = write.edit_catalog()
    del catalog.schemas["cdc"]
    del catalog.extra[EXTRA]
    catalog.cdc_enabled = False
    write.save_catalog(catalog)


def add_instance(write: WriteTransaction, instance: CaptureInstance) -> CaptureInstance:
    """Make a planned instance: change table, rows in the tables of schema cdc, triggers, gating role."""
    columns, key = instances.change_table(instance)
    change_table = _create(write, instance.change_table, columns, key)
    instance = replace(instance, object_id=change_table.object_id)
    catalog = write.edit_catalog()
    if instance.role_name and catalog.fold(instance.role_name) not in catalog.principals:
        _add_role(catalog, instance.role_name)
    state = state_of(catalog).put(instance)
    catalog.extra[EXTRA] = state
    table = catalog.by_id(instance.source_object_id)
    assert table is not None
    table.tracked_by_cdc = True
    write.save_catalog(catalog)
    _describe(write, instance)
    tracking.arm(write.connection, table, state.of_table(table.object_id))
    return instance


def drop_instances(write: WriteTransaction, instances: Iterable[CaptureInstance]) -> None:
    """Drop instances with their change tables; a table without instances is no longer tracked."""
    for instance in instances:
        for name in ("change_tables", "captured_columns", "index_columns", "ddl_history"):
            table = functions.storage(write.catalog(), name)
            write.connection.execute(f"DELETE FROM {table} WHERE object_id = ?", (instance.object_id,))
        drop_table(write, "cdc", instance.change_table)
        catalog = write.edit_catalog()
        state = state_of(catalog).without([instance.name])
        catalog.extra[EXTRA] = state
        source = catalog.by_id(instance.source_object_id)
        if not state.of_table(instance.source_object_id):
            if source is not None:
                source.tracked_by_cdc = False
            tracking.forget(write.connection, instance.source_object_id)
        write.save_catalog(catalog)


def replace_instance(write: WriteTransaction, instance: CaptureInstance) -> None:
    """Keep an instance's new description."""
    catalog = write.edit_catalog()
    catalog.extra[EXTRA] = state_of(catalog).put(instance)
    write.save_catalog(catalog)


def _create(write: WriteTransaction, name: str, columns: instances.Columns, key: Sequence[str]) -> Table:
    return create_system_table(
        write, "cdc", name, [Column(n, t, nullable=nullable) for n, t, nullable in columns], primary_key=key
    )


def _let_all_read_times(write: WriteTransaction) -> None:
    """Times are open to every user of the database; all else of schema cdc needs a grant or a procedure."""
    catalog = write.edit_catalog()
    times = catalog.require(("cdc", "lsn_time_mapping"))
    catalog.grants.append(Grant(catalog.fold("public"), "GRANT", "SELECT", times.object_id))
    write.save_catalog(catalog)


def _add_role(catalog: Catalog, name: str) -> None:
    number = max((p.principal_id for p in catalog.principals.values() if p.principal_id < 16384), default=4)
    catalog.principals[catalog.fold(name)] = Principal(name, "R", number + 1)


def _describe(write: WriteTransaction, instance: CaptureInstance) -> None:
    """Rows in change_tables, captured_columns and index_columns."""
    catalog, connection = write.catalog(), write.connection
    connection.execute(
        f"INSERT INTO {functions.storage(catalog, 'change_tables')} "
        "VALUES (?, 0, ?, ?, ?, NULL, ?, NULL, ?, ?, ?, ?, ?)",
        (
            instance.object_id,
            instance.source_object_id,
            instance.name,
            instance.birth_lsn,
            int(instance.supports_net_changes),
            instance.role_name,
            instance.index_name,
            instance.filegroup_name,
            instance.create_date,
            int(instance.partition_switch),
        ),
    )
    connection.executemany(
        f"INSERT INTO {functions.storage(catalog, 'captured_columns')} VALUES (?, ?, ?, ?, ?, ?)",
        [
            (instance.object_id, c.name, c.column_id, c.type.name, c.ordinal, int(c.computed))
            for c in instance.columns
        ],
    )
    key = zip(instance.index_columns, instance.key_column_ids, strict=True)
    connection.executemany(
        f"INSERT INTO {functions.storage(catalog, 'index_columns')} VALUES (?, ?, ?, ?)",
        [(instance.object_id, name, at, column_id) for at, (name, column_id) in enumerate(key, start=1)],
    )


def on_ddl(cdc: ChangeDataCapture, write: WriteTransaction, *, kind: str, table: Table, text: str) -> None:
    """Follow a statement that changed ``table``."""
    instances = state_of(write.catalog()).of_table(table.object_id)
    if not instances:
        return
    if kind == "drop table":
        drop_instances(write, instances)
        return
    if kind == "alter table":
        _follow(cdc, write, instances, table=table, text=text)
    # Any DDL may have rebuilt the SQLite table, without its triggers.
    tracking.arm(write.connection, table, state_of(write.catalog()).of_table(table.object_id))


def _follow(
    cdc: ChangeDataCapture,
    write: WriteTransaction,
    instances: tuple[CaptureInstance, ...],
    *,
    table: Table,
    text: str,
) -> None:
    log = cdc.log(write, write.catalog().name)
    ddl_lsn = log.record()
    log.flush()
    retyped = _retyped(instances, table)
    for column, new in retyped.values():
        _convert_stage(write, table, column, new=new)
    for instance in instances:
        mine = [c for c in instance.columns if c.column_id in retyped]
        for column in mine:
            _convert_change_table(write, instance, column, new=retyped[column.column_id][1])
            instance = instance.with_type(column.column_id, retyped[column.column_id][1])
        if mine:
            replace_instance(write, instance)
        history = functions.storage(write.catalog(), "ddl_history")
        write.connection.execute(
            f"INSERT INTO {history} VALUES (?, ?, ?, ?, ?, ?)",
            (table.object_id, instance.object_id, int(bool(mine)), text, ddl_lsn, cdc.now_ticks()),
        )


def _retyped(
    instances: tuple[CaptureInstance, ...], table: Table
) -> dict[int, tuple[CapturedColumn, SqlType]]:
    """Captured columns that the table now has in another type: column id → the column as it was, new type."""
    types = {column.column_id: column.type for column in table.columns}
    return {
        column.column_id: (column, types[column.column_id])
        for instance in instances
        for column in instance.columns
        if types.get(column.column_id, column.type) != column.type
    }


def _convert_stage(write: WriteTransaction, table: Table, column: CapturedColumn, *, new: SqlType) -> None:
    """Changes that wait for the capture take the new type, too."""
    compiler = Compiler(write.session.engine.registry, write.catalog(), {})
    for side in (f"o{column.column_id}", f"n{column.column_id}"):
        converted = _conversion(write, compiler, side, old=column.type, new=new)
        if converted is not None:
            name = tracking.stage_name(table.object_id)
            write.connection.execute(f"UPDATE {name} SET {side} = {converted} WHERE {side} IS NOT NULL")


def _convert_change_table(
    write: WriteTransaction, instance: CaptureInstance, column: CapturedColumn, *, new: SqlType
) -> None:
    catalog = write.edit_catalog()
    change_table = catalog.require(("cdc", instance.change_table))
    stored = catalog.require_column(change_table, column.name)
    compiler = Compiler(write.session.engine.registry, catalog, {})
    converted = _conversion(write, compiler, quote(stored.storage), old=column.type, new=new)
    stored.type = new
    tables.rebuild(write, catalog, change_table, {stored.name: converted} if converted else {})
    write.save_catalog(catalog)
    described = functions.storage(catalog, "captured_columns")
    write.connection.execute(
        f"UPDATE {described} SET column_type = ? WHERE object_id = ? AND column_ordinal = ?",
        (new.name, instance.object_id, column.ordinal),
    )


def _conversion(
    write: WriteTransaction, compiler: Compiler, value: str, *, old: SqlType, new: SqlType
) -> str | None:
    """SQL that converts ``value``; None when the stored value stays what it is."""
    call = converter(old, new, assign=True)
    if call is None:
        return None
    sql = compiler.function((old, new, None, True), call, value)
    write.link.know_functions(compiler.needs.functions)
    return f"CASE WHEN {value} IS NOT NULL THEN {sql} END"
