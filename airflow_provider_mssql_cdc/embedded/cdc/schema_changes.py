"""What ALTER TABLE and DROP TABLE on a tracked table do to its capture instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.cdc import tracking, watermarks
from airflow_provider_mssql_cdc.embedded.cdc.database import drop_instances, replace_instance
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, state_of
from airflow_provider_mssql_cdc.embedded.engine.catalog import Table
from airflow_provider_mssql_cdc.embedded.engine.session import Session
from airflow_provider_mssql_cdc.embedded.engine.transactions import WriteTransaction

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.cdc.service import ChangeDataCapture


def on_ddl(
    cdc: ChangeDataCapture, session: Session, write: WriteTransaction, *, kind: str, table: Table, text: str
) -> None:
    """Follow a statement that changed ``table``: history, triggers, types of captured columns."""
    instances = state_of(write.catalog()).of_table(table.object_id)
    if not instances:
        return
    if kind == "drop table":
        drop_instances(write, instances)
    elif kind == "alter table":
        log = cdc.log(write, write.catalog().name)
        ddl_lsn = log.record()
        log.flush()
        for instance in instances:
            retyped = _follow_types(write, instance, table)
            _record(
                write, retyped, text=text, ddl_lsn=ddl_lsn, ticks=cdc.now_ticks(), update=retyped != instance
            )
        tracking.arm(write.connection, table, state_of(write.catalog()).of_table(table.object_id))


def _follow_types(write: WriteTransaction, instance: CaptureInstance, table: Table) -> CaptureInstance:
    """Give captured columns whose type changed that type in the change table, too."""
    types = {column.column_id: column.type for column in table.columns}
    followed = instance
    for column in instance.columns:
        new = types.get(column.column_id, column.type)
        if new != column.type:
            followed = followed.with_type(column.column_id, new)
    if followed != instance:
        replace_instance(write, followed)
    return followed


def _record(
    write: WriteTransaction, instance: CaptureInstance, *, text: str, ddl_lsn: bytes, ticks: int, update: bool
) -> None:
    history = watermarks.storage(write.catalog(), "ddl_history")
    write.connection.execute(
        f"INSERT INTO {history} VALUES (?, ?, ?, ?, ?, ?)",
        (instance.source_object_id, instance.object_id, int(update), text, ddl_lsn, ticks),
    )
