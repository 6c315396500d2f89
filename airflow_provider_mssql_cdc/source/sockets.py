"""The TCP socket under a driver's connection, so that a server that stops answering can be left.

Neither driver gives up when the server neither answers nor acknowledges a cancellation (tried with both),
and neither hands out its socket. The socket that a connect opened is found among the process's file
descriptors; shutting it down makes the driver's call return with a broken connection, and tells the
server to end what it runs.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys
import threading
from pathlib import Path

_DESCRIPTORS = Path("/dev/fd")  # a link to /proc/self/fd on Linux
connecting = threading.RLock()
"""Held while a driver connects, so that one connect's socket is not taken for another's."""


class DriverSocket:
    """A duplicate of the driver's descriptor; None inside where it could not be told apart."""

    def __init__(self, duplicate: socket.socket | None) -> None:
        self._socket = duplicate

    @property
    def is_known(self) -> bool:
        return self._socket is not None

    def limit_silence(self, seconds: float) -> None:
        """Let the kernel end a wait for the server, for a driver that blocks in ``recv``.

        mssql-python holds Python's lock while it waits for the rest of a large value: no thread of this
        process could end that wait.
        """
        if self._socket is not None and sys.platform != "win32":
            timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)

    def shut_down(self) -> None:
        """End the connection under the driver; does not wait."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the duplicate; the connection is closed when the driver has closed its own."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def open_sockets() -> dict[int, int]:
    """File descriptor → inode of every socket of this process."""
    found: dict[int, int] = {}
    for path in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        with contextlib.suppress(OSError):
            status = os.fstat(int(path.name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(path.name)] = status.st_ino
    return found


def opened_since(before: dict[int, int], *, port: int | None) -> DriverSocket:
    """The one connected socket that was not there before, to ``port`` when that is known."""
    new = [fd for fd, inode in open_sockets().items() if before.get(fd) != inode]
    candidates = [sock for fd in new if (sock := _connected(fd, port=port)) is not None]
    if len(candidates) == 1:
        return DriverSocket(candidates[0])
    for sock in candidates:
        sock.close()
    return DriverSocket(None)


def _connected(descriptor: int, *, port: int | None) -> socket.socket | None:
    duplicate: socket.socket | None = None
    with contextlib.suppress(OSError):
        duplicate = socket.socket(fileno=os.dup(descriptor))
        is_tcp = (
            duplicate.family in (socket.AF_INET, socket.AF_INET6) and duplicate.type == socket.SOCK_STREAM
        )
        if is_tcp and port in (None, duplicate.getpeername()[1]):
            return duplicate
    if duplicate is not None:
        duplicate.close()
    return None
