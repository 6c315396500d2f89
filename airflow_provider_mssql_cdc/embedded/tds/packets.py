"""Messages and the packets that carry them (section 2.2.3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from airflow_provider_mssql_cdc.embedded.tds.transport import Transport

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
