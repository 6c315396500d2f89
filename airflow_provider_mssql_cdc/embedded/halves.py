"""UTF-16 as SQL Server keeps it: units, of which half a surrogate pair may stand alone.

LEFT or a short column cuts a pair in two (learn.microsoft.com, "Collation and Unicode support",
supplementary characters). Neither SQLite nor its Python functions take such a string, so inside the server
the half U+D800 + n is the private character U+10F000 + n; it becomes a half again on its way out.
"""

from __future__ import annotations

import re

_SHIFT = 0x10F000 - 0xD800
_HALF = re.compile("[\ud800-\udfff]")
_KEPT = re.compile("[\U0010f000-\U0010f7ff]")
_EITHER = re.compile("[\ud800-\udfff\U0010f000-\U0010f7ff]")


def kept(text: str) -> str:
    """A string of UTF-16 units as the server keeps it."""
    if text.isascii() or not _EITHER.search(text):
        return text
    return from_utf16(utf16(text))  # two halves that were put together are a character again


def from_utf16(data: bytes) -> str:
    """UTF-16 (little-endian) as a string that the server can keep."""
    text = data.decode("utf-16-le", "surrogatepass")
    return text if text.isascii() else _HALF.sub(lambda half: chr(ord(half[0]) + _SHIFT), text)


def utf16(text: str) -> bytes:
    """A kept text's UTF-16 units (little-endian)."""
    if not text.isascii():
        text = _KEPT.sub(lambda half: chr(ord(half[0]) - _SHIFT), text)
    return text.encode("utf-16-le", "surrogatepass")


def units(text: str) -> int:
    """How many UTF-16 units a kept text has."""
    return len(text) if text.isascii() else len(utf16(text)) // 2


def cut(text: str, start: int, end: int | None) -> str:
    """The UTF-16 units of a kept text from ``start`` to ``end``, counted from 0."""
    if text.isascii():
        return text[start:end]
    return from_utf16(utf16(text)[2 * start : None if end is None else 2 * end])
