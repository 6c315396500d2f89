"""What a client asks for: SQL batches, remote procedure calls with parameters, transaction requests."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.seam import GUID_ORDER, MAX, Parameter, SqlType
from airflow_provider_mssql_cdc.embedded.tds import type_info as t
from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.plain import DATETIME_TICKS_PER_DAY, DECIMAL_BIAS, TICKS_PER_DAY
from airflow_provider_mssql_cdc.embedded.tds.type_info import codec_of

BY_REFERENCE = 0x01

_PLP_NULL = 0xFFFF_FFFF_FFFF_FFFF
_SHORT_NULL = 0xFFFF

Typed = tuple[SqlType, object]

# Types with a length byte: token -> {declared bytes: name}.
_BY_LENGTH = {
    t.INTN: {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"},
    t.BITN: {1: "bit"},
    t.FLTN: {4: "real", 8: "float"},
    t.MONEYN: {4: "smallmoney", 8: "money"},
    t.DATETIMN: {4: "smalldatetime", 8: "datetime"},
    t.GUID: {16: "uniqueidentifier"},
}
_STRINGS = {t.CHAR: "char", t.VARCHAR: "varchar", t.NCHAR: "nchar", t.NVARCHAR: "nvarchar"}
_BINARIES = {t.BINARY: "binary", t.VARBINARY: "varbinary"}
_TIMES = {t.TIME: "time", t.DATETIME2: "datetime2", t.DATETIMEOFFSET: "datetimeoffset"}


class Cursor:
    """A place in a message; reading past its end is a ProtocolError."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    @property
    def exhausted(self) -> bool:
        return self._at >= len(self._data)

    def peek(self) -> int:
        return self._data[self._at]

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise ProtocolError("the message ends inside a value")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def short_text(self) -> str:
        return self.take(2 * self.number(1)).decode("utf-16-le", "surrogatepass")


def parameter(cursor: Cursor) -> Parameter:
    """Read one parameter: name, status, type and value (section 2.2.6.6)."""
    name = cursor.short_text()
    status = cursor.number(1)
    sql_type, value = _typed(cursor)
    return Parameter(name, sql_type, value, output=bool(status & BY_REFERENCE))


def _typed(cursor: Cursor) -> Typed:
    token = cursor.number(1)
    for tokens, read in _READERS:
        if token in tokens:
            return read(cursor, token)
    if token == t.DATE:
        data = cursor.take(cursor.number(1))
        return SqlType("date"), int.from_bytes(data, "little") if data else None
    raise t.UnsupportedType(f"parameters of the type with token {token:#04x} are not supported")


def _by_length(cursor: Cursor, token: int) -> Typed:
    declared = cursor.number(1)
    data = cursor.take(cursor.number(1))
    name = _BY_LENGTH[token].get(declared)
    if name is None:
        raise ProtocolError(f"a value of type {token:#04x} cannot have {declared} bytes")
    return SqlType(name), _SCALARS[name](data) if data else None


def _decimal(cursor: Cursor, _: int) -> Typed:
    cursor.number(1)
    precision, scale = cursor.number(1), cursor.number(1)
    data = cursor.take(cursor.number(1))
    sql_type = SqlType("decimal", precision=precision, scale=scale)
    if not data:
        return sql_type, None
    magnitude = int.from_bytes(data[1:], "little")
    scaled = magnitude if data[0] else -magnitude
    return sql_type, scaled if precision <= 18 else (scaled + DECIMAL_BIAS).to_bytes(16, "big")


def _time(cursor: Cursor, token: int) -> Typed:
    name, scale = _TIMES[token], cursor.number(1)
    sql_type = SqlType(name, scale=scale)
    data = cursor.take(cursor.number(1))
    if not data:
        return sql_type, None
    width = t.time_bytes(scale)
    units = int.from_bytes(data[:width], "little") * 10 ** (7 - scale)
    if name == "time":
        return sql_type, units
    units += int.from_bytes(data[width : width + 3], "little") * TICKS_PER_DAY
    if name == "datetime2":
        return sql_type, units
    (offset,) = struct.unpack("<h", data[width + 3 :])
    return sql_type, f"{units:020d}{offset:+05d}"


def _string(cursor: Cursor, token: int) -> Typed:
    length = cursor.number(2)
    codec = codec_of(cursor.take(5))
    wide = token in (t.NCHAR, t.NVARCHAR)
    data = _variable(cursor, length)
    sql_type = SqlType(_STRINGS[token], MAX if length == t.MAX_ON_WIRE else length)
    if data is None:
        return sql_type, None
    text = _wide(data) if wide else data.decode(codec, "replace")
    padding = length - len(data) if token in (t.CHAR, t.NCHAR) else 0
    return sql_type, text + " " * (padding // 2 if wide else padding)


def _bytes(cursor: Cursor, token: int) -> Typed:
    length = cursor.number(2)
    data = _variable(cursor, length)
    sql_type = SqlType(_BINARIES[token], MAX if length == t.MAX_ON_WIRE else length)
    if data is not None and token == t.BINARY:
        data = data.ljust(length, b"\x00")
    return sql_type, data


def _variable(cursor: Cursor, declared: int) -> bytes | None:
    if declared == t.MAX_ON_WIRE:
        return _chunks(cursor)
    length = cursor.number(2)
    return None if length == _SHORT_NULL else cursor.take(length)


def _chunks(cursor: Cursor) -> bytes | None:
    """PLP: a total length that may be unknown, chunks, an empty chunk."""
    if cursor.number(8) == _PLP_NULL:
        return None
    data = bytearray()
    while size := cursor.number(4):
        data += cursor.take(size)
    return bytes(data)


def _wide(data: bytes) -> str:
    return halves.from_utf16(data)


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _datetime(data: bytes) -> int:
    days, ticks = struct.unpack("<iI", data)
    return int(days) * DATETIME_TICKS_PER_DAY + int(ticks)


def _smalldatetime(data: bytes) -> int:
    days, minutes = struct.unpack("<HH", data)
    return int(days) * 1440 + int(minutes)


def _money(data: bytes) -> int:
    high, low = struct.unpack("<iI", data)
    return int(high) << 32 | int(low)


def _real(data: bytes) -> float:
    return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])


_SCALARS: dict[str, Callable[[bytes], object]] = {
    "bit": lambda data: int(data != b"\x00"),
    "tinyint": lambda data: data[0],
    "smallint": _signed,
    "int": _signed,
    "bigint": _signed,
    "real": _real,
    "float": _real,
    "smallmoney": _signed,
    "money": _money,
    "datetime": _datetime,
    "smalldatetime": _smalldatetime,
    "uniqueidentifier": lambda data: bytes(data[i] for i in GUID_ORDER),
}

_READERS: tuple[tuple[frozenset[int], Callable[[Cursor, int], Typed]], ...] = (
    (frozenset(_BY_LENGTH), _by_length),
    (frozenset({t.DECIMALN, t.NUMERICN}), _decimal),
    (frozenset(_STRINGS), _string),
    (frozenset(_BINARIES), _bytes),
    (frozenset(_TIMES), _time),
)


BEGIN, COMMIT, ROLLBACK = 5, 7, 8

_BATCH_SEPARATORS = (0x80, 0xFE, 0xFF)
_NAME_IS_NUMBER = 0xFFFF
_BEGIN_NEXT = 0x01

#: Procedures that a client may call by number (section 2.2.6.6).
PROCEDURES = {
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}

ISOLATION_LEVELS = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One remote procedure call; several may come in one message."""

    procedure: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """Begin, commit or roll back; ``begins_next`` opens another transaction at once."""

    kind: int
    isolation: str | None
    begins_next: bool = False


def sql_batch(body: bytes) -> str:
    cursor = _after_headers(body)
    return halves.from_utf16(cursor.rest())


def calls(body: bytes) -> list[Call]:
    cursor = _after_headers(body)
    found = []
    while not cursor.exhausted:
        found.append(_call(cursor))
    return found


def transaction(body: bytes) -> TransactionRequest:
    """TM_BEGIN_XACT, TM_COMMIT_XACT or TM_ROLLBACK_XACT (section 2.2.6.9)."""
    cursor = _after_headers(body)
    kind = cursor.number(2)
    if kind == BEGIN:
        return TransactionRequest(kind, ISOLATION_LEVELS.get(cursor.number(1)))
    if kind not in (COMMIT, ROLLBACK):
        raise ProtocolError(f"transaction request {kind} is not supported")
    cursor.take(cursor.number(1))
    if cursor.exhausted or not cursor.number(1) & _BEGIN_NEXT:
        return TransactionRequest(kind, None)
    return TransactionRequest(kind, ISOLATION_LEVELS.get(cursor.number(1)), begins_next=True)


def _after_headers(body: bytes) -> Cursor:
    """Skip ALL_HEADERS, whose first field is its own length."""
    cursor = Cursor(body)
    length = cursor.number(4)
    if length < 4:
        raise ProtocolError("the request has no headers: the client does not speak TDS 7.2 or later")
    cursor.take(length - 4)
    return cursor


def _call(cursor: Cursor) -> Call:
    length = cursor.number(2)
    if length == _NAME_IS_NUMBER:
        number = cursor.number(2)
        name = PROCEDURES.get(number, f"procedure {number}")
    else:
        name = cursor.take(2 * length).decode("utf-16-le")
    cursor.number(2)  # options: recompile, no metadata, reuse metadata
    parameters = []
    while not cursor.exhausted and cursor.peek() not in _BATCH_SEPARATORS:
        parameters.append(parameter(cursor))
    if not cursor.exhausted:
        cursor.number(1)
    return Call(name, tuple(parameters))
