"""Puts the triggers on tracked tables, and takes them off."""

from __future__ import annotations

import sqlite3

from airflow_provider_mssql_cdc.embedded.cdc import stage
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance
from airflow_provider_mssql_cdc.embedded.engine.catalog import Table


def staged_ids(connection: sqlite3.Connection, object_id: int) -> list[int]:
    """The column ids that a stage holds (columns that the table has dropped, too); none without a stage."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({stage.stage_name(object_id)})")]
    return [int(name[1:]) for name in names if name[0] == "n" and name[1:].isdigit()]


def arm(connection: sqlite3.Connection, table: Table, instances: tuple[CaptureInstance, ...]) -> None:
    """Let the table write what these instances capture into its stage; safe to repeat after ALTER TABLE."""
    wanted = {column.column_id for instance in instances for column in instance.columns}
    wanted.update(i for instance in instances for i in instance.key_column_ids)
    columns = [(c.column_id, c.storage) for c in table.stored_columns if c.column_id in wanted]
    _fit_stage(connection, table.object_id, [column_id for column_id, _ in columns])
    disarm(connection, table.object_id)
    for statement in stage.create_triggers(table.object_id, table.storage, columns):
        connection.execute(statement)


def disarm(connection: sqlite3.Connection, object_id: int) -> None:
    """Stop writing into the stage; what is in it stays."""
    for statement in stage.drop_triggers(object_id):
        connection.execute(statement)


def forget(connection: sqlite3.Connection, object_id: int) -> None:
    """Take stage and queue of a table away: no instance captures it any more."""
    disarm(connection, object_id)
    connection.execute(f"DROP TABLE IF EXISTS {stage.stage_name(object_id)}")
    connection.execute(f"DELETE FROM {stage.PENDING} WHERE object_id = ?", (object_id,))


def _fit_stage(connection: sqlite3.Connection, object_id: int, column_ids: list[int]) -> None:
    known = staged_ids(connection, object_id)
    if not known:
        connection.execute(stage.create_stage(object_id, column_ids))
        return
    for statement in stage.add_columns(object_id, [i for i in column_ids if i not in known]):
        connection.execute(statement)
