"""Row changes waiting for the capture: one SQLite table and three triggers per tracked table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, Clustering
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Table

PENDING = "__cdc_pending"

CREATE_PENDING = f"""CREATE TABLE IF NOT EXISTS {PENDING} (
    start_lsn BLOB NOT NULL, object_id INTEGER NOT NULL, first_row INTEGER NOT NULL,
    last_row INTEGER NOT NULL, begin_lsn BLOB NOT NULL, end_time INTEGER NOT NULL,
    transaction_number INTEGER NOT NULL, PRIMARY KEY (start_lsn, object_id)) WITHOUT ROWID"""


def quote(name: str) -> str:
    """A name as SQLite takes it."""
    return '"' + name.replace('"', '""') + '"'


def stage_name(object_id: int) -> str:
    """The stage of the table with this object id."""
    return f"__cdc_stage_{object_id}"


def create_stage(object_id: int, column_ids: Sequence[int]) -> str:
    """The stage, for these columns."""
    values = "".join(f", o{i}, n{i}" for i in column_ids)
    return (
        f"CREATE TABLE {stage_name(object_id)} "
        f"(row INTEGER PRIMARY KEY, statement INTEGER NOT NULL, operation INTEGER NOT NULL{values})"
    )


def add_columns(object_id: int, column_ids: Sequence[int]) -> list[str]:
    """What lets an existing stage hold more columns."""
    stage = stage_name(object_id)
    return [f"ALTER TABLE {stage} ADD COLUMN {side}{i}" for i in column_ids for side in "on"]


def drop_triggers(object_id: int) -> list[str]:
    """What stops writing into the stage."""
    return [f"DROP TRIGGER IF EXISTS {stage_name(object_id)}_{event}" for event in ("i", "u", "d")]


def create_triggers(object_id: int, storage: str, columns: Sequence[tuple[int, str]]) -> list[str]:
    """Triggers on the table with this SQLite name; ``columns`` are (column id, SQLite name)."""
    new = ", ".join(f"NEW.{quote(name)}" for _, name in columns)
    old = ", ".join(f"OLD.{quote(name)}" for _, name in columns)
    news = ", ".join(f"n{i}" for i, _ in columns)
    olds = ", ".join(f"o{i}" for i, _ in columns)
    return [
        _trigger(object_id, storage, "INSERT", columns=news, operation=2, values=new),
        _trigger(object_id, storage, "DELETE", columns=olds, operation=1, values=old),
        _trigger(
            object_id, storage, "UPDATE", columns=f"{olds}, {news}", operation=4, values=f"{old}, {new}"
        ),
    ]


def _trigger(object_id: int, storage: str, event: str, *, columns: str, operation: int, values: str) -> str:
    stage = stage_name(object_id)
    return (
        f"CREATE TRIGGER {stage}_{event[0].lower()} AFTER {event} ON {quote(storage)} BEGIN "
        f"INSERT INTO {stage} (statement, operation, {columns}) "
        f"VALUES (session_statement(), {operation}, {values}); END"
    )


def select_changes(object_id: int, column_ids: Sequence[int]) -> str:
    """Statement, operation, old values, new values of the rows after ``?`` up to ``?``, in order."""
    olds = "".join(f", o{i}" for i in column_ids)
    news = "".join(f", n{i}" for i in column_ids)
    return (
        f"SELECT statement, operation{olds}{news} FROM {stage_name(object_id)} "
        "WHERE row > ? AND row <= ? ORDER BY row"
    )


def select_moving(object_id: int, key_ids: Sequence[int]) -> str:
    """The statements among the rows after ``?1`` up to ``?2`` that may have moved keys.

    They updated a column of the key (byte for byte), or both deleted and inserted, as a split update does.
    """
    stage, within = stage_name(object_id), "row > ?1 AND row <= ?2"
    moved = " OR ".join(f"o{i} IS NOT n{i}" for i in key_ids) or "0"
    return (
        f"SELECT statement FROM {stage} WHERE {within} AND operation = 4 AND ({moved}) UNION "
        f"SELECT statement FROM {stage} WHERE {within} AND operation < 4 "
        "GROUP BY statement HAVING COUNT(DISTINCT operation) > 1"
    )


def staged_ids(connection: sqlite3.Connection, object_id: int) -> list[int]:
    """The column ids that a stage holds (columns that the table has dropped, too); none without a stage."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({stage_name(object_id)})")]
    return [int(name[1:]) for name in names if name[0] == "n" and name[1:].isdigit()]


def arm(connection: sqlite3.Connection, table: Table, instances: tuple[CaptureInstance, ...]) -> None:
    """Let the table write what these instances capture into its stage; safe to repeat after ALTER TABLE."""
    wanted = {column.column_id for instance in instances for column in instance.columns}
    wanted.update(Clustering.of(table).column_ids)
    columns = [(c.column_id, c.storage) for c in table.stored_columns if c.column_id in wanted]
    _fit_stage(connection, table.object_id, [column_id for column_id, _ in columns])
    disarm(connection, table.object_id)
    for statement in create_triggers(table.object_id, table.storage, columns):
        connection.execute(statement)


def disarm(connection: sqlite3.Connection, object_id: int) -> None:
    """Stop writing into the stage; what is in it stays."""
    for statement in drop_triggers(object_id):
        connection.execute(statement)


def forget(connection: sqlite3.Connection, object_id: int) -> None:
    """Take stage and queue of a table away: no instance captures it any more."""
    disarm(connection, object_id)
    connection.execute(f"DROP TABLE IF EXISTS {stage_name(object_id)}")
    connection.execute(f"DELETE FROM {PENDING} WHERE object_id = ?", (object_id,))


def _fit_stage(connection: sqlite3.Connection, object_id: int, column_ids: list[int]) -> None:
    known = staged_ids(connection, object_id)
    if not known:
        connection.execute(create_stage(object_id, column_ids))
        return
    for statement in add_columns(object_id, [i for i in column_ids if i not in known]):
        connection.execute(statement)
