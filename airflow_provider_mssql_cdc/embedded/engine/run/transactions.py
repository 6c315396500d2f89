"""Transactions of a session, and SQLite's errors as SQL Server's."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.seam import DropConnection, SqlError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.run.storage import Database, Link
    from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Index, Table


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
            "insert the row that has been modified or deleted by another transaction.",
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
        "does not allow nulls. INSERT fails.",
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


class WriteTransaction:
    """The open write on one database; ``connection`` takes stored values."""

    def __init__(self, session: Session, database: Database, link: Link) -> None:
        self.session, self.database, self.link = session, database, link
        self.connection = link.connection

    def catalog(self) -> Catalog:
        """The catalog as this transaction sees it; shared, not to be changed."""
        return self.database.catalog(self.link)

    def edit_catalog(self) -> Catalog:
        """A private copy to change and hand to ``save_catalog``."""
        return self.catalog().copy()

    def save_catalog(self, catalog: Catalog) -> None:
        self.database.store(self.link, catalog)


class Transactions:
    """Begun and not yet ended work of one session.

    BEGIN alone takes nothing: a write takes the writer lock, a SNAPSHOT transaction pins its view at its
    first read. ``number`` rises in commit order within a database; ``statement`` counts DML statements,
    from 1.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.count = 0
        self.number = 0
        self.statement = 0
        self.last_link: Link | None = None
        self._writes: dict[Database, WriteTransaction] = {}
        self._pinned: dict[Database, Link] = {}
        self._readers: dict[Database, Link] = {}

    def begin(self) -> None:
        self.count += 1

    def begin_implicitly(self) -> None:
        if self.count == 0:
            self.begin()

    def commit(self) -> None:
        """Error 3902."""
        if self.count == 0:
            raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        if self.count == 1:
            self._commit_writes()
            self._unpin()
        self.count -= 1

    def rollback(self) -> None:
        """Error 3903."""
        if self.count == 0:
            raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")
        self.abandon()

    def abandon(self) -> None:
        """Roll back whatever is open."""
        self.count = 0
        for database, write in list(self._writes.items()):
            self._end(database, write, "ROLLBACK")
        self._unpin()

    def _unpin(self) -> None:
        for database, link in self._pinned.items():
            database.give(link)
        self._pinned.clear()

    def _commit_writes(self) -> None:
        for database, write in list(self._writes.items()):
            try:
                for hook in self._session.engine.hooks.commit:
                    hook(self._session, write)
            except BaseException:
                self.abandon()
                raise
            self._end(database, write, "COMMIT")
            for hook in self._session.engine.hooks.committed:
                hook(self._session, database)

    def _end(self, database: Database, write: WriteTransaction, action: str) -> None:
        del self._writes[database]
        try:
            if action == "ROLLBACK" or not write.connection.in_transaction:
                write.link.roll_back()
            else:
                write.connection.execute(action)
        finally:
            if self._pinned.get(database) is not write.link:
                database.give(write.link)
            database.lock.release()

    def reader(self, database: Database) -> Link:
        """The connection that a SELECT uses, and that knows the current catalog."""
        if database in self._writes:
            return self._writes[database].link
        if database in self._pinned:
            return self._pinned[database]
        if self._session.isolation == "READ UNCOMMITTED" and (dirty := database.dirty()):
            return dirty
        if database not in self._readers:
            self._readers[database] = database.take(self._session)
        return self._readers[database]

    def pin(self, database: Database) -> tuple[Link, bool]:
        """The connection for data; in a SNAPSHOT transaction the first call fixes its view (then True)."""
        snapshot = self._session.isolation == "SNAPSHOT" and self.count > 0
        if not snapshot or database in self._pinned or database in self._writes:
            return self.reader(database), False
        link = database.take(self._session)
        link.connection.execute("BEGIN")
        link.version()
        self._pinned[database] = link
        return link, True

    @contextmanager
    def write(self, database: Database) -> Iterator[WriteTransaction]:
        """The open write transaction, or one of its own that commits at the end. Errors 1222, 3906, 3960."""
        if database in self._writes:
            yield self._writes[database]
            return
        write = self._begin_write(database)
        try:
            yield write
        except BaseException:
            if self.count == 0 or not write.connection.in_transaction:
                self.abandon()
            raise
        if self.count == 0:
            self._commit_writes()

    def _begin_write(self, database: Database) -> WriteTransaction:
        if database.read_only:
            raise SqlError(3906, "Failed to update database because the database is read-only.")
        session = self._session
        database.lock.acquire(session, session.lock_timeout_ms, session.check_cancelled)
        try:
            link = self._writing_link(database)
        except BaseException:
            database.lock.release()
            raise
        if not self._writes:
            self.number, self.statement = next(database.transactions), 0
        self.last_link = link
        write = self._writes[database] = WriteTransaction(session, database, link)
        return write

    def _writing_link(self, database: Database) -> Link:
        if self._session.isolation == "SNAPSHOT" and self.count > 0:
            link, _ = self.pin(database)
            try:
                link.connection.execute('UPDATE "$catalog" SET id = id')
            except sqlite3.Error as exc:
                self.abandon()
                raise translated(link, exc) from exc
            return link
        link = database.take(self._session)
        link.connection.execute("BEGIN IMMEDIATE")
        return link

    def written(self, database: Database) -> Link | None:
        """Where rows are that are not committed yet."""
        write = self._writes.get(database)
        return None if write is None else write.link

    def close(self) -> None:
        self.abandon()
        for database, link in self._readers.items():
            database.give(link)
        self._readers.clear()
