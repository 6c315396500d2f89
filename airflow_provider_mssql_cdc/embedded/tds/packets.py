"""Messages and packets (section 2.2.3), in the clear or through TLS; requests are read on a thread."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

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


SQL_BATCH, RPC, RESPONSE, ATTENTION, TRANSACTION, LOGIN7, PRELOGIN = 1, 3, 4, 6, 14, 16, 18

END_OF_MESSAGE, IGNORE, RESET, RESET_SKIP_TRANSACTION = 0x01, 0x02, 0x08, 0x10

HEADER_BYTES = 8
DEFAULT_PACKET_BYTES, MIN_PACKET_BYTES, MAX_PACKET_BYTES = 4096, 512, 32767

_HEADER = struct.Struct(">BBHHBB")


class ProtocolError(Exception):
    """The client sent what TDS 7.4 does not allow, or what this server does not speak."""


class Disconnected(Exception):
    """The client has closed the connection."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request: its packet type, the status bits of its packets together, and its bytes."""

    kind: int
    status: int
    body: bytes

    @property
    def resets(self) -> bool:
        """A pooled connection starts its next life with this request."""
        return bool(self.status & (RESET | RESET_SKIP_TRANSACTION))

    @property
    def ignored(self) -> bool:
        """The client changed its mind while it was sending."""
        return bool(self.status & IGNORE)


class MessageReader:
    """Cuts what a transport receives into messages."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._buffer = bytearray()

    def read(self) -> Message:
        """The next message; raises Disconnected at the end and ProtocolError on a broken header."""
        body, status = bytearray(), 0
        while True:
            kind, flags, length, _, _, _ = _HEADER.unpack(self._take(HEADER_BYTES))
            if length < HEADER_BYTES:
                raise ProtocolError(f"a packet of {length} bytes is shorter than its header")
            body += self._take(length - HEADER_BYTES)
            status |= flags
            if flags & END_OF_MESSAGE:
                return Message(kind, status, bytes(body))

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self._transport.receive()
            if not data:
                raise Disconnected
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


class MessageWriter:
    """Collects the tokens of an answer and sends them in full packets."""

    def __init__(self, transport: Transport, session_id: int = 0) -> None:
        self.packet_bytes = DEFAULT_PACKET_BYTES
        self.session_id = session_id
        self._transport = transport
        self._pending = bytearray()
        self._packet_id = 1

    def write(self, data: bytes) -> None:
        """Add bytes to the message."""
        self._pending += data

    def send_above(self, limit: int) -> None:
        """Once so many bytes wait, send what fills packets."""
        if len(self._pending) >= limit:
            self._transport.send(self._full_packets(RESPONSE))

    def break_off(self, *, whole: bool) -> None:
        """Send what there is and no end: all of it, or all but the last byte."""
        if not whole:
            del self._pending[-1:]
        if self._pending:
            self._transport.send(self._full_packets(RESPONSE) + self._last_packet(RESPONSE, status=0))

    def finish(self, kind: int = RESPONSE) -> None:
        """End the message."""
        self._transport.send(self._full_packets(kind) + self._last_packet(kind, status=END_OF_MESSAGE))
        self._packet_id = 1

    def send(self, body: bytes, kind: int = RESPONSE) -> None:
        """Send a whole message."""
        self._pending += body
        self.finish(kind)

    def _full_packets(self, kind: int) -> bytes:
        """Frame what fills packets, but keep at least one byte for the packet that comes last."""
        payload = self.packet_bytes - HEADER_BYTES
        count = max(0, len(self._pending) - 1) // payload
        if not count:
            return b""
        packets = np.empty((count, self.packet_bytes), np.uint8)
        header = _HEADER.pack(kind, 0, self.packet_bytes, self.session_id, 0, 0)
        packets[:, :HEADER_BYTES] = np.frombuffer(header, np.uint8)
        packets[:, 6] = np.arange(self._packet_id, self._packet_id + count) & 0xFF
        full = np.frombuffer(self._pending, np.uint8, count * payload)
        packets[:, HEADER_BYTES:] = full.reshape(count, payload)
        self._packet_id += count
        self._pending = self._pending[count * payload :]
        return packets.tobytes()

    def _last_packet(self, kind: int, *, status: int) -> bytes:
        length = HEADER_BYTES + len(self._pending)
        header = _HEADER.pack(kind, status, length, self.session_id, self._packet_id & 0xFF, 0)
        packet, self._pending = header + self._pending, bytearray()
        self._packet_id += 1
        return packet


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
