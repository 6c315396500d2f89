"""Statements: text and parameters as one value, quoted identifiers, and conversion for each driver."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from airflow_provider_mssql_cdc.model.names import is_name


def quote_identifier(name: str) -> str:
    """Return ``[name]`` with ``]`` doubled, and ``%`` doubled for the drivers' parameter markers.

    :raises ValueError: an empty name, one above 128 characters or one with a NUL; SQL Server allows none.
    """
    if not is_name(name):
        raise ValueError(f"not a SQL Server identifier: {name!r}")
    return "[" + name.replace("]", "]]").replace("%", "%%") + "]"


def qualified(*names: str) -> str:
    """Return ``[schema].[table]`` or a longer chain."""
    return ".".join(quote_identifier(name) for name in names)


def shown(name: str) -> str:
    """Return a quoted name for messages and comments, without doubled percent signs."""
    return quote_identifier(name).replace("%%", "%")


def result_name(lake_name: str) -> str:
    """Return the result column's name for a lake column: its own, or a short unique one.

    A name in the lake may be longer than an identifier: each blank of a source name is encoded by seven
    characters.
    """
    if is_name(lake_name):
        return lake_name
    return f"__$c{hashlib.sha256(lake_name.encode()).hexdigest()[:32]}"


_NO_PARAMETERS: Mapping[str, str | int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Statement:
    """T-SQL with ``%(name)s`` markers, the one style that pymssql and mssql-python share.

    A literal percent sign is doubled in ``text`` (:func:`~.identifiers.quote_identifier` does it), even
    without parameters, so that every reader handles every statement the same way.
    """

    text: str
    parameters: Mapping[str, str | int] = field(default_factory=lambda: _NO_PARAMETERS)


_MARKER = re.compile(r"%%|%\((\w+)\)s")


def with_question_marks(statement: Statement) -> tuple[str, tuple[str | int, ...]]:
    """Return the text with ``?`` for each marker, and the values in that order, as ODBC needs them.

    :raises KeyError: a marker without a parameter.
    """
    values: list[str | int] = []

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        values.append(statement.parameters[match[1]])
        return "?"

    return _MARKER.sub(replace, statement.text), tuple(values)


def with_literals(statement: Statement) -> str:
    """Return the text with each value as a literal, for the driver without wire-level parameters.

    :raises KeyError: a marker without a parameter.
    :raises ValueError: a value that has no literal.
    """

    def replace(match: re.Match[str]) -> str:
        return "%" if match[1] is None else literal(statement.parameters[match[1]])

    return _MARKER.sub(replace, statement.text)


def literal(value: str | int) -> str:
    """Return ``N'it''s'`` or ``-5``; a blank precedes a negative number, so that no ``--`` can arise.

    :raises ValueError: a string with a NUL, which ends a statement for db-lib.
    """
    if isinstance(value, int):
        return f" {value:d}" if value < 0 else f"{value:d}"
    if "\0" in value:
        raise ValueError("a literal cannot hold a NUL character")
    return "N'" + value.replace("'", "''") + "'"


def counted(statement: Statement) -> Statement:
    """Add a second result to the batch: the number of rows that the server sent.

    ODBC Driver 18 treats a connection closed between two rows as the end of the rows, without an error; the
    rows are complete only if this number arrives and matches. A table without a key is one range of any
    size, and @@ROWCOUNT is an int, so ROWCOUNT_BIG is used (Microsoft Learn, "@@ROWCOUNT").
    """
    return Statement(f"{statement.text};\nSELECT ROWCOUNT_BIG() AS [__$sent]", statement.parameters)


ENDED = "__$ended"


def with_end(statement: Statement) -> Statement:
    """Add a last result to the batch, an end marker: all results before it are complete.

    For small results, which ODBC Driver 18 can truncate in the same way; a procedure's rows cannot be
    counted.
    """
    return Statement(f"{statement.text};\nSELECT 1 AS [{ENDED}]", statement.parameters)


def in_one_batch(statements: Sequence[Statement]) -> Statement:
    """Combine statements with small results into one round trip; a numbered marker, from 1, follows each.

    A procedure may have several results or none: everything between two markers belongs to one statement.
    """
    texts: list[str] = []
    parameters: dict[str, str | int] = {}
    for number, statement in enumerate(statements, start=1):
        text = _MARKER.sub(partial(_numbered, number=number), statement.text)
        texts.append(f"{text};\nSELECT {number} AS [{ENDED}]")
        parameters |= {f"{name}_{number}": value for name, value in statement.parameters.items()}
    return Statement(";\n".join(texts), parameters)


def _numbered(match: re.Match[str], *, number: int) -> str:
    return match[0] if match[1] is None else f"%({match[1]}_{number})s"
