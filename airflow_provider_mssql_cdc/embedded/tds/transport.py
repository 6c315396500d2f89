"""Bytes to and from one client, in the clear or through TLS.

TLS runs over memory buffers, because its handshake travels inside PRELOGIN packets (section 3.2.5.1)
and because it may end after LOGIN7. One thread reads while another one writes.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

RECEIVE_BYTES = 1 << 16


class Transport:
    """A socket that may speak TLS; ``receive`` gives ``b""`` when the client has gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._tls: TlsEngine | None = None

    def receive(self) -> bytes:
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            if self._tls is None or not data:
                return data
            plain = self._tls.decrypt(data)
            if plain is None:
                return b""
            if plain:
                return plain

    def send(self, data: bytes) -> None:
        """Send by one system call, which waits, without the interpreter's lock, until all is on its way."""
        if data:
            self._socket.sendall(data if self._tls is None else self._tls.encrypt(data))

    def start_tls(self, engine: TlsEngine) -> None:
        self._tls = engine

    def stop_tls(self) -> None:
        """Go on in the clear: what both sides do after LOGIN7 when only the login is encrypted."""
        self._tls = None

    def close(self) -> None:
        """End both directions; a thread that waits in ``receive`` or ``send`` wakes up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class TlsEngine:
    """The server's side of a TLS session between two memory buffers.

    OpenSSL's session must not be used by two threads at once, so every call holds a lock; no call waits
    for the network.
    """

    PIECE_BYTES = 1 << 20

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._lock = threading.Lock()

    def handshake(self, receive: Callable[[], bytes], send: Callable[[bytes], None]) -> None:
        """Run the handshake over a pair of functions; raises ``ssl.SSLError`` when it fails."""
        while True:
            try:
                self._session.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            if self._outgoing.pending:
                send(self._outgoing.read())
            if done:
                return
            self._incoming.write(receive())

    def decrypt(self, data: bytes) -> bytes | None:
        """What these bytes complete, maybe nothing yet; None when the client has said goodbye."""
        with self._lock:
            self._incoming.write(data)
            plain = bytearray()
            try:
                while piece := self._session.read(RECEIVE_BYTES):
                    plain += piece
            except ssl.SSLWantReadError:
                return bytes(plain)
            except ssl.SSLZeroReturnError:
                pass
            return bytes(plain) or None

    def encrypt(self, data: bytes) -> bytes:
        """The TLS records for these bytes."""
        view, records = memoryview(data), []
        with self._lock:
            for at in range(0, len(view), self.PIECE_BYTES):
                self._session.write(view[at : at + self.PIECE_BYTES])
                records.append(self._outgoing.read())
        return b"".join(records)
