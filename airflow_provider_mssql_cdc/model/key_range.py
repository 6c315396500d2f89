"""Key ranges: how a table is cut so that every row is in exactly one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
            raise ValueError("a range without an upper bound cannot include it")
        if self.lower is not None and self.upper is not None and len(self.lower) != len(self.upper):
            raise ValueError("both bounds of a key range have one value per split column")

    @property
    def is_whole_table(self) -> bool:
        return self.lower is None and self.upper is None


def ranges_between(bounds: Sequence[Bound]) -> Iterator[KeyRange]:
    """Turn n inner bounds, in the server's order, into n + 1 ranges that tile every key."""
    edges: list[Bound | None] = [None, *bounds, None]
    for lower, upper in pairwise(edges):
        yield KeyRange(lower, upper)
