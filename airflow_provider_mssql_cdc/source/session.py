"""One task's session: statements and streams over one connection that is never silently replaced.

Every answer of a session comes from the same server and the same connection: who asks ``now()`` and then
reads has to be sure of that. So a broken connection ends the session, and the task's next attempt starts
with a new one.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    MssqlCdcError,
    StatementFailed,
)
from airflow_provider_mssql_cdc.source import sockets
from airflow_provider_mssql_cdc.source.connect import choose_driver
from airflow_provider_mssql_cdc.source.driver_thread import DriverThread
from airflow_provider_mssql_cdc.source.errors import translate
from airflow_provider_mssql_cdc.source.prefetch import BatchQueue
from airflow_provider_mssql_cdc.source.reader import BATCH_ROWS, Driver, DriverConnection
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql import session as statements
from airflow_provider_mssql_cdc.tsql.statement import Statement

log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE_SECONDS = 15.0
"""How much longer than the driver's own timeout a call may take before the connection is given up."""
CANCEL_SECONDS = 5.0
"""How long a cancelled statement may take to end before the connection is cut."""
_MODULES = {"mssql-python": "mssql_python", "pymssql": "pymssql"}


class SourceSession:
    """A context manager that connects on entry; use it on one thread, and :meth:`cancel` on any.

    :param settings: which server, and how long to wait for it.
    :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT.

    ``remembered`` holds what need not be asked twice of the same server.
    """

    def __init__(self, settings: ConnectionSettings, *, isolation: str | None = None) -> None:
        if isolation not in (None, "snapshot"):
            raise ConfigurationError(f'isolation is None (READ COMMITTED) or "snapshot", got {isolation!r}')
        self.settings, self.isolation = settings, isolation
        self.remembered: dict[str, object] = {}
        self._driver = _load_driver(settings)
        self._failures: tuple[type[Exception], ...] = (MssqlCdcError, *self._driver.errors)
        self._thread: DriverThread | None = None
        self._connection: DriverConnection | None = None
        self._socket = sockets.DriverSocket(None)
        self._reading: BatchQueue | None = None
        self._ended: str | None = None

    @property
    def driver(self) -> str:
        """Which driver reads: ``mssql-python 1.16.0`` or ``pymssql 2.4.6``."""
        return self._driver.label

    def __enter__(self) -> SourceSession:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and set the session up; nothing when it is open.

        :raises ConnectionBroken: no answer within the login timeout.
        :raises LoginFailed: wrong login, password or database.
        """
        if self._connection is not None:
            return
        self._refuse_when_ended()
        self._thread = DriverThread(f"mssql-cdc {self.settings.conn_id}")
        try:
            self._connection = self._call(
                self._connect, doing="connecting", patience=self.settings.login_timeout_seconds
            )
            log.info("%s: connected, reading by %s", self.settings.label, self.driver)
            self._set_up()
        except BaseException:
            self.close()
            raise

    def rows(self, statement: Statement, *, doing: str = "asking the server") -> list[dict[str, Any]]:
        """All rows of a small result, each a dict by column name."""
        connection = self._opened()
        return self._call(lambda: connection.rows(statement), doing=doing)

    def value(self, statement: Statement, *, doing: str = "asking the server") -> Any:
        """The first column of the first row; None when there is no row."""
        found = self.rows(statement, doing=doing)
        return next(iter(found[0].values()), None) if found else None

    def execute(self, statement: Statement, *, doing: str = "setting the session up") -> None:
        """Run a statement that has no rows."""
        connection = self._opened()
        self._call(lambda: connection.execute(statement), doing=doing)

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
            if self._ended is None:
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
        connection, doing = self._opened(), f"reading {table}"
        waiting = BatchQueue()
        self._reading = waiting
        job = self._submit(lambda: _fill(waiting, connection, statement, schema, batch_rows, table))
        try:
            while True:
                try:
                    batch = waiting.take(wait_seconds=self._patience(self.settings.query_timeout_seconds))
                except TimeoutError:
                    raise self._gave_up(doing) from None
                if batch is None:
                    break
                yield batch
            self._refuse_when_ended()
        except self._failures as exc:
            raise self._translated(exc, doing) from None
        finally:
            waiting.close()
            self._reading = None
            self._settle(job)

    def cancel(self) -> None:
        """End what runs on the server, from a signal handler or another thread; the session is over then."""
        self._ended = self._ended or "it was cancelled"
        if self._reading is not None:
            self._reading.close()
        thread, connection = self._thread, self._connection
        if thread is None or not thread.busy:
            return
        if connection is not None and connection.interrupt() and thread.wait_idle(CANCEL_SECONDS):
            return
        self._socket.shut_down()
        thread.wait_idle(CANCEL_SECONDS)

    def close(self) -> None:
        """Give the connection back; again and again if you like. Never raises, never hangs."""
        thread, connection = self._thread, self._connection
        if thread is None:
            self._ended = self._ended or "it was closed"
            return
        if thread.busy:
            self.cancel()
        self._ended = self._ended or "it was closed"
        self._thread = self._connection = None
        if connection is not None and not thread.busy:
            closing = thread.submit(lambda: _close(connection, self._driver.errors))
            _wait(closing, CANCEL_SECONDS)
        if thread.busy:
            self._socket.shut_down()
        if not thread.stop(wait_seconds=CANCEL_SECONDS):
            log.warning(
                "%s: the driver still waits for the server; its thread is left behind", self.settings.label
            )
        self._socket.release()

    # -- how calls are made

    def _connect(self) -> DriverConnection:
        with sockets.connecting:
            before = sockets.open_sockets()
            connection = self._driver.open(self.settings)
            self._socket = sockets.opened_since(before, port=self.settings.port)
        if seconds := self._patience(self.settings.query_timeout_seconds):
            self._socket.limit_silence(seconds)
        return connection

    def _set_up(self) -> None:
        """Settings that both drivers would leave at their own defaults."""
        for text in self.settings.conn_properties:
            self.execute(Statement(text.replace("%", "%%")), doing="running conn_properties")
        with contextlib.suppress(StatementFailed):  # errors without a number are told by their English text
            self.execute(statements.SET_ENGLISH)
        self.execute(statements.SET_TEXTSIZE)
        size = self.value(statements.textsize())
        if size not in (-1, statements.LONGEST_TEXT):
            raise ConfigurationError(
                f"{self.settings.label}: the server keeps TEXTSIZE at {size}, so long values would be cut; "
                "take SET TEXTSIZE out of conn_properties, or ask who limits it"
            )
        seconds = self.settings.lock_timeout_seconds
        self.execute(statements.set_lock_timeout(seconds * 1000 if seconds else -1))

    def _call(self, job: Callable[[], T], *, doing: str, patience: int | None = None) -> T:
        seconds = self.settings.query_timeout_seconds if patience is None else patience
        future = self._submit(job)
        try:
            result = future.result(self._patience(seconds))
        except FutureTimeoutError:
            if future.done():  # the driver's own TimeoutError
                raise self._translated(future.exception(), doing) from None
            raise self._gave_up(doing) from None
        except self._failures as exc:
            raise self._translated(exc, doing) from None
        return result

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        self._refuse_when_ended()
        thread = self._thread
        if thread is None:
            raise RuntimeError("the session is not open")
        if thread.busy:
            raise RuntimeError("the session is reading; finish or close that read first")
        return thread.submit(job)

    def _opened(self) -> DriverConnection:
        self._refuse_when_ended()
        if self._connection is None:
            self.open()
        assert self._connection is not None
        return self._connection

    def _patience(self, seconds: int) -> float | None:
        return seconds + GRACE_SECONDS if seconds else None

    def _gave_up(self, doing: str) -> ConnectionBroken:
        self._ended = "the server stopped answering"
        self._socket.shut_down()
        return ConnectionBroken(
            f"{self._where(doing)}: no answer from the server, and none to a request to stop; the connection "
            "was cut. The next attempt starts with a new one. Timeouts are set in the connection's extra, "
            '{"mssql_cdc": {"query_timeout_seconds": ...}}'
        )

    def _translated(self, exc: BaseException | None, doing: str) -> Exception:
        if self._ended is not None and not isinstance(exc, MssqlCdcError):
            return ConnectionBroken(f"{self._where(doing)}: {self._ended}")
        error = translate(exc or TimeoutError(), doing=self._where(doing))
        if isinstance(error, ConnectionBroken):
            self._ended = self._ended or "its connection broke"
        return error

    def _where(self, doing: str) -> str:
        return f"{self.settings.label}: {doing}"

    def _settle(self, job: Future[None]) -> None:
        """Wait until the driver's thread is free again; cut the connection when it does not get free."""
        if job.done():
            return
        if self._connection is not None and self._ended is None:
            self._connection.interrupt()
        if not _wait(job, CANCEL_SECONDS):
            self._ended = self._ended or "a read that was given up did not end"
            self._socket.shut_down()
            _wait(job, CANCEL_SECONDS)

    def _refuse_when_ended(self) -> None:
        if self._ended is not None:
            raise ConnectionBroken(
                f"{self.settings.label}: this session is over, {self._ended}; it does not reconnect, because "
                "another server might answer. The next attempt starts with a new session"
            )


def _fill(
    queue: BatchQueue,
    connection: DriverConnection,
    statement: Statement,
    schema: pa.Schema,
    batch_rows: int,
    table: str,
) -> None:
    """Runs on the driver's thread: from the server into the queue, until the end or nobody takes more."""
    try:
        with contextlib.closing(
            connection.batches(statement, schema, batch_rows=batch_rows, table=table)  # type: ignore[type-var]
        ) as batches:
            for batch in batches:
                if not queue.put(batch):
                    return
    except BaseException as exc:  # noqa: BLE001 - raised on the reader's thread
        queue.end(exc)
    else:
        queue.end()


def _close(connection: DriverConnection, errors: tuple[type[Exception], ...]) -> None:
    with contextlib.suppress(*errors):
        connection.close()


def _wait(future: Future[Any], seconds: float) -> bool:
    """Whether the job is done by then; its outcome is left in it."""
    with contextlib.suppress(FutureTimeoutError):
        future.exception(seconds)
        return True
    return False


def _load_driver(settings: ConnectionSettings) -> Driver:
    name = choose_driver(settings)
    module = importlib.import_module(f"airflow_provider_mssql_cdc.source.{_MODULES[name]}")
    driver: Driver = module.DRIVER
    return driver
