"""Names: quoting and splitting."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.engine.tree import Name
from airflow_provider_mssql_cdc.embedded.seam import SqlError


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
