"""The tokens of an answer (section 2.2.7), each as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from airflow_provider_mssql_cdc.embedded.seam import ResultColumn
from airflow_provider_mssql_cdc.embedded.tds import type_info
from airflow_provider_mssql_cdc.embedded.tds.handshake import SERVER_VERSION, TDS_7_4
from airflow_provider_mssql_cdc.embedded.tds.type_info import DEFAULT, collation

SERVER_NAME = "EMBEDDED"

DONE, DONEPROC, DONEINPROC = 0xFD, 0xFE, 0xFF
MORE, ERROR_BIT, COUNT, ATTENTION_BIT = 0x01, 0x02, 0x10, 0x20
SELECT_COMMAND = 0xC1

DATABASE, LANGUAGE, PACKET_SIZE, SQL_COLLATION = 1, 2, 4, 7
BEGIN_TRANSACTION, COMMIT_TRANSACTION, ROLLBACK_TRANSACTION, RESET_ACKNOWLEDGED = 8, 9, 10, 18

#: Messages of a lower severity are not errors.
LEAST_ERROR = 11

MAX_TEXT_CHARACTERS = 4000
_NULLABLE, _UPDATABILITY_UNKNOWN = 0x01, 0x08
_OUTPUT_PARAMETER = 0x01


def short_text(text: str) -> bytes:
    """B_VARCHAR: one byte that counts the UTF-16 units, then the text."""
    data = text.encode("utf-16-le", "surrogatepass")[:510]
    return bytes([len(data) // 2]) + data


def long_text(text: str) -> bytes:
    """US_VARCHAR: two bytes that count the UTF-16 units, then the text."""
    data = text.encode("utf-16-le", "surrogatepass")
    return struct.pack("<H", len(data) // 2) + data


def _sized(token: int, data: bytes) -> bytes:
    return struct.pack("<BH", token, len(data)) + data


def done(kind: int, status: int, rows: int | None = None, command: int = 0) -> bytes:
    """DONE, DONEPROC or DONEINPROC; ``rows`` sets the bit that says that the count is valid."""
    if rows is not None:
        status |= COUNT
    return struct.pack("<BHHQ", kind, status, command, rows or 0)


def message(number: int, text: str, *, severity: int = 0, state: int = 1) -> bytes:
    """INFO below severity 11, ERROR from there on."""
    data = struct.pack("<IBB", number & 0xFFFFFFFF, state, severity) + long_text(text[:MAX_TEXT_CHARACTERS])
    data += short_text(SERVER_NAME) + short_text("") + struct.pack("<I", 1)
    return _sized(0xAA if severity >= LEAST_ERROR else 0xAB, data)


def environment_text(kind: int, new: str, old: str) -> bytes:
    """ENVCHANGE of a string: database, language, packet size."""
    return _sized(0xE3, bytes([kind]) + short_text(new) + short_text(old))


def environment_bytes(kind: int, new: bytes = b"", old: bytes = b"") -> bytes:
    """ENVCHANGE of bytes: collation, transaction descriptors."""
    return _sized(0xE3, bytes([kind, len(new)]) + new + bytes([len(old)]) + old)


def login_acknowledged() -> bytes:
    major, minor, build = SERVER_VERSION
    data = struct.pack(">BI", 1, TDS_7_4) + short_text("Microsoft SQL Server")
    return _sized(0xAD, data + struct.pack(">BBH", major, minor, build))


def server_collation() -> bytes:
    return environment_bytes(SQL_COLLATION, collation(DEFAULT).wire)


def features_acknowledged(features: dict[int, bytes]) -> bytes:
    """FEATUREEXTACK: feature id and data."""
    items = b"".join(struct.pack("<BI", key, len(data)) + data for key, data in features.items())
    return b"\xae" + items + b"\xff"


def return_status(value: int = 0) -> bytes:
    return struct.pack("<Bi", 0x79, value)


def return_integer(ordinal: int, name: str, value: int) -> bytes:
    """RETURNVALUE of an int output parameter: the handle of a prepared statement."""
    head = struct.pack("<BH", 0xAC, ordinal) + short_text(name)
    return head + struct.pack("<BIHBBBi", _OUTPUT_PARAMETER, 0, 0, type_info.INTN, 4, 4, value)


def column_metadata(columns: Sequence[ResultColumn]) -> bytes:
    """COLMETADATA: what the rows that follow look like."""
    out = bytearray(struct.pack("<BH", 0x81, len(columns)))
    for column in columns:
        flags = _UPDATABILITY_UNKNOWN | (_NULLABLE if column.nullable else 0)
        out += struct.pack("<IH", type_info.user_type(column.type), flags)
        out += type_info.type_info(column.type) + short_text(column.name)
    return bytes(out)
