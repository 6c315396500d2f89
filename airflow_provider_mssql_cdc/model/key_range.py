"""Half-open key ranges, and how their bounds travel as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Bound = tuple[str | None, ...]
"""One value per split column, as text that the server rendered; None is NULL. Never compared in Python."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """``lower <= key < upper`` in the server's order; None is unbounded.

    The first range of a plan is open below, so that NULLs and keys under the smallest one are in it.

    :param closed: keys that the server holds equal to ``upper`` belong to it too: the last chunk of a
        chunked snapshot, which ends at MAX.
    """

    lower: Bound | None = None
    upper: Bound | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        if self.closed and self.upper is None:
            raise ValueError("closed must be False for a range without an upper bound")
        if self.lower is not None and self.upper is not None and len(self.lower) != len(self.upper):
            raise ValueError("both bounds of a key range must have one value per split column")

    @property
    def is_whole_table(self) -> bool:
        return self.lower is None and self.upper is None


def ranges_between(bounds: Sequence[Bound]) -> Iterator[KeyRange]:
    """Turn n inner bounds, in the server's order, into n + 1 ranges that tile every key."""
    edges: list[Bound | None] = [None, *bounds, None]
    for lower, upper in pairwise(edges):
        yield KeyRange(lower, upper)


_UNSAFE = re.compile("[\0\ud800-\udfff]")


def bound_to_json(bound: Bound) -> list[Any]:
    """One JSON value per split column."""
    return [_to_json(value) for value in bound]


def bound_from_json(values: object) -> Bound | None:
    """What :func:`bound_to_json` wrote; None stays None.

    :raises ValueError: anything else.
    """
    if values is None:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError("a bound must be a list of strings and NULLs")
    return tuple(_from_json(value) for value in values)


def _to_json(value: str | None) -> Any:
    if value is not None and _UNSAFE.search(value):
        return {"utf8": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _from_json(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"utf8"} and isinstance(value["utf8"], str):
        return bytes.fromhex(value["utf8"]).decode("utf-8", "surrogatepass")
    raise ValueError("a bound must hold strings and NULLs")
