"""A short queue between the thread that fetches and the one that writes, so that both work at once."""

from __future__ import annotations

import threading
import time
from collections import deque

import pyarrow as pa

QUEUE_BYTES = 8 * 1024 * 1024
QUEUE_BATCHES = 3


class BatchQueue:
    """Holds at most a few batches and a few MB; closing it wakes whoever waits at either end.

    The condition's lock is reentrant: a signal handler may close the queue on a thread that is inside it.
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
        """Wait for room and add a batch; False when nobody wants any more."""
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
        """No batch follows; ``error`` is raised once those before it have been taken."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()

    def take(self, *, wait_seconds: float | None) -> pa.RecordBatch | None:
        """The next batch, or None after the last.

        :raises TimeoutError: nothing came for that long.
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
