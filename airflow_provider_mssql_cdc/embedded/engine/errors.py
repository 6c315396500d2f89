"""SQLite's errors as SQL Server's."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.seam import DropConnection, SqlError

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.catalog import Catalog, Index, Table
    from airflow_provider_mssql_cdc.embedded.engine.storage import Link

CANCELLED = 3617


def cancelled() -> SqlError:
    return SqlError(CANCELLED, "The operation was cancelled by the user.", 11)


def translated(link: Link, exc: sqlite3.Error, catalog: Catalog | None = None) -> Exception:
    """The error that the client sees for what SQLite raised."""
    inner = link.failed(exc)
    if isinstance(inner, SqlError | DropConnection):
        return inner
    if inner is not exc:
        return inner if isinstance(inner, Exception) else exc
    text = str(exc)
    if "interrupted" in text:
        return cancelled()
    if isinstance(exc, sqlite3.IntegrityError) and catalog is not None:
        return _constraint(text, catalog)
    if "integer overflow" in text:
        return SqlError(8115, "Arithmetic overflow error converting expression to data type bigint.")
    if "locked" in text:
        return SqlError(
            3960,
            "Snapshot isolation transaction aborted due to update conflict. You cannot use "
            "snapshot isolation to "
            "access the table directly or indirectly in the database to update, delete, or "
            "insert the row that has "
            "been modified or deleted by another transaction.",
        )
    return exc


def _constraint(text: str, catalog: Catalog) -> SqlError:
    kind, _, place = text.partition(" constraint failed: ")
    for table in catalog.tables.values():
        if kind == "NOT NULL":
            column = next((c for c in table.columns if place == f"{table.storage}.{c.storage}"), None)
            if column is not None:
                return null_refused(table, column.name)
            continue
        index = next((i for i in table.indexes if _is_index(place, table, i)), None)
        if index is not None:
            return duplicate(table, index)
    return SqlError(547, f"The statement conflicted with a constraint: {text}.")


def _is_index(place: str, table: Table, index: Index) -> bool:
    if index.storage is not None and place in (f"index '{index.storage}'", f"index '{index.storage}#null'"):
        return True
    stored = {c.name: c.storage for c in table.columns}
    return place == ", ".join(f"{table.storage}.{stored[name]}" for name, _ in index.columns)


def null_refused(table: Table, column: str) -> SqlError:
    return SqlError(
        515,
        f"Cannot insert the value NULL into column '{column}', table '{table.full_name}'; column "
        "does not allow "
        "nulls. INSERT fails.",
        16,
        2,
    )


def duplicate(table: Table, index: Index) -> SqlError:
    if index.constraint:
        kind = "PRIMARY KEY" if index.primary_key else "UNIQUE KEY"
        return SqlError(
            2627,
            f"Violation of {kind} constraint '{index.name}'. Cannot insert duplicate key in object "
            f"'{table.full_name}'.",
            14,
        )
    return SqlError(
        2601,
        f"Cannot insert duplicate key row in object '{table.full_name}' with unique index '{index.name}'.",
        14,
    )
