"""One thread that makes every call of one connection, so that the task's own thread can be interrupted.

A driver's call is C code: while it waits for the server, Python runs no signal handler on the thread
that made it. Airflow ends a task by a signal (``execution_timeout``, "mark failed", a worker's
shutdown), so the task's thread waits on a lock instead, which a signal does interrupt.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class DriverThread:
    """Runs jobs one after the other until :meth:`stop`; a daemon, so that a hanging driver ends with it."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._last: Future[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        return self._last is not None and not self._last.done()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._last = future
        self._jobs.put((future, job))
        return future

    def wait_idle(self, seconds: float) -> bool:
        """Wait for the last job to end, whatever its outcome; False when it has not by then."""
        last = self._last
        if last is None:
            return True
        with contextlib.suppress(TimeoutError):
            last.exception(seconds)
            return True
        return False

    def stop(self, *, wait_seconds: float) -> bool:
        """Let the thread end after its last job; False when it still hangs in a driver's call."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(wait_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            try:
                result = job()
            except BaseException as exc:  # noqa: BLE001 - carried over to whoever waits for it
                future.set_exception(exc)
            else:
                future.set_result(result)
            del item, future, job
