"""A unique index or constraint of the source table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """What ``sys.indexes`` says of one unique index.

    :param columns: its key columns in key order (``key_ordinal``), INCLUDE columns left out.
    :param filtered: it covers a part of the rows, so it identifies none.
    """

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    filtered: bool = False
    disabled: bool = False
