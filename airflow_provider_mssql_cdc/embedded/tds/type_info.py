"""TYPE_INFO and collations on the wire (sections 2.2.5.4 and 2.2.5.6)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from airflow_provider_mssql_cdc.embedded.seam import COLLATIONS, MAX, SqlType

DEFAULT = "SQL_Latin1_General_CP1_CI_AS"

IGNORE_CASE, IGNORE_ACCENT, IGNORE_KANA, IGNORE_WIDTH = 1, 2, 4, 8
BINARY_SORT, BINARY2_SORT, UTF8 = 16, 32, 64


# SQL collations: name without the ending -> LCID, code page, {ending: sort id}.
_SQL: dict[str, tuple[int, int, dict[str, int]]] = {
    "sql_latin1_general_cp1": (0x409, 1252, {"cs_as": 51, "ci_as": 52, "ci_ai": 54}),
    "sql_latin1_general_cp437": (0x409, 437, {"bin": 30, "bin2": 30, "cs_as": 31, "ci_as": 32, "ci_ai": 34}),
    "sql_latin1_general_cp850": (0x409, 850, {"bin": 40, "bin2": 40, "cs_as": 41, "ci_as": 42, "ci_ai": 44}),
    "sql_latin1_general_cp1251": (0x419, 1251, {"cs_as": 105, "ci_as": 106}),
}

_ENDINGS = {"ci": IGNORE_CASE, "ai": IGNORE_ACCENT, "bin": BINARY_SORT, "bin2": BINARY2_SORT, "utf8": UTF8}
_VERSIONS = {"90": 1, "100": 2, "140": 3, "160": 3}
_SENSITIVITIES = frozenset({"ci", "cs", "ai", "as", "ks", "ws", "vss", "sc", "bin", "bin2", "utf8"})


@dataclass(frozen=True, slots=True)
class Collation:
    """What the wire needs to know of a collation: its five bytes and Python's codec for its varchar."""

    wire: bytes
    codec: str

    @property
    def single_byte(self) -> bool:
        """True when every character of the code page is one byte."""
        return self.codec not in ("utf-8", "cp932", "cp936", "cp949", "cp950")


@lru_cache(maxsize=256)
def collation(name: str | None) -> Collation:
    """Look a collation up by name, whatever its case; None is the server's default.

    An unknown language raises ``LookupError``: guessing a code page would change characters silently.
    """
    head, endings = _split((name or DEFAULT).lower())
    if head in _SQL:
        lcid, page, sort_ids = _SQL[head]
        sort_id = sort_ids.get("_".join(e for e in endings if e != "utf8"), 0)
    elif head in COLLATIONS:
        (lcid, page), sort_id = COLLATIONS[head], 0
    else:
        raise LookupError(f"collation {name!r} is not in the embedded server's table")
    flags = _flags(endings)
    version = next((_VERSIONS[e] for e in endings if e in _VERSIONS), 0)
    wire = struct.pack("<IB", lcid | flags << 20 | version << 28, sort_id)
    return Collation(wire, "utf-8" if flags & UTF8 else f"cp{page}")


def codec_of(wire: bytes) -> str:
    """Python's codec for the five collation bytes that a client sent with a parameter."""
    bits, sort_id = struct.unpack("<IB", wire)
    if bits >> 20 & UTF8:
        return "utf-8"
    return _BY_SORT_ID.get(sort_id) or _BY_LCID.get(bits & 0xFFFFF, "cp1252")


def _split(name: str) -> tuple[str, list[str]]:
    """Cut a name into its language and its endings: versions and sensitivities."""
    parts = name.split("_")
    at = len(parts)
    while at > 1 and (parts[at - 1] in _SENSITIVITIES or parts[at - 1] in _VERSIONS):
        at -= 1
    return "_".join(parts[:at]), parts[at:]


def _flags(endings: list[str]) -> int:
    flags = sum(_ENDINGS.get(ending, 0) for ending in endings)
    if flags & (BINARY_SORT | BINARY2_SORT):
        return flags
    # Kana and width are ignored unless the name says otherwise.
    return flags | (0 if "ks" in endings else IGNORE_KANA) | (0 if "ws" in endings else IGNORE_WIDTH)


_BY_SORT_ID = {sort_id: f"cp{page}" for _, page, ids in _SQL.values() for sort_id in ids.values()}
_BY_LCID = {lcid: f"cp{page}" for lcid, page in COLLATIONS.values()}


IMAGE, TEXT, GUID, INTN = 0x22, 0x23, 0x24, 0x26
DATE, TIME, DATETIME2, DATETIMEOFFSET = 0x28, 0x29, 0x2A, 0x2B
NTEXT, BITN, DECIMALN, NUMERICN, FLTN, MONEYN, DATETIMN = 0x63, 0x68, 0x6A, 0x6C, 0x6D, 0x6E, 0x6F
VARBINARY, VARCHAR, BINARY, CHAR, NVARCHAR, NCHAR, XML = 0xA5, 0xA7, 0xAD, 0xAF, 0xE7, 0xEF, 0xF1

MAX_ON_WIRE = 0xFFFF

_TIMESTAMP_USER_TYPE = 80

# name -> token, bytes of a value
_INTEGER_LIKE: dict[str, tuple[int, int]] = {
    "bit": (BITN, 1),
    "tinyint": (INTN, 1),
    "smallint": (INTN, 2),
    "int": (INTN, 4),
    "bigint": (INTN, 8),
    "real": (FLTN, 4),
    "float": (FLTN, 8),
    "smallmoney": (MONEYN, 4),
    "money": (MONEYN, 8),
    "smalldatetime": (DATETIMN, 4),
    "datetime": (DATETIMN, 8),
    "uniqueidentifier": (GUID, 16),
}
_LARGE = {"text": TEXT, "ntext": NTEXT, "image": IMAGE}
_STRINGS = {"char": CHAR, "varchar": VARCHAR, "nchar": NCHAR, "nvarchar": NVARCHAR}
_BINARIES = {"binary": BINARY, "varbinary": VARBINARY}
_ALIASES = {"numeric": "decimal", "timestamp": "rowversion", "sysname": "nvarchar"}


class UnsupportedType(Exception):
    """A type that this server does not send or receive."""


def name_of(sql_type: SqlType) -> str:
    """The type's name with its synonyms resolved."""
    return _ALIASES.get(sql_type.name, sql_type.name)


def user_type(sql_type: SqlType) -> int:
    return _TIMESTAMP_USER_TYPE if name_of(sql_type) == "rowversion" else 0


def decimal_bytes(precision: int) -> int:
    """Bytes of a decimal's magnitude on the wire."""
    return 4 if precision <= 9 else 8 if precision <= 19 else 12 if precision <= 28 else 16


def time_bytes(scale: int) -> int:
    """Bytes of a time of day with so many fractional digits."""
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def precision_of(sql_type: SqlType) -> int:
    return 18 if sql_type.precision is None else sql_type.precision


def scale_of(sql_type: SqlType, default: int) -> int:
    return default if sql_type.scale is None else sql_type.scale


def is_large(sql_type: SqlType) -> bool:
    """True for values without a useful upper bound: the (max) types, text, ntext, image, xml."""
    return sql_type.length == MAX or name_of(sql_type) in _LARGE or name_of(sql_type) == "xml"


@lru_cache(maxsize=1024)
def type_info(sql_type: SqlType) -> bytes:
    """The bytes of TYPE_INFO; raises UnsupportedType for a type outside the seam's table."""
    name = name_of(sql_type)
    if name in _INTEGER_LIKE:
        return bytes(_INTEGER_LIKE[name])
    if name == "decimal":
        precision = precision_of(sql_type)
        return bytes([DECIMALN, decimal_bytes(precision) + 1, precision, scale_of(sql_type, 0)])
    if name == "date":
        return bytes([DATE])
    if name in ("time", "datetime2", "datetimeoffset"):
        token = {"time": TIME, "datetime2": DATETIME2, "datetimeoffset": DATETIMEOFFSET}[name]
        return bytes([token, scale_of(sql_type, 7)])
    if name == "rowversion":
        return struct.pack("<BH", BINARY, 8)
    if name in _BINARIES:
        return struct.pack("<BH", _BINARIES[name], _length(sql_type))
    if name in _STRINGS:
        return struct.pack("<BH", _STRINGS[name], _length(sql_type)) + collation(sql_type.collation).wire
    if name == "xml":
        return bytes([XML, 0])
    if name in _LARGE:
        return _large(sql_type, _LARGE[name])
    raise UnsupportedType(f"type {sql_type.name!r} is not spoken by the embedded server")


def _length(sql_type: SqlType) -> int:
    if sql_type.length == MAX:
        return MAX_ON_WIRE
    if name_of(sql_type) == "nvarchar" and sql_type.length is None:
        return 256  # sysname
    return max(1, sql_type.length or 1)


def _large(sql_type: SqlType, token: int) -> bytes:
    """text, ntext and image carry the name of their table, which may be empty."""
    sort = b"" if token == IMAGE else collation(sql_type.collation).wire
    return struct.pack("<BI", token, 0x7FFFFFFF) + sort + struct.pack("<BH", 1, 0)
