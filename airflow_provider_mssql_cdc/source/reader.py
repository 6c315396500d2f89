"""The driver protocol, batch sizing, and a queue for prefetching."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from airflow_provider_mssql_cdc.errors import ConnectionBroken
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.task_memory import share_of
from airflow_provider_mssql_cdc.tsql.statement import ENDED, Statement

BATCH_ROWS = 16_384
"""Rows per fetch. Above some thousand the cost per row is constant; four times as many take 15 MiB more."""
BATCH_BYTES = 16 * 1024 * 1024


class DriverConnection(Protocol):
    """One open connection in autocommit mode; all calls happen on one thread."""

    def execute(self, statement: Statement) -> None:
        """Run a statement without rows."""

    def rows(self, statement: Statement) -> list[dict[str, Any]]:
        """Return all rows of a small result."""

    def results(self, statements: Sequence[Statement]) -> list[list[dict[str, Any]]]:
        """Return the first small result of each statement, all in one round trip.

        :raises ConnectionBroken: the response ended before the last end marker.
        """

    def batches(
        self, statement: Statement, schema: pa.Schema, *, batch_rows: int, table: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a large result in the planned ``schema``, in bounded memory.

        Closing the iterator ends the statement on the server.

        :raises ConnectionBroken: the rows ended early, by the server's own count.
        :raises SchemaDrift: the result has other columns than ``schema``.
        :raises ValueDoesNotFit: names ``table`` and the column, never the value.
        """

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Driver:
    """Open connections, and name the exceptions that they raise.

    :param label: name and version, for logs and facts.
    """

    label: str
    open: Callable[[ConnectionSettings], DriverConnection]
    errors: tuple[type[Exception], ...]


def marked_answers(
    results: Iterable[tuple[list[str], Sequence[Any]]], *, count: int
) -> list[list[dict[str, Any]]]:
    """Split results at the end markers of :func:`~..tsql.statement.in_one_batch`; the first result of each.

    :raises ConnectionBroken: a marker is missing, so an answer that looks complete may be truncated.
    """
    answers: list[list[dict[str, Any]]] = []
    first: list[dict[str, Any]] | None = None
    for names, rows in results:
        if names == [ENDED]:
            if [row[0] for row in rows] != [len(answers) + 1]:
                break
            answers.append(first or [])
            first = None
        elif first is None:
            first = [dict(zip(names, row, strict=True)) for row in rows]
    if len(answers) != count:
        raise ConnectionBroken("the answer ended early; the connection broke")
    return answers


def check_count(sent: int | None, rows: int, table: str) -> None:
    """Compare the server's own row count with the rows received, which detects a truncated result.

    :raises ConnectionBroken: the count is missing or different.
    """
    if sent == rows:
        return
    count = "the server's count of them never came" if sent is None else f"the server counts {sent:,}"
    raise ConnectionBroken(
        f"{table}: the rows ended after {rows:,} and {count}; the connection broke while reading. The range "
        "is read again from its start at the next attempt"
    )


_FIRST_FETCH = 1024
_LARGE_OBJECT_ROWS = 8
_LARGE_OBJECT_BYTES = BATCH_BYTES // 4


class FetchSize:
    """Number of rows to fetch next, so that a fetch stays at a few MB regardless of row width.

    It follows the widest rows seen so far and grows at most fourfold, so that wide rows after narrow ones
    cost one large fetch, not a full batch. With (max) columns, where a value may have 2 GB, a fetch is eight
    rows or 4 MB at most: a call costs about 40 µs.

    :param large_objects: the result has a (max) column.
    """

    def __init__(self, batch_rows: int, *, large_objects: bool) -> None:
        self._most = min(batch_rows, _LARGE_OBJECT_ROWS) if large_objects else batch_rows
        # The next value may be many times as wide as all before it, and is there twice while it is decoded.
        self._bytes = share_of(_LARGE_OBJECT_BYTES if large_objects else BATCH_BYTES)
        self._widest = 1.0
        self.rows = min(1 if large_objects else _FIRST_FETCH, self._most)

    def saw(self, batch: pa.RecordBatch) -> None:
        """Update the estimate from a fetch."""
        if batch.num_rows:
            self._widest = max(self._widest, batch.nbytes / batch.num_rows)
            room = int(self._bytes // self._widest)
            self.rows = max(1, min(self.rows * 4, self._most, room))


def assembled(batches: Iterable[pa.RecordBatch], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches up to ``batch_rows`` rows or :data:`BATCH_BYTES`; large ones pass unchanged."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    most_bytes = share_of(BATCH_BYTES)
    for batch in batches:
        if waiting and (rows + batch.num_rows > batch_rows or size + batch.nbytes > most_bytes):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


QUEUE_BYTES = 8 * 1024 * 1024
QUEUE_BATCHES = 3


class BatchQueue:
    """Bounded queue of a few batches and a few MB; closing it wakes both ends.

    The condition's lock is reentrant: a signal handler may close the queue on a thread that holds it.
    """

    def __init__(self, *, max_bytes: int = QUEUE_BYTES, max_batches: int = QUEUE_BATCHES) -> None:
        self._max_bytes, self._max_batches = max_bytes, max_batches
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def put(self, batch: pa.RecordBatch) -> bool:
        """Wait for room and add a batch; False when the reader has closed the queue."""
        size = batch.get_total_buffer_size()
        with self._changed:
            while self._is_full(size) and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._batches.append(batch)
            self._bytes += size
            self._changed.notify_all()
            return True

    def end(self, error: BaseException | None = None) -> None:
        """Mark the end; ``error`` is raised after the batches before it have been taken."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def close(self) -> None:
        """Discard further batches."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()

    def take(self, *, wait_seconds: float | None) -> pa.RecordBatch | None:
        """Return the next batch, or None after the last.

        :raises TimeoutError: nothing arrived in time.
        """
        deadline = None if wait_seconds is None else time.monotonic() + wait_seconds
        with self._changed:
            while not self._batches and not self._ended and not self._closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._changed.wait(left)
            return self._next()

    def _next(self) -> pa.RecordBatch | None:
        if self._batches:
            batch = self._batches.popleft()
            self._bytes -= batch.get_total_buffer_size()
            self._changed.notify_all()
            return batch
        if self._error is not None:
            raise self._error
        return None

    def _is_full(self, size: int) -> bool:
        if not self._batches:
            return False
        return len(self._batches) >= self._max_batches or self._bytes + size > self._max_bytes
