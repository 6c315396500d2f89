"""Collations: order, equality and code page of the strings of a column."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.seam import COLLATIONS, SqlError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable


DEFAULT = "SQL_Latin1_General_CP1_CI_AS"
INSTANT = "datetimeoffset"

_CODE_PAGES = {name: page for name, (_, page) in COLLATIONS.items()} | {
    "sql_latin1_general_cp1": 1252,
    **{f"sql_latin1_general_cp{page}": page for page in (437, 850, 1251)},
}
_FLAGS = frozenset("CI CS AI AS KI KS WI WS BIN BIN2 SC VSS UTF8 80 90 100 140 160 PREF".split())


@dataclass(frozen=True, slots=True)
class Collation:
    """``binary`` compares code points; ``codec`` is the Python codec of char and varchar."""

    name: str
    code_page: int
    case_sensitive: bool
    accent_sensitive: bool
    binary: bool

    @property
    def codec(self) -> str:
        return "utf-8" if self.code_page == 65001 else f"cp{self.code_page}"

    def encode(self, text: str) -> bytes:
        """The bytes of a varchar; characters outside the code page become question marks."""
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError:
            passed = _passed_through(self.codec)
            return b"".join(
                bytes([ord(character)]) if character in passed else character.encode(self.codec, "replace")
                for character in text
            )

    def decode(self, data: bytes) -> str:
        try:
            return data.decode(self.codec)
        except UnicodeDecodeError:
            passed = _passed_through(self.codec)
            if not passed:
                return data.decode(self.codec, "replace")
            return "".join(
                chr(byte) if chr(byte) in passed else bytes([byte]).decode(self.codec, "replace")
                for byte in data
            )

    def narrow(self, text: str) -> str:
        """The text as it comes back out of the code page."""
        return text if text.isascii() or self.code_page == 65001 else self.decode(self.encode(text))


@lru_cache(maxsize=64)
def _passed_through(codec: str) -> frozenset[str]:
    """Bytes that a single-byte code page leaves undefined, 0x81 of 1252 for one: Windows makes them the
    control characters of that number, both ways."""
    if not codec.startswith(("cp125", "cp874")):
        return frozenset()
    controls = range(0x80, 0xA0)
    return frozenset(chr(byte) for byte in controls if bytes([byte]).decode(codec, "replace") == "\ufffd")


@lru_cache(maxsize=256)
def collation(name: str) -> Collation:
    """The collation of that name (any case). Error 448."""
    words = name.split("_")
    flags = [w.upper() for w in words if w.upper() in _FLAGS]
    stem = "_".join(w for w in words if w.upper() not in _FLAGS).lower()
    binary = "BIN" in flags or "BIN2" in flags
    if stem not in _CODE_PAGES or not (binary or "CI" in flags or "CS" in flags):
        raise SqlError(448, f"Invalid collation '{name}'.")
    page = 65001 if "UTF8" in flags else _CODE_PAGES[stem]
    return Collation(name, page, binary or "CS" in flags, binary or "AI" not in flags, binary)


def _rank(character: str) -> str:
    """A character that sorts where the base letter belongs: symbols, digits, letters."""
    if character.isalpha():
        return chr(0x20000 + ord(character)) if ord(character) < 0x20000 else character
    if character.isdigit():
        return chr(0x10000 + ord(character)) if ord(character) < 0x10000 else character
    return character


_ASCII_FOLDED = {code: _rank(chr(code).lower()) for code in range(128)}


def _split(text: str) -> tuple[str, str]:
    """Base letters, and the accents with their places."""
    base: list[str] = []
    accents: list[str] = []
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character) and base:
            accents.append(chr(len(base)) + character)
        else:
            base.append(character)
    return "".join(base), "".join(accents)


@lru_cache(maxsize=100_000)
def _key_insensitive(text: str) -> str:
    text = text.rstrip(" ")
    if text.isascii():
        return text.translate(_ASCII_FOLDED)
    base, accents = _split(text)
    ranked = "".join(_rank(c) for c in base.lower())
    return ranked if not accents else f"{ranked}\0{accents}"


@lru_cache(maxsize=100_000)
def _key_accents_ignored(text: str) -> str:
    return _key_insensitive(_split(text.rstrip(" "))[0])


@lru_cache(maxsize=100_000)
def _key_sensitive(text: str) -> str:
    text = text.rstrip(" ")
    return f"{_key_insensitive(text)}\0\0{text.swapcase()}"


def sort_key(name: str) -> Callable[[str], str]:
    """The function whose results order as the collation orders texts."""
    found = collation(name)
    if found.binary:
        return lambda text: text.rstrip(" ")
    if found.case_sensitive:
        return _key_sensitive
    return _key_insensitive if found.accent_sensitive else _key_accents_ignored


def sqlite_name(name: str) -> str:
    """SQLite's own RTRIM is the binary collation, in C; all others are Python functions of their name."""
    return "RTRIM" if collation(name).binary else name


def register(connection: sqlite3.Connection, name: str) -> None:
    """Make a collation known to a connection."""
    if name == INSTANT:
        connection.create_collation(INSTANT, _compare_instants)
        return
    key = sort_key(name)

    def compare(left: str, right: str) -> int:
        if left == right:
            return 0
        a, b = key(left), key(right)
        return (a > b) - (a < b)

    connection.create_collation(name, compare)


def _compare_instants(left: str, right: str) -> int:
    a, b = left[:20], right[:20]
    return (a > b) - (a < b)
