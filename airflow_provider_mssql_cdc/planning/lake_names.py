"""Column names in the lake: reversible, and no two source names meet in one.

Spark refuses a name with a blank or one of ``,;{}()=``, tab or newline unless column mapping is on, so
each of these becomes ``_xHHHH_`` after its code point, as XML and Excel do it. An underscore that would
begin such a group, or that stands before ``xHHHH`` and a character that is about to become one, is
written ``_x005F_`` itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

RESERVED_NAMES = frozenset(
    "_capture_instance _start_lsn _seqval _operation _command_id _commit_ts "
    "_batch_id _snapshot _chunk".split()
)
"""Bronze's own columns."""

_REFUSED = r" ,;{}()=\t\n"
_ENCODED = re.compile(rf"[{_REFUSED}]|_(?=x[0-9A-Fa-f]{{4}}[_{_REFUSED}])")
_GROUP = re.compile(r"_x([0-9A-F]{4})_")


def lake_name(source_name: str) -> str:
    """The name in Delta; most names stay as they are."""
    return _ENCODED.sub(lambda match: f"_x{ord(match[0]):04X}_", source_name)


def source_name(lake_name: str) -> str:
    """The source's name again: the inverse of :func:`lake_name`."""
    return _GROUP.sub(lambda match: chr(int(match[1], 16)), lake_name)


def is_reserved(name: str) -> bool:
    """Whether Delta could not tell this column from one of bronze's own."""
    return _folded(name) in RESERVED_NAMES


def indistinct(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of lake names that Delta holds for one, since it ignores case."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[_folded(name)].append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _folded(name: str) -> str:
    """As Spark and delta-rs fold: lower case, character by character."""
    return name.lower()
