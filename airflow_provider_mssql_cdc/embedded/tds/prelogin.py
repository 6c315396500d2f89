"""PRELOGIN: who speaks which version, and how much of the connection is encrypted (section 2.2.6.5)."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError

SERVER_VERSION = (16, 0, 1000)

_VERSION, _ENCRYPTION, _INSTANCE, _THREAD, _MARS, _FEDERATED = 0, 1, 2, 3, 4, 6
_END = 0xFF

_OFF, _ON, _NOT_SUPPORTED, _REQUIRED = 0, 1, 2, 3


class Tls(enum.Enum):
    """What a listener offers.

    ``OFF``: no TLS at all. ``LOGIN``: the login is encrypted, and the rest too when the client asks.
    ``REQUIRED``: all of it, or no connection.
    """

    OFF = "off"
    LOGIN = "login"
    REQUIRED = "required"


class Encryption(enum.Enum):
    """What the two sides settle on."""

    NONE = "none"
    LOGIN_ONLY = "login only"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Prelogin:
    """What the client's PRELOGIN said, as far as the answer depends on it."""

    encryption: int
    federated: bool


def parse(body: bytes) -> Prelogin:
    options = dict(_options(body))
    encryption = options.get(_ENCRYPTION, bytes([_NOT_SUPPORTED]))
    return Prelogin(encryption[0] & 0x0F, _FEDERATED in options)


def _options(body: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(body) and body[at] != _END:
        if at + 5 > len(body):
            raise ProtocolError("the PRELOGIN message ends inside its option table")
        option, offset, length = struct.unpack_from(">BHH", body, at)
        found.append((option, body[offset : offset + length]))
        at += 5
    return found


def settle(client: Prelogin, offer: Tls) -> tuple[int, Encryption]:
    """The server's ENCRYPTION byte and what follows from it (the table of section 2.2.6.5)."""
    wants = client.encryption
    if offer is Tls.OFF:
        return _NOT_SUPPORTED, Encryption.NONE
    if wants == _NOT_SUPPORTED:
        return (_REQUIRED, Encryption.FULL) if offer is Tls.REQUIRED else (_NOT_SUPPORTED, Encryption.NONE)
    if offer is Tls.REQUIRED:
        return _REQUIRED, Encryption.FULL
    return (_ON, Encryption.FULL) if wants in (_ON, _REQUIRED) else (_OFF, Encryption.LOGIN_ONLY)


def answer(client: Prelogin, encryption: int) -> bytes:
    """The server's PRELOGIN message."""
    major, minor, build = SERVER_VERSION
    options = [
        (_VERSION, struct.pack(">BBHH", major, minor, build, 0)),
        (_ENCRYPTION, bytes([encryption])),
        (_INSTANCE, b"\x00"),
        (_THREAD, b""),
        (_MARS, b"\x00"),
    ]
    if client.federated:
        options.append((_FEDERATED, b"\x00"))
    table, data = b"", b""
    start = 5 * len(options) + 1
    for option, value in options:
        table += struct.pack(">BHH", option, start + len(data), len(value))
        data += value
    return table + bytes([_END]) + data
