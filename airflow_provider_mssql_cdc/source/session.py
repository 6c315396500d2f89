"""One task's session: statements and streams over one connection that is never silently replaced.

Every answer of a session comes from the same server and the same connection: a read that asks ``now()``
first rests on that. So a broken connection ends the session, and the task's next attempt starts with a new
one.
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
    """Hold the answer to a statement: its rows, or the error that it ends with.

    :param asked: the statement, and ``doing`` why, for the message of an answer that lacks its row.
    """

    asked: Statement
    doing: str
    found: Sequence[dict[str, Any]] = ()
    error: PermanentError | None = None

    @property
    def rows(self) -> Sequence[dict[str, Any]]:
        """The rows.

        :raises PermanentError: what the statement ends with when it is asked alone.
        """
        if self.error is not None:
            raise self.error
        return self.found

    @property
    def row(self) -> dict[str, Any]:
        """The first row of an answer that always has one.

        :raises StatementFailed: it has none; with what was asked.
        """
        if not self.rows:
            raise StatementFailed(
                f"{self.doing}: the server answered without a row, where there is always one. It was asked: "
                f"{self.asked.text}"
            )
        return self.rows[0]

    @property
    def optional(self) -> dict[str, Any] | None:
        """The first row, of a question that the login's rights, or the server's age, may keep back."""
        if isinstance(self.error, (PermissionDenied, SourceObjectMissing, StatementFailed)):
            return None
        return next(iter(self.rows), None)


class SourceSession:
    """A context manager that connects on entry; use it on one thread, and :meth:`cancel` on any.

    :param settings: which server, and how long to wait for it.
    :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT.

    ``remembered`` holds what need not be asked twice of the same server.
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
        """Which driver reads: ``mssql-python 1.16.0`` or ``pymssql 2.4.6``."""
        return self._driver.label

    @property
    def has_ended(self) -> bool:
        """Whether it is over: closed, cancelled, or its connection broke."""
        return self._guarded.has_ended

    @property
    def utf16(self) -> bool:
        """Whether a text cast to varbinary gives its UTF-16 units on this server."""
        self.open()
        return self._state.utf16 == 1

    @property
    def knows_zone(self) -> bool | None:
        """Whether the server can tell its time zone; None where only asking tells."""
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
        """Connect and set the session up, unless it is open.

        :raises ConnectionBroken: no answer within the login timeout.
        :raises LoginFailed: wrong login, password or database.
        :raises ServerBusy: the database is there and cannot be opened yet.
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
        """All rows of a small result, each a dict by column name."""
        self.open()
        return self._guarded.call(lambda connection: connection.rows(statement), doing=doing)

    def results(
        self, statements: Sequence[Statement], *, doing: str = "asking the server"
    ) -> list[list[dict[str, Any]]]:
        """The small results of several statements, asked one after the other in one round trip."""
        self.open()
        return self._guarded.call(lambda connection: connection.results(statements), doing=doing)

    def answers(
        self, statements: Sequence[Statement], *, doing: str = "asking the server"
    ) -> tuple[Answer, ...]:
        """Ask several questions in one round trip, in their order; each is answered as if it was asked alone.

        An error may end the whole batch, so where one fails the halves are asked again, down to the
        statement that fails; it stands alone from then on. For questions that may be asked twice, outside of
        a transaction.
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
        """The first row of an answer that always has one.

        :raises StatementFailed: it has none; with what was asked.
        """
        found = self.rows(statement, doing=doing)
        return Answer(statement, f"{self.settings.label}: {doing}", found).row

    def value(self, statement: Statement, *, doing: str = "asking the server") -> Any:
        """The first column of the first row; None when there is no row."""
        found = self.rows(statement, doing=doing)
        return next(iter(found[0].values()), None) if found else None

    def execute(self, statement: Statement, *, doing: str = "setting the session up") -> None:
        """Run a statement that has no rows."""
        self.open()
        self._guarded.call(lambda connection: connection.execute(statement), doing=doing)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """One view of the data over several statements, under SNAPSHOT; under READ COMMITTED there is none.

        SNAPSHOT sees what was committed before the transaction's first read, so whatever has to be older
        than the data, ``now()`` for one, is asked before. Everything outside is READ COMMITTED: where
        SNAPSHOT is not allowed, preflight can still say so.
        """
        if self.isolation != "snapshot":
            yield
            return
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
        """Stream a large result as batches of ``schema``; the next ones are fetched while one is used.

        Memory is bounded by some batches of a few MB. Closing the iterator early ends the statement.

        :param table: what messages call the rows.
        :raises ConnectionBroken: the connection failed, or the rows ended before their end.
        :raises SchemaDrift: the result has other columns than ``schema``.
        :raises ValueDoesNotFit: a value that its column cannot hold.
        """
        self.open()
        yield from self._guarded.stream(Stream(statement, schema, batch_rows, table))

    def cancel(self, *, wait: bool = True) -> None:
        """End what runs on the server, from a signal handler or another thread; the session is over then."""
        self._guarded.cancel(wait=wait)

    def close(self) -> None:
        """Close the connection. Idempotent; never raises or blocks."""
        self._guarded.close()

    def _set_up(self) -> None:
        """Run the user's own settings, then those that the reads rest on, and look at the result."""
        for text in self.settings.conn_properties:
            self.execute(Statement(text.replace("%", "%%")), doing="running conn_properties")
        self._state = state_session(self)

    def _why_no_login(self, exc: LoginFailed) -> MssqlCdcError:
        """Tell the reasons of error 4060 apart: the database is missing, not allowed, or not open yet."""
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
