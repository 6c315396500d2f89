"""Half-open key ranges, and the JSON form of their bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Bound = tuple[str | None, ...]
"""One value per split column, as the server rendered it; None is NULL. Never compared in Python."""
# Only the server knows the order: it depends on collations.


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Hold ``lower <= key < upper`` in the server's order; None is unbounded.

    :param closed: includes keys equal to ``upper``: the last chunk of a chunked snapshot, which ends at the
        table's last key.
    """

    # The first range of a plan is open below: it holds NULLs, and keys that are inserted below the smallest.

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
    """Read the result of :func:`bound_to_json`; None stays None.

    :raises ValueError: the value is something else.
    """
    if values is None:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError("a bound must be a list of strings and NULLs")
    return tuple(_from_json(value) for value in values)


def _to_json(value: str | None) -> Any:
    # XComs are JSON in Airflow's database, which may be PostgreSQL: its jsonb rejects \u0000 and unpaired
    # surrogates (PostgreSQL docs, "JSON Types").
    if value is not None and _UNSAFE.search(value):
        return {"utf8": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _from_json(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"utf8"} and isinstance(value["utf8"], str):
        return bytes.fromhex(value["utf8"]).decode("utf-8", "surrogatepass")
    raise ValueError("a bound must hold strings and NULLs")
