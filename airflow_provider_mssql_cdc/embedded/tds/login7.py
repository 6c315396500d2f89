"""LOGIN7: the client's name, password, database and wishes (section 2.2.6.4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.tds.packets import (
    DEFAULT_PACKET_BYTES,
    MAX_PACKET_BYTES,
    MIN_PACKET_BYTES,
    ProtocolError,
)

TDS_7_4 = 0x74000004

FEATURE_UTF8 = 0x0A
_FEATURES_END = 0xFF

_FIXED = struct.Struct("<IIIIIIBBBBiI")
_INTEGRATED_SECURITY, _READ_ONLY_INTENT, _HAS_FEATURES = 0x80, 0x20, 0x10
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
    read_only: bool
    features: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Login(user={self.user!r}, database={self.database!r}, application={self.application!r})"


def parse(body: bytes) -> Login:
    if len(body) < _FIXED.size + 4 * len(_FIELDS):
        raise ProtocolError("the LOGIN7 message is too short")
    _, version, packet_bytes, _, _, _, _, flags2, type_flags, flags3, _, _ = _FIXED.unpack_from(body)
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
        read_only=bool(type_flags & _READ_ONLY_INTENT),
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
