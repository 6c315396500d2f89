"""T-SQL text to tokens; quoted and split names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.engine.parser.tree import Name
from airflow_provider_mssql_cdc.embedded.seam import SqlError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<nstring>[Nn]'(?:[^']|'')*')
    |(?P<string>'(?:[^']|'')*')
    |(?P<bracket>\[(?:[^\]]|\]\])*\])
    |(?P<dquote>"(?:[^"]|"")*")
    |(?P<hex>0[xX][0-9a-fA-F]*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<variable>@@?[\w@\#$]+)
    |(?P<word>(?:[^\W\d]|\#)[\w@\#$]*)
    |(?P<op><=|>=|<>|!=|!<|!>|::|[-+*/%=<>(),.;&|^~?:{}$])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token. ``kind``: word, name (delimited), string, nstring, hex, number, variable, op, end."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else ""


def syntax_error(near: str) -> SqlError:
    return SqlError(102, f"Incorrect syntax near '{near}'.", 15)


def _skip_comment(sql: str, start: int) -> int:
    depth, position = 1, start + 2
    while depth:
        opening, closing = sql.find("/*", position), sql.find("*/", position)
        if closing < 0:
            raise SqlError(113, "Missing end comment mark '*/'.", 15)
        if 0 <= opening < closing:
            depth, position = depth + 1, opening + 2
        else:
            depth, position = depth - 1, closing + 2
    return position


def _value(kind: str, text: str) -> tuple[str, str]:
    if kind == "string":
        return kind, text[1:-1].replace("''", "'")
    if kind == "nstring":
        return kind, text[2:-1].replace("''", "'")
    if kind == "bracket":
        return "name", text[1:-1].replace("]]", "]")
    if kind == "dquote":
        return "name", text[1:-1].replace('""', '"')
    return kind, text


def tokenize(sql: str) -> list[Token]:
    """All tokens of a batch, then one of kind ``end``. Errors: 102, 105, 113."""
    tokens: list[Token] = []
    position = 0
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None:
            if sql[position] in "'\"[":
                rest = sql[position + 1 :]
                raise SqlError(105, f"Unclosed quotation mark after the character string '{rest}'.", 15)
            raise syntax_error(sql[position])
        kind = match.lastgroup or ""
        if kind == "comment":
            position = _skip_comment(sql, position)
            continue
        if kind != "space":
            name, text = _value(kind, match.group())
            tokens.append(Token(name, text, match.start(), match.end()))
        position = match.end()
    tokens.append(Token("end", "", len(sql), len(sql)))
    return tokens


def quote(name: str) -> str:
    """A name as an SQLite identifier."""
    return '"' + name.replace('"', '""') + '"'


def bracket(name: str) -> str:
    """A name as a T-SQL identifier (QUOTENAME)."""
    return "[" + name.replace("]", "]]") + "]"


def literal(text: str) -> str:
    """An SQLite text literal; NUL characters cannot stand in SQL text and are spelled out."""
    if "\0" in text:
        return f"CAST(X'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"


def split(text: str) -> Name:
    """``[dbo].[my table]`` to its parts, as OBJECT_ID and sp_spaceused read it."""
    parts: list[str] = []
    position = 0
    while position <= len(text):
        part, position = _part(text, position)
        parts.append(part)
        if position >= len(text):
            break
        if text[position] != ".":
            raise SqlError(
                15001, f"Object '{text}' does not exist or is not a valid object for this operation."
            )
        position += 1
    return tuple(parts)


def _part(text: str, position: int) -> tuple[str, int]:
    closing = {"[": "]", '"': '"'}.get(text[position : position + 1])
    if closing is None:
        end = text.find(".", position)
        end = len(text) if end < 0 else end
        return text[position:end].strip(), end
    end = position + 1
    while True:
        end = text.find(closing, end)
        if end < 0:
            return text[position:], len(text)
        if text[end : end + 2] != closing * 2:
            return text[position + 1 : end].replace(closing * 2, closing), end + 1
        end += 2
