"""TYPE_INFO and collations on the wire (sections 2.2.5.4 and 2.2.5.6)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlType

DEFAULT = "SQL_Latin1_General_CP1_CI_AS"

IGNORE_CASE, IGNORE_ACCENT, IGNORE_KANA, IGNORE_WIDTH, BINARY_SORT, BINARY2_SORT, UTF8 = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
)

# Windows collations: designator -> LCID, code page (the "Windows collation name" page of the manual).
_WINDOWS: dict[str, tuple[int, int]] = {
    "albanian": (0x0041C, 1250),
    "arabic": (0x00401, 1256),
    "chinese_hong_kong_stroke": (0x00C04, 950),
    "chinese_prc": (0x00804, 936),
    "chinese_prc_stroke": (0x20804, 936),
    "chinese_simplified_pinyin": (0x00804, 936),
    "chinese_simplified_stroke_order": (0x20804, 936),
    "chinese_taiwan_bopomofo": (0x30404, 950),
    "chinese_taiwan_stroke": (0x00404, 950),
    "chinese_traditional_bopomofo": (0x30404, 950),
    "chinese_traditional_stroke_count": (0x00404, 950),
    "croatian": (0x0041A, 1250),
    "cyrillic_general": (0x00419, 1251),
    "czech": (0x00405, 1250),
    "danish_greenlandic": (0x00406, 1252),
    "danish_norwegian": (0x00406, 1252),
    "estonian": (0x00425, 1257),
    "finnish_swedish": (0x0040B, 1252),
    "french": (0x0040C, 1252),
    "georgian_modern_sort": (0x10437, 1252),
    "german_phonebook": (0x10407, 1252),
    "greek": (0x00408, 1253),
    "hebrew": (0x0040D, 1255),
    "hungarian": (0x0040E, 1250),
    "hungarian_technical": (0x1040E, 1250),
    "icelandic": (0x0040F, 1252),
    "japanese": (0x00411, 932),
    "japanese_bushu_kakusu": (0x40411, 932),
    "japanese_unicode": (0x10411, 932),
    "japanese_xjis": (0x00411, 932),
    "kazakh": (0x0043F, 1251),
    "korean": (0x00412, 949),
    "korean_wansung": (0x00412, 949),
    "latin1_general": (0x00409, 1252),
    "latvian": (0x00426, 1257),
    "lithuanian": (0x00427, 1257),
    "macedonian_fyrom": (0x0042F, 1251),
    "modern_spanish": (0x00C0A, 1252),
    "polish": (0x00415, 1250),
    "romanian": (0x00418, 1250),
    "serbian_cyrillic": (0x00C1A, 1251),
    "serbian_latin": (0x0081A, 1250),
    "slovak": (0x0041B, 1250),
    "slovenian": (0x00424, 1250),
    "thai": (0x0041E, 874),
    "traditional_spanish": (0x0040A, 1252),
    "turkish": (0x0041F, 1254),
    "ukrainian": (0x00422, 1251),
    "vietnamese": (0x0042A, 1258),
}

# SQL collations: name without the ending -> LCID, code page, {ending: sort id}.
_SQL: dict[str, tuple[int, int, dict[str, int]]] = {
    "sql_latin1_general_cp1": (0x409, 1252, {"cs_as": 51, "ci_as": 52, "ci_ai": 54}),
    "sql_latin1_general_pref_cp1": (0x409, 1252, {"ci_as": 53}),
    "sql_latin1_general_cp437": (0x409, 437, {"bin": 30, "bin2": 30, "cs_as": 31, "ci_as": 32, "ci_ai": 34}),
    "sql_latin1_general_cp850": (0x409, 850, {"bin": 40, "bin2": 40, "cs_as": 41, "ci_as": 42, "ci_ai": 44}),
    "sql_latin1_general_cp1250": (0x409, 1250, {"cs_as": 81, "ci_as": 82}),
    "sql_latin1_general_cp1251": (0x419, 1251, {"cs_as": 105, "ci_as": 106}),
    "sql_latin1_general_cp1253": (0x408, 1253, {"cs_as": 113, "ci_as": 114, "ci_ai": 124}),
    "sql_latin1_general_cp1254": (0x41F, 1254, {"cs_as": 129, "ci_as": 130}),
    "sql_latin1_general_cp1255": (0x40D, 1255, {"cs_as": 137, "ci_as": 138}),
    "sql_latin1_general_cp1256": (0x401, 1256, {"cs_as": 145, "ci_as": 146}),
    "sql_latin1_general_cp1257": (0x425, 1257, {"cs_as": 153, "ci_as": 154}),
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
    elif head in _WINDOWS:
        (lcid, page), sort_id = _WINDOWS[head], 0
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
_BY_LCID = {lcid: f"cp{page}" for lcid, page in _WINDOWS.values()}


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
