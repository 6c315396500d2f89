"""PRELOGIN and LOGIN7: versions, encryption, name and password (sections 2.2.6.4 and 2.2.6.5)."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.tds.packets import (
    DEFAULT_PACKET_BYTES,
    MAX_PACKET_BYTES,
    MIN_PACKET_BYTES,
    ProtocolError,
)

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


def parse_prelogin(body: bytes) -> Prelogin:
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


TDS_7_4 = 0x74000004

FEATURE_UTF8 = 0x0A
_FEATURES_END = 0xFF

_FIXED = struct.Struct("<IIIIIIBBBBiI")
_INTEGRATED_SECURITY, _HAS_FEATURES = 0x80, 0x10
_FIELDS = ("host", "user", "password", "application", "server", "features", "library", "language", "database")


@dataclass(frozen=True, slots=True)
class Login:
    """What a LOGIN7 message says, as far as this server acts on it."""

    tds_version: int
    packet_bytes: int
    user: str
    password: str
    database: str
    application: str
    integrated_security: bool
    features: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Login(user={self.user!r}, database={self.database!r}, application={self.application!r})"


def parse_login7(body: bytes) -> Login:
    if len(body) < _FIXED.size + 4 * len(_FIELDS):
        raise ProtocolError("the LOGIN7 message is too short")
    _, version, packet_bytes, _, _, _, _, flags2, _, flags3, _, _ = _FIXED.unpack_from(body)
    pairs = struct.unpack_from("<" + "HH" * len(_FIELDS), body, _FIXED.size)
    fields = dict(zip(_FIELDS, zip(pairs[::2], pairs[1::2], strict=True), strict=True))

    def text(name: str) -> bytes:
        offset, characters = fields[name]
        return body[offset : offset + 2 * characters]

    def string(name: str) -> str:
        return text(name).decode("utf-16-le", "replace")

    return Login(
        tds_version=version,
        packet_bytes=_clamp(packet_bytes),
        user=string("user"),
        password=reveal(text("password")),
        database=string("database"),
        application=string("application"),
        integrated_security=bool(flags2 & _INTEGRATED_SECURITY),
        features=_features(body, fields["features"][0]) if flags3 & _HAS_FEATURES else (),
    )


def reveal(scrambled: bytes) -> str:
    """Undo the password's disguise: XOR with 0xA5, then the two halves of each byte swapped."""
    plain = bytes((b ^ 0xA5) >> 4 | ((b ^ 0xA5) & 0x0F) << 4 for b in scrambled)
    return plain.decode("utf-16-le", "replace")


def _clamp(packet_bytes: int) -> int:
    if not packet_bytes:
        return DEFAULT_PACKET_BYTES
    return min(max(packet_bytes, MIN_PACKET_BYTES), MAX_PACKET_BYTES)


def _features(body: bytes, extension: int) -> tuple[int, ...]:
    """The ids of the feature extensions; the extension field holds the offset of their list."""
    (at,) = struct.unpack_from("<I", body, extension)
    found = []
    while at < len(body) and body[at] != _FEATURES_END:
        (length,) = struct.unpack_from("<I", body, at + 1)
        found.append(body[at])
        at += 5 + length
    return tuple(found)
