"""The thread that runs a driver's calls, the driver's socket, and a check that the server listens."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import queue
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from airflow_provider_mssql_cdc.errors import ServerUnreachable
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings

LONGEST_SECONDS = 15
"""Maximum wait for a TCP connect, which takes one round trip; a longer login timeout is for the login."""

_RETRIED = (
    "The task tries again, as its retries say: a server that restarts or fails over comes back, a wrong "
    "host or port does not"
)


def refuse_unreachable(settings: ConnectionSettings) -> None:
    """Raise ServerUnreachable if no TCP connection can be opened.

    With an instance name the port is not known yet, and with MultiSubnetFailover the driver tries all
    addresses in parallel, which this check would try one by one: in both cases it only resolves the name.
    """
    try:
        _look_up(settings)
        if settings.port is not None and not settings.multi_subnet_failover:
            _connect(settings, settings.port)
    except OSError as exc:
        raise ServerUnreachable(
            f"{settings.label}: connecting: {reason_of(exc, settings)}. {_RETRIED}"
        ) from None


def reason_of(exc: OSError, settings: ConnectionSettings) -> str:
    """Describe a failed lookup or connect in one sentence."""
    if isinstance(exc, socket.gaierror):
        return f"{settings.host} is not known: no address was found for this name. Check the host for a typo"
    if isinstance(exc, ConnectionRefusedError):
        return (
            f"nothing listens on {settings.server} (refused). Check the port, whether TCP/IP is enabled and "
            "whether the server runs"
        )
    if exc.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL):
        return f"there is no route to {settings.server}. Check the address, the VPN and the network"
    if isinstance(exc, TimeoutError):
        return (
            f"{settings.server} did not answer within {_seconds(settings)} s: a firewall that drops packets, "
            "or an address without a machine"
        )
    return f"{settings.server} cannot be reached ({exc.strerror or type(exc).__name__})"


def _look_up(settings: ConnectionSettings) -> None:
    try:
        socket.getaddrinfo(settings.host, settings.port or 0, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is empty or above 63 characters
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from None


def _connect(settings: ConnectionSettings, port: int) -> None:
    with contextlib.closing(socket.create_connection((settings.host, port), timeout=_seconds(settings))):
        pass


def _seconds(settings: ConnectionSettings) -> int:
    return min(settings.login_timeout_seconds or LONGEST_SECONDS, LONGEST_SECONDS)


_DESCRIPTORS = Path("/dev/fd")  # a link to /proc/self/fd on Linux
connecting = threading.RLock()
"""Held during a connect, so that the sockets of two concurrent connects are not confused."""


class DriverSocket:
    """Duplicate of the driver's socket descriptor; holds None if the socket could not be identified."""

    def __init__(self, duplicate: socket.socket | None) -> None:
        self._socket = duplicate

    def limit_silence(self, seconds: float) -> None:
        """Set a receive timeout in the kernel, for a driver that blocks in ``recv``.

        mssql-python holds the GIL while it waits for the rest of a large value, so no other thread of this
        process could end that wait.
        """
        if self._socket is not None and sys.platform != "win32":
            timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)

    def shut_down(self) -> None:
        """Shut the connection down under the driver; does not block."""
        if (duplicate := self._socket) is not None:  # another thread may release it concurrently
            with contextlib.suppress(OSError):
                duplicate.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Close the duplicate; the connection closes when the driver has closed its own descriptor."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def open_sockets() -> dict[int, int]:
    """Return file descriptor → inode for every socket of this process."""
    found: dict[int, int] = {}
    for path in _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ():
        with contextlib.suppress(OSError):
            status = os.fstat(int(path.name))
            if stat.S_ISSOCK(status.st_mode):
                found[int(path.name)] = status.st_ino
    return found


def opened_since(before: dict[int, int], *, port: int | None) -> DriverSocket:
    """Return the one connected socket that is new, to ``port`` if that is known."""
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


T = TypeVar("T")


class DriverThread:
    """Run jobs one at a time until :meth:`stop`; daemon, so that a hanging driver does not block exit."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._last: Future[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Return whether a job runs or waits."""
        return self._last is not None and not self._last.done()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._last = future
        # What the caller's context says holds for its job too: the share of a buffer (task_memory).
        context = contextvars.copy_context()
        self._jobs.put((future, lambda: context.run(job)))
        return future

    def wait_idle(self, seconds: float) -> bool:
        """Wait for the last job to end, whatever its outcome; False on timeout."""
        last = self._last
        if last is None:
            return True
        with contextlib.suppress(TimeoutError):
            last.exception(seconds)
            return True
        return False

    def stop(self, *, wait_seconds: float) -> bool:
        """Let the thread end after its last job; False if it still hangs in a driver call."""
        self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(wait_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            try:
                result = job()
            except BaseException as exc:  # noqa: BLE001 - re-raised in the waiting thread
                future.set_exception(exc)
            else:
                future.set_result(result)
            del item, future, job
