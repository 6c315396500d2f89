"""Where row changes wait for the capture: one SQLite table and three triggers per tracked table. Pure text.

A trigger writes one row per changed row, in the transaction that changes it, so a rollback takes both
back. Old and new values stand side by side in ``o<column_id>`` and ``n<column_id>``, without a type, so
that SQLite leaves them as they are. The rowid is the order in which the rows were changed.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    They updated a key column (byte for byte), or both deleted and inserted, as a split update does.
    """
    stage, within = stage_name(object_id), "row > ?1 AND row <= ?2"
    moved = " OR ".join(f"o{i} IS NOT n{i}" for i in key_ids)
    return (
        f"SELECT statement FROM {stage} WHERE {within} AND operation = 4 AND ({moved}) UNION "
        f"SELECT statement FROM {stage} WHERE {within} AND operation < 4 "
        "GROUP BY statement HAVING COUNT(DISTINCT operation) > 1"
    )
