"""What DDL on a tracked table does to its capture instances: history, triggers, types, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.cdc import stage, tracking, watermarks
from airflow_provider_mssql_cdc.embedded.cdc.database import drop_instances, replace_instance
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import CapturedColumn, CaptureInstance, state_of
from airflow_provider_mssql_cdc.embedded.engine import ddl
from airflow_provider_mssql_cdc.embedded.engine.catalog import Table
from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler
from airflow_provider_mssql_cdc.embedded.engine.conversions import converter
from airflow_provider_mssql_cdc.embedded.engine.names import quote
from airflow_provider_mssql_cdc.embedded.engine.transactions import WriteTransaction
from airflow_provider_mssql_cdc.embedded.seam import SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.cdc.service import ChangeDataCapture


def on_ddl(cdc: ChangeDataCapture, write: WriteTransaction, *, kind: str, table: Table, text: str) -> None:
    """Follow a statement that changed ``table``. Errors 22983 (an index that identifies captured rows)."""
    instances = state_of(write.catalog()).of_table(table.object_id)
    if not instances:
        return
    if kind == "drop table":
        drop_instances(write, instances)
        return
    _refuse_lost_index(instances, table)
    if kind == "alter table":
        _follow(cdc, write, instances, table=table, text=text)
    # Any DDL may have built the SQLite table anew, without its triggers.
    tracking.arm(write.connection, table, state_of(write.catalog()).of_table(table.object_id))


def _refuse_lost_index(instances: tuple[CaptureInstance, ...], table: Table) -> None:
    names = {index.name for index in table.indexes}
    for instance in instances:
        if instance.index_name is not None and instance.index_name not in names:
            raise cdc_error(22983, instance.index_name, table.full_name)


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
        history = watermarks.storage(write.catalog(), "ddl_history")
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
            name = stage.stage_name(table.object_id)
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
    ddl.rebuild(write, catalog, change_table, {stored.name: converted} if converted else {})
    write.save_catalog(catalog)
    described = watermarks.storage(catalog, "captured_columns")
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
    sql = compiler.function((old, new, None, True, False), call, value)
    write.link.know_functions(compiler.needs.functions)
    return f"CASE WHEN {value} IS NOT NULL THEN {sql} END"
