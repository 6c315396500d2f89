"""Names in T-SQL: always quoted, never spliced."""

from __future__ import annotations


def quote_identifier(name: str) -> str:
    """``[name]`` with ``]`` doubled, and ``%`` doubled for the drivers' parameter markers.

    :raises ValueError: the empty name, one above 128 characters or one with a NUL; SQL Server has none.
    """
    if not name or len(name.encode("utf-16-le")) > 256 or "\0" in name:
        raise ValueError(f"not a SQL Server identifier: {name!r}")
    return "[" + name.replace("]", "]]").replace("%", "%%") + "]"


def qualified(*names: str) -> str:
    """``[schema].[table]`` and longer chains."""
    return ".".join(quote_identifier(name) for name in names)
