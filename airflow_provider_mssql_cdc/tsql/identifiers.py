"""Names in T-SQL: always quoted, never spliced."""

from __future__ import annotations

import hashlib

_LONGEST = 128
"""UTF-16 units of an identifier."""


def quote_identifier(name: str) -> str:
    """``[name]`` with ``]`` doubled, and ``%`` doubled for the drivers' parameter markers.

    :raises ValueError: the empty name, one above 128 characters or one with a NUL; SQL Server has none.
    """
    if not name or _units(name) > _LONGEST or "\0" in name:
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
    if _units(lake_name) <= _LONGEST:
        return lake_name
    return f"__$c{hashlib.sha256(lake_name.encode()).hexdigest()[:32]}"


def _units(name: str) -> int:
    return len(name.encode("utf-16-le", "surrogatepass")) // 2
