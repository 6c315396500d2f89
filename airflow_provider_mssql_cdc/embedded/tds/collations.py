"""SQL Server collation names: their five bytes on the wire, and the code page of their varchar.

The bytes are an LCID (20 bits), comparison flags (8), a version (4) and a sort id (8): section 2.2.5.1.2.
A driver picks the code page by the UTF-8 flag, else by the sort id, else by the LCID.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

DEFAULT = "SQL_Latin1_General_CP1_CI_AS"

IGNORE_CASE, IGNORE_ACCENT, IGNORE_KANA, IGNORE_WIDTH, BINARY, BINARY2, UTF8 = 1, 2, 4, 8, 16, 32, 64

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

_ENDINGS = {"ci": IGNORE_CASE, "ai": IGNORE_ACCENT, "bin": BINARY, "bin2": BINARY2, "utf8": UTF8}
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
    if flags & (BINARY | BINARY2):
        return flags
    # Kana and width are ignored unless the name says otherwise.
    return flags | (0 if "ks" in endings else IGNORE_KANA) | (0 if "ws" in endings else IGNORE_WIDTH)


_BY_SORT_ID = {sort_id: f"cp{page}" for _, page, ids in _SQL.values() for sort_id in ids.values()}
_BY_LCID = {lcid: f"cp{page}" for lcid, page in _WINDOWS.values()}
