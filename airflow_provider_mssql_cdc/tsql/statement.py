"""A statement: text and parameters as one value, identifiers quoted, and how a driver takes it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from airflow_provider_mssql_cdc.model.names import is_name


def quote_identifier(name: str) -> str:
    """``[name]`` with ``]`` doubled, and ``%`` doubled for the drivers' parameter markers.

    :raises ValueError: the empty name, one above 128 characters or one with a NUL; SQL Server has none.
    """
    if not is_name(name):
        raise ValueError(f"not a SQL Server identifier: {name!r}")
    return "[" + name.replace("]", "]]").replace("%", "%%") + "]"


def qualified(*names: str) -> str:
    """``[schema].[table]`` and longer chains."""
    return ".".join(quote_identifier(name) for name in names)


def shown(name: str) -> str:
    """A quoted name for messages and comments, where percent signs stand alone."""
    return quote_identifier(name).replace("%%", "%")


def result_name(lake_name: str) -> str:
    """What a result column is called for a column of the lake: its name there, or a short one of its own.

    A name in the lake may be longer than an identifier: each blank of a source's name takes seven
    characters there.
    """
    if is_name(lake_name):
        return lake_name
    return f"__$c{hashlib.sha256(lake_name.encode()).hexdigest()[:32]}"


_NO_PARAMETERS: Mapping[str, str | int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Statement:
    """T-SQL with ``%(name)s`` markers, the one style that pymssql and mssql-python share.

    A literal percent sign is doubled in ``text`` (:func:`~.identifiers.quote_identifier` does it), in
    statements without parameters too, so that every reader treats every statement alike.
    """

    text: str
    parameters: Mapping[str, str | int] = field(default_factory=lambda: _NO_PARAMETERS)


_MARKER = re.compile(r"%%|%\((\w+)\)s")


def with_question_marks(statement: Statement) -> tuple[str, tuple[str | int, ...]]:
    """The text with ``?`` for each marker, and the values in that order (ODBC's way).

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
    """The text with each value as a literal, for the driver that has no parameters on the wire.

    :raises KeyError: a marker without a parameter.
    :raises ValueError: a value that no literal holds.
    """

    def replace(match: re.Match[str]) -> str:
        return "%" if match[1] is None else literal(statement.parameters[match[1]])

    return _MARKER.sub(replace, statement.text)


def literal(value: str | int) -> str:
    """``N'it''s'`` or ``-5``; a negative number is set off, so that no ``--`` can arise.

    :raises ValueError: a text with a NUL, which ends a statement for db-lib.
    """
    if isinstance(value, int):
        return f" {value:d}" if value < 0 else f"{value:d}"
    if "\0" in value:
        raise ValueError("a literal cannot hold a NUL character")
    return "N'" + value.replace("'", "''") + "'"


def counted(statement: Statement) -> Statement:
    """The statement and, as a second result of the same batch, how many rows the server sent.

    ODBC Driver 18 takes a connection that closes between two rows for the end of the rows, without an
    error; rows are complete only when this number arrives and agrees. A table without a key is one range, of
    any number of rows, and @@ROWCOUNT ends at 2,147,483,647: Microsoft's page on it says ROWCOUNT_BIG then.
    """
    return Statement(f"{statement.text};\nSELECT ROWCOUNT_BIG() AS [__$sent]", statement.parameters)


ENDED = "__$ended"


def with_end(statement: Statement) -> Statement:
    """The statement and, as a last result of the same batch, a mark: the results before it are whole.

    For small results, which ODBC Driver 18 cuts short in the same way; a procedure's cannot be counted.
    """
    return Statement(f"{statement.text};\nSELECT 1 AS [{ENDED}]", statement.parameters)


def in_one_batch(statements: Sequence[Statement]) -> Statement:
    """Several statements with small results as one round trip; after each the mark, with its number from 1.

    A procedure may have several results or none: what stands between two marks is one statement's answer.
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
