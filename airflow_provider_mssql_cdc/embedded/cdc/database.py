"""Makes and drops what change data capture keeps in a database: schema cdc, its tables, the stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_mssql_cdc.embedded.cdc import schema, stage, tracking, watermarks
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import EXTRA, CaptureInstance, CdcState, state_of
from airflow_provider_mssql_cdc.embedded.engine.catalog import Catalog, Column, Grant, Principal, Table
from airflow_provider_mssql_cdc.embedded.engine.ddl import create_system_table, drop_table
from airflow_provider_mssql_cdc.embedded.engine.transactions import WriteTransaction

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
    for name, (columns, key) in schema.METADATA.items():
        _create(write, name, columns, key)
    write.connection.execute(stage.CREATE_PENDING)
    _let_all_read_times(write)


def disable_database(write: WriteTransaction) -> None:
    """Take all of it away."""
    drop_instances(write, state_of(write.catalog()).instances)
    for name in schema.METADATA:
        drop_table(write, "cdc", name)
    write.connection.execute(f"DROP TABLE IF EXISTS {stage.PENDING}")
    catalog = write.edit_catalog()
    del catalog.schemas["cdc"]
    del catalog.extra[EXTRA]
    catalog.cdc_enabled = False
    write.save_catalog(catalog)


def add_instance(write: WriteTransaction, instance: CaptureInstance) -> CaptureInstance:
    """Make a planned instance: change table, rows in the tables of schema cdc, triggers, gating role."""
    columns, key = schema.change_table(instance)
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
            table = watermarks.storage(write.catalog(), name)
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


def _create(write: WriteTransaction, name: str, columns: schema.Columns, key: Sequence[str]) -> Table:
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
        f"INSERT INTO {watermarks.storage(catalog, 'change_tables')} "
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
        f"INSERT INTO {watermarks.storage(catalog, 'captured_columns')} VALUES (?, ?, ?, ?, ?, ?)",
        [
            (instance.object_id, c.name, c.column_id, c.type.name, c.ordinal, int(c.computed))
            for c in instance.columns
        ],
    )
    key = zip(instance.index_columns, instance.key_column_ids, strict=True)
    connection.executemany(
        f"INSERT INTO {watermarks.storage(catalog, 'index_columns')} VALUES (?, ?, ?, ?)",
        [(instance.object_id, name, at, column_id) for at, (name, column_id) in enumerate(key, start=1)],
    )
