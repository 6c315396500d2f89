"""A StatsD server on loopback that keeps what it receives."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_LARGEST = 65_535


class StatsdServer:
    """Receives metrics while it is entered.

    :ivar received: each metric as it was sent, ``name:value|kind``.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.received: list[str] = []
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                self.received += self._socket.recv(_LARGEST).decode().splitlines()

    def names(self) -> set[str]:
        return {metric.partition(":")[0] for metric in self.received}
