"""A connection that cannot hang its caller: calls run on a separate thread, with timeouts and cancel.

After it broke, was cancelled or was closed it stays unusable; it never reconnects.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from airflow_provider_mssql_cdc.errors import ConnectionBroken, MssqlCdcError
from airflow_provider_mssql_cdc.source import driver_thread
from airflow_provider_mssql_cdc.source.driver_thread import DriverThread, refuse_unreachable
from airflow_provider_mssql_cdc.source.errors import translate
from airflow_provider_mssql_cdc.source.reader import QUEUE_BYTES, BatchQueue, Driver, DriverConnection
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.task_memory import share_of
from airflow_provider_mssql_cdc.tsql.statement import Statement

log = logging.getLogger(__name__)

T = TypeVar("T")

GRACE_SECONDS = 15.0
"""Grace period beyond the driver's own timeout before the connection is cut."""
CANCEL_SECONDS = 5.0
"""Grace period for a cancelled statement before the connection is cut."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What to read and how: the arguments of :meth:`~.reader.DriverConnection.batches`."""

    statement: Statement
    schema: pa.Schema
    batch_rows: int
    table: str


class GuardedConnection:
    """A driver's connection, and the thread that makes all of its calls.

    :param driver: opens the connection.
    """

    def __init__(self, driver: Driver, settings: ConnectionSettings) -> None:
        self._driver, self._settings = driver, settings
        self._failures: tuple[type[Exception], ...] = (MssqlCdcError, *driver.errors)
        self._thread: DriverThread | None = None
        self._connection: DriverConnection | None = None
        self._socket = driver_thread.DriverSocket(None)
        self._reading: BatchQueue | None = None
        self._ended: str | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._ended is None

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def open(self) -> None:
        """Connect; stops the thread if that fails."""
        self._refuse_when_ended()
        self._thread = DriverThread(f"mssql-cdc {self._settings.conn_id}")
        try:
            self._connection = self.run(
                self._connect, doing="connecting", patience=self._settings.login_timeout_seconds
            )
        except BaseException:
            self.close()
            raise

    def call(self, job: Callable[[DriverConnection], T], *, doing: str) -> T:
        """Run a driver call and wait for it; a signal interrupts the wait.

        :param doing: the action, for error messages.
        """
        self._refuse_when_ended()
        connection = self._connection
        if connection is None:
            raise RuntimeError("the session is not open")
        return self.run(lambda: job(connection), doing=doing, patience=self._settings.query_timeout_seconds)

    def run(self, job: Callable[[], T], *, doing: str, patience: int) -> T:
        """Run a job on the connection's thread.

        :param patience: seconds after which the driver should have timed out by itself; 0 for no limit.
        """
        future = self._submit(job)
        try:
            return future.result(_limit(patience))
        except FutureTimeoutError:
            if future.done():  # the driver's own TimeoutError
                raise self._translated(future.exception(), doing) from None
            raise self._gave_up(doing) from None
        except self._failures as exc:
            raise self._translated(exc, doing) from None

    def stream(self, stream: Stream) -> Iterator[pa.RecordBatch]:
        """Yield batches that the thread prefetches; closing the iterator ends the statement."""
        self._refuse_when_ended()
        connection, doing = self._connection, f"reading {stream.table}"
        if connection is None:
            raise RuntimeError("the session is not open")
        waiting = BatchQueue(max_bytes=share_of(QUEUE_BYTES))
        self._reading = waiting
        job = self._submit(lambda: _fill(waiting, connection, stream))
        try:
            while (batch := self._taken(waiting, doing)) is not None:
                yield batch
            self._refuse_when_ended()
        except self._failures as exc:
            raise self._translated(exc, doing) from None
        finally:
            waiting.close()
            self._reading = None
            self._settle(job)

    def cancel(self, *, wait: bool = True) -> None:
        """Cancel the running statement, from a signal handler or another thread; ends the connection.

        It cuts the connection: the server ends the statement of a disconnected client. The drivers' own
        cancel calls do not work here: db-lib's must not be called from a second thread, and ODBC's waits for
        the fetch that it should end, holding the GIL.
        """
        self._ended = self._ended or "it was cancelled"
        # The session's own thread may close it at the same time: each is looked at once.
        reading, thread = self._reading, self._thread
        if reading is not None:
            reading.close()
        if thread is not None and thread.busy:
            self._socket.shut_down()
            thread.wait_idle(CANCEL_SECONDS if wait else 0)

    def close(self) -> None:
        """Close the connection. Idempotent; never raises or blocks."""
        thread, connection = self._thread, self._connection
        if thread is not None and thread.busy:
            self.cancel()
        self._ended = self._ended or "it was closed"
        self._thread = self._connection = None
        if thread is None:
            return
        if connection is not None and not thread.busy:
            _wait(thread.submit(lambda: _close(connection, self._driver.errors)), CANCEL_SECONDS)
        if thread.busy:
            self._socket.shut_down()
        if not thread.stop(wait_seconds=CANCEL_SECONDS):
            log.warning("%s: the driver still waits for the server; its thread stays", self._settings.label)
        self._socket.release()

    def _connect(self) -> DriverConnection:
        refuse_unreachable(self._settings)
        with driver_thread.connecting:
            before = driver_thread.open_sockets()
            connection = self._driver.open(self._settings)
            self._socket = driver_thread.opened_since(before, port=self._settings.port)
        if seconds := _limit(self._settings.query_timeout_seconds):
            self._socket.limit_silence(seconds)
        return connection

    def _submit(self, job: Callable[[], T]) -> Future[T]:
        thread = self._thread
        if thread is None:
            raise RuntimeError("the session is not open")
        if thread.busy:
            raise RuntimeError("the session is reading; finish or close that read first")
        return thread.submit(job)

    def _taken(self, waiting: BatchQueue, doing: str) -> pa.RecordBatch | None:
        try:
            return waiting.take(wait_seconds=_limit(self._settings.query_timeout_seconds))
        except TimeoutError:
            raise self._gave_up(doing) from None

    def _gave_up(self, doing: str) -> ConnectionBroken:
        self._ended = "the server stopped answering"
        self._socket.shut_down()
        return ConnectionBroken(
            f"{self._where(doing)}: no answer from the server, and none to a request to stop; the connection "
            "was cut. The next attempt starts with a new one. Timeouts are query_timeout_seconds and "
            "login_timeout_seconds of the connection"
        )

    def _translated(self, exc: BaseException | None, doing: str) -> Exception:
        if self._ended is not None and not isinstance(exc, MssqlCdcError):
            return ConnectionBroken(f"{self._where(doing)}: {self._ended}")
        error = translate(
            exc or TimeoutError(), doing=self._where(doing), connected=self._connection is not None
        )
        if isinstance(error, ConnectionBroken):
            self._ended = self._ended or "its connection broke"
        return error

    def _where(self, doing: str) -> str:
        return f"{self._settings.label}: {doing}"

    def _settle(self, job: Future[None]) -> None:
        """Wait until the driver's thread has ended the read; cut the connection on timeout."""
        if not _wait(job, CANCEL_SECONDS):
            self._ended = self._ended or "a read that was given up did not end"
            self._socket.shut_down()
            _wait(job, CANCEL_SECONDS)

    def _refuse_when_ended(self) -> None:
        if self._ended is not None:
            raise ConnectionBroken(
                f"{self._settings.label}: this session is over, {self._ended}; it does not reconnect, "
                "because another server might answer. The next attempt starts with a new session"
            )


def _fill(queue: BatchQueue, connection: DriverConnection, stream: Stream) -> None:
    """Fill the queue on the driver's thread, until the rows end or the queue is closed."""
    batches = connection.batches(
        stream.statement, stream.schema, batch_rows=stream.batch_rows, table=stream.table
    )
    try:
        with contextlib.closing(batches):  # type: ignore[type-var]
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


def _limit(seconds: int) -> float | None:
    return seconds + GRACE_SECONDS if seconds else None


def _wait(future: Future[Any], seconds: float) -> bool:
    """Return whether the job finished in time; its outcome stays in the future."""
    with contextlib.suppress(FutureTimeoutError):
        future.exception(seconds)
        return True
    return False
