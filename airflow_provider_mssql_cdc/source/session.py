"""One task's session: statements and streams over one connection that is never replaced silently.

All answers of a session come from the same server over the same connection; a read that queries ``now()``
first relies on that. So a broken connection ends the session, and the task's next attempt opens a new one.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    LoginFailed,
    MssqlCdcError,
    PermanentError,
    PermissionDenied,
    ServerBusy,
    SourceObjectMissing,
    StatementFailed,
)
from airflow_provider_mssql_cdc.source.connect import choose_driver, state_session
from airflow_provider_mssql_cdc.source.guarded import GuardedConnection, Stream
from airflow_provider_mssql_cdc.source.reader import BATCH_ROWS, Driver
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql import catalog
from airflow_provider_mssql_cdc.tsql import session as statements
from airflow_provider_mssql_cdc.tsql.session import SessionState
from airflow_provider_mssql_cdc.tsql.statement import Statement

log = logging.getLogger(__name__)

_MODULES = {"mssql-python": "mssql_python", "pymssql": "pymssql"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the answer to a statement: its rows, or its error.

    :param asked: the statement, with ``doing`` as its purpose, for the message when a row is missing.
    """

    asked: Statement
    doing: str
    found: Sequence[dict[str, Any]] = ()
    error: PermanentError | None = None

    @property
    def rows(self) -> Sequence[dict[str, Any]]:
        """Return the rows.

        :raises PermanentError: the statement's error, as if it had been run alone.
        """
        if self.error is not None:
            raise self.error
        return self.found

    @property
    def row(self) -> dict[str, Any]:
        """Return the first row of an answer that always has one.

        :raises StatementFailed: there is none; names the query.
        """
        if not self.rows:
            raise StatementFailed(
                f"{self.doing}: the server answered without a row, where there is always one. It was asked: "
                f"{self.asked.text}"
            )
        return self.rows[0]

    @property
    def optional(self) -> dict[str, Any] | None:
        """Return the first row; None if permissions or the server's version do not allow the query."""
        if isinstance(self.error, (PermissionDenied, SourceObjectMissing, StatementFailed)):
            return None
        return next(iter(self.rows), None)


class SourceSession:
    """A context manager that connects on entry; use it on one thread, and :meth:`cancel` on any.

    :param settings: the server and the timeouts.
    :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT.

    ``remembered`` caches answers that cannot change within a session.
    """

    def __init__(self, settings: ConnectionSettings, *, isolation: str | None = None) -> None:
        if isolation not in (None, "snapshot"):
            raise ConfigurationError(
                f'isolation must be None (READ COMMITTED) or "snapshot", got {isolation!r}'
            )
        self.settings, self.isolation = settings, isolation
        self.remembered: dict[Hashable, object] = {}
        self._failing: set[Hashable] = set()
        self._state = SessionState()
        self._driver = _load_driver(settings)
        self._guarded = GuardedConnection(self._driver, settings)

    @property
    def driver(self) -> str:
        """Return the driver's name and version: ``mssql-python 1.16.0`` or ``pymssql 2.4.6``."""
        return self._driver.label

    @property
    def has_ended(self) -> bool:
        """Return whether the session was closed or cancelled, or its connection broke."""
        return self._guarded.has_ended

    @property
    def utf16(self) -> bool:
        """Return whether casting a string to varbinary gives its UTF-16 units on this server."""
        self.open()
        return self._state.utf16 == 1

    @property
    def knows_zone(self) -> bool | None:
        """Return whether the server knows its time zone; None when that must be tried."""
        self.open()
        return self._state.knows_zone

    def __enter__(self) -> SourceSession:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and set up the session; does nothing if it is open.

        :raises ConnectionBroken: no response within the login timeout.
        :raises LoginFailed: wrong login, password or database.
        :raises ServerBusy: the database exists and cannot be opened yet.
        """
        if self._guarded.is_open:
            return
        try:
            self._guarded.open()
        except LoginFailed as exc:
            raise self._why_no_login(exc) from None
        log.info("%s: connected, reading by %s", self.settings.label, self.driver)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def rows(self, statement: Statement, *, doing: str = "asking the server") -> list[dict[str, Any]]:
        """Return all rows of a small result, each a dict by column name."""
        self.open()
        return self._guarded.call(lambda connection: connection.rows(statement), doing=doing)

    def results(
        self, statements: Sequence[Statement], *, doing: str = "asking the server"
    ) -> list[list[dict[str, Any]]]:
        """Run several statements with small results, in order, in one round trip."""
        self.open()
        return self._guarded.call(lambda connection: connection.results(statements), doing=doing)

    def answers(
        self, statements: Sequence[Statement], *, doing: str = "asking the server"
    ) -> tuple[Answer, ...]:
        """Run several queries in order in one round trip; each is answered as if it ran alone.

        An error may end the whole batch. On failure each half is run again, down to the failing statement,
        which gets its own error. Use it for idempotent queries outside a transaction.
        """
        answers: list[Answer] = []
        for alone, group in itertools.groupby(statements, key=lambda asked: _key(asked) in self._failing):
            for part in [[one] for one in group] if alone else [list(group)]:
                answers += self._answered(part, doing)
        return tuple(answers)

    def _answered(self, statements: list[Statement], doing: str) -> list[Answer]:
        try:
            results = self.results(statements, doing=doing)
        except PermanentError as exc:
            if len(statements) == 1:
                self._failing.add(_key(statements[0]))
                return [Answer(statements[0], doing, error=exc)]
            log.debug("%s: asking again in halves: %s", self.settings.label, exc)
            middle = len(statements) // 2
            return [*self._answered(statements[:middle], doing), *self._answered(statements[middle:], doing)]
        return [Answer(asked, doing, found) for asked, found in zip(statements, results, strict=True)]

    def row(self, statement: Statement, *, doing: str = "asking the server") -> dict[str, Any]:
        """Return the first row of an answer that always has one.

        :raises StatementFailed: there is none; names the query.
        """
        found = self.rows(statement, doing=doing)
        return Answer(statement, f"{self.settings.label}: {doing}", found).row

    def value(self, statement: Statement, *, doing: str = "asking the server") -> Any:
        """Return the first column of the first row; None when there is no row."""
        found = self.rows(statement, doing=doing)
        return next(iter(found[0].values()), None) if found else None

    def execute(self, statement: Statement, *, doing: str = "setting the session up") -> None:
        """Run a statement without rows."""
        self.open()
        self._guarded.call(lambda connection: connection.execute(statement), doing=doing)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Give several statements one view of the data under SNAPSHOT; no effect under READ COMMITTED.

        SNAPSHOT sees what was committed before the transaction's first read, so a value that must be older
        than the data, such as ``now()``, is queried before. All other statements run under READ COMMITTED,
        so preflight can still report that SNAPSHOT is not allowed.
        """
        if self.isolation != "snapshot":
            yield
            return
        # Before BEGIN: a transaction that began under another level cannot become SNAPSHOT (error 3951;
        # Microsoft Learn, "SET TRANSACTION ISOLATION LEVEL").
        self.execute(statements.SET_SNAPSHOT, doing="asking for snapshot isolation")
        self.execute(statements.BEGIN, doing="beginning a transaction")
        try:
            yield
        except BaseException:
            if not self._guarded.has_ended:
                with contextlib.suppress(ConnectionBroken):
                    self.execute(statements.ROLLBACK, doing="rolling back")
                    self.execute(statements.SET_READ_COMMITTED, doing="going back to read committed")
            raise
        self.execute(statements.COMMIT, doing="ending a transaction")
        self.execute(statements.SET_READ_COMMITTED, doing="going back to read committed")

    def read(
        self,
        statement: Statement,
        schema: pa.Schema,
        *,
        batch_rows: int = BATCH_ROWS,
        table: str = "the table",
    ) -> Iterator[pa.RecordBatch]:
        """Stream a large result as batches of ``schema``, with prefetching.

        Memory is bounded by some batches of a few MB. Closing the iterator early ends the statement.

        :param table: name of the rows in messages.
        :raises ConnectionBroken: the connection failed, or the result was truncated.
        :raises SchemaDrift: the result has other columns than ``schema``.
        :raises ValueDoesNotFit: a value does not fit its column.
        """
        self.open()
        yield from self._guarded.stream(Stream(statement, schema, batch_rows, table))

    def cancel(self, *, wait: bool = True) -> None:
        """Cancel the running statement, from a signal handler or another thread; ends the session."""
        self._guarded.cancel(wait=wait)

    def close(self) -> None:
        """Close the connection. Idempotent; never raises or blocks."""
        self._guarded.close()

    def _set_up(self) -> None:
        """Run the user's own statements, then the options that reads depend on, and check the result."""
        for text in self.settings.conn_properties:
            self.execute(Statement(text.replace("%", "%%")), doing="running conn_properties")
        self._state = state_session(self)

    def _why_no_login(self, exc: LoginFailed) -> MssqlCdcError:
        """Distinguish the causes of error 4060: the database is missing, not permitted, or not open yet."""
        if not self.settings.database:
            return exc
        elsewhere = GuardedConnection(self._driver, replace(self.settings, database=""))
        statement = catalog.database_access(self.settings.database)
        try:
            elsewhere.open()
            found = elsewhere.call(
                lambda connection: connection.rows(statement), doing="asking for a database"
            )
        except MssqlCdcError:
            return exc
        finally:
            elsewhere.close()
        if not found or (found[0]["state_desc"] == "ONLINE" and found[0]["has_access"] != 1):
            return exc
        return ServerBusy(
            f"{self.settings.label}: connecting: the database could not be opened, and it is there: it is "
            "being recovered or fails over. The next attempt may find it open"
        )


def _key(statement: Statement) -> Hashable:
    return statement.text, frozenset(statement.parameters.items())


def _load_driver(settings: ConnectionSettings) -> Driver:
    name = choose_driver(settings)
    module = importlib.import_module(f"airflow_provider_mssql_cdc.source.{_MODULES[name]}")
    driver: Driver = module.DRIVER
    return driver
