"""Reads a client's requests on a thread of its own.

A client that gives up on a statement sends ATTENTION while the server is still at work (section 2.2.1.7);
somebody has to be listening then. The same thread notices a client that goes away.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

from airflow_provider_mssql_cdc.embedded.tds.packets import (
    ATTENTION,
    Disconnected,
    Message,
    MessageReader,
    ProtocolError,
)

#: Until an interrupted statement has ended, it is cancelled again and again: the first time may have been a
#: moment before it began.
CANCEL_AGAIN_SECONDS = 0.05


class Inbox:
    """The requests of one client, in order; None is the end.

    ``cancel`` is called on the inbox's thread when ATTENTION or the end arrives while a statement runs. It
    cannot hit the statement after the one that was meant: that one is read by the same thread, later.
    """

    def __init__(self, reader: MessageReader, cancel: Callable[[], None]) -> None:
        self._reader, self._cancel = reader, cancel
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._running = False
        self._attention = False
        self._gone = False
        self._thread = threading.Thread(target=self._read, name="tds-inbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread to end; the transport must be closed before."""
        self._thread.join()

    def take(self) -> Message | None:
        """Wait for the next request."""
        return self._messages.get()

    @property
    def interrupted(self) -> bool:
        """True once the client wants no more of the present answer."""
        return self._attention or self._gone

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While this holds, ``cancel`` may be called."""
        with self._changed:
            self._running = True
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify()

    def acknowledge_attention(self) -> bool:
        """True, once, when there is an ATTENTION to be answered."""
        with self._changed:
            pending, self._attention = self._attention, False
        return pending

    def _read(self) -> None:
        try:
            while True:
                message = self._reader.read()
                if message.kind == ATTENTION:
                    self._interrupt(gone=False)
                self._messages.put(message)
        except (Disconnected, ProtocolError, OSError):
            self._interrupt(gone=True)
            self._messages.put(None)

    def _interrupt(self, *, gone: bool) -> None:
        with self._changed:
            self._gone = gone
            self._attention = self._attention or not gone
            while self._running:
                self._cancel()
                self._changed.wait(CANCEL_AGAIN_SECONDS)
