"""Tables of a database as names, patterns and parts of a path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import ConfigurationError

_PART = r"\[(?:[^\]]|\]\])*\]|[^.\[\]]+"
_NAME = re.compile(rf"({_PART})\.({_PART})\Z")
_NEEDS_BRACKETS = re.compile(r"[.\[\]]")
_PLAIN_IN_PATHS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$")


@dataclass(frozen=True, slots=True)
class TableName:
    """``schema.table`` as the server spells it; a part that holds a dot or a bracket is bracketed."""

    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read ``sales.order`` or ``[my.schema].[my table]``; in brackets ``]`` is doubled.

        :raises ConfigurationError: anything else.
        """
        match = _NAME.match(text) if isinstance(text, str) else None
        if not match:
            raise ConfigurationError(
                f'a table must be named "schema.table", with brackets around a part that holds a dot, '
                f"got {text!r}"
            )
        return cls(_unquoted(match[1]), _unquoted(match[2]))

    @property
    def text(self) -> str:
        return f"{_quoted(self.schema)}.{_quoted(self.table)}"

    @property
    def folded(self) -> tuple[str, str]:
        """Equal for names that differ by case alone."""
        return self.schema.casefold(), self.table.casefold()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TablePattern:
    """``schema.table`` in which ``*`` stands for any characters; case is ignored."""

    name: TableName

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """:raises ConfigurationError: not two parts with a dot between them."""
        return cls(TableName.parse(text))

    @property
    def is_exact(self) -> bool:
        return "*" not in self.name.schema + self.name.table

    def matches(self, name: TableName) -> bool:
        return all(
            _matches(pattern, value) for pattern, value in zip(self.name.folded, name.folded, strict=True)
        )


@dataclass(frozen=True, slots=True)
class TrackedTable:
    """A table that CDC tracks.

    :param instances: its capture instances that this login sees, the newest first; none without the right.
    """

    name: TableName
    instances: tuple[str, ...] = ()


def selected(
    names: Iterable[TableName], include: Iterable[TablePattern], exclude: Iterable[TablePattern]
) -> list[TableName]:
    """The names that one of ``include`` matches and none of ``exclude``."""
    wanted, unwanted = list(include), list(exclude)
    return [
        name
        for name in names
        if any(pattern.matches(name) for pattern in wanted)
        and not any(pattern.matches(name) for pattern in unwanted)
    ]


def same_but_for_case(names: Collection[TableName]) -> dict[TableName, TableName]:
    """Each name that another one differs from by case alone, with that other one."""
    first: dict[tuple[str, str], TableName] = {}
    found: dict[TableName, TableName] = {}
    for name in names:
        other = first.setdefault(name.folded, name)
        if other != name:
            found[name] = other
            found.setdefault(other, name)
    return found


def path_part(name: str) -> str:
    """One folder's name for a schema or a table: no two names share one.

    Bytes of UTF-8 other than letters, digits, ``_``, ``-``, ``$`` and inner dots become ``=XX``. It is not
    ``%XX``: delta-rs decodes those in some of its steps and not in others (model/table_uri.py).
    """
    return "".join(
        character if character in _PLAIN_IN_PATHS or (character == "." and index) else _escaped(character)
        for index, character in enumerate(name)
    )


def placed_by(template: str, place: str) -> bool:
    """Whether a template with ``{schema}`` and ``{table}`` gives this place for some table."""
    pieces = re.split(r"{(?:schema|table)}", template)
    return re.fullmatch("[^/]+".join(map(re.escape, pieces)), place) is not None


def _escaped(character: str) -> str:
    return "".join(f"={byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _matches(pattern: str, value: str) -> bool:
    expression = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    return re.fullmatch(expression, value, re.DOTALL) is not None


def _quoted(part: str) -> str:
    return f"[{part.replace(']', ']]')}]" if _NEEDS_BRACKETS.search(part) or not part else part


def _unquoted(part: str) -> str:
    return part[1:-1].replace("]]", "]") if part.startswith("[") else part
