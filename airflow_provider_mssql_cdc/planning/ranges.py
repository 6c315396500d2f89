"""How many ranges, and dense integer keys cut by arithmetic.

Python's integers do not overflow; the server's do, so bounds are whole numbers inside ``[MIN, MAX]``
that are cast to the column's declared type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange, ranges_between
from airflow_provider_mssql_cdc.model.sql_type import INTEGER_TYPES, SqlType

MAX_IMBALANCE = 1.5
"""The largest range may hold this many times the average."""


@dataclass(frozen=True, slots=True)
class RangePlan:
    """How a table was cut.

    :param ranges: tile every key, in the server's order; never empty.
    :param method: ``whole``, ``arithmetic`` or ``keyset``.
    :param reason: for the log and the facts, without a key value.
    """

    ranges: tuple[KeyRange, ...]
    method: str
    reason: str

    def __post_init__(self) -> None:
        if not self.ranges:
            raise ValueError("a plan has at least one range")

    @classmethod
    def whole(cls, reason: str) -> RangePlan:
        """One range for the whole table."""
        return cls((KeyRange(),), "whole", reason)

    @classmethod
    def cut(cls, bounds: Iterable[Bound], *, method: str, reason: str) -> RangePlan:
        """The ranges between inner bounds that the server put in order."""
        return cls(tuple(ranges_between(tuple(bounds))), method, reason)


def is_whole_number(sql_type: SqlType) -> bool:
    """Whether keys of this type can be cut by arithmetic: tinyint to bigint, decimal(p,0)."""
    return sql_type.name in INTEGER_TYPES or (sql_type.name == "decimal" and sql_type.scale == 0)


def largest_count(max_ranges: int, max_map_length: int | None = None) -> int:
    """How many mapped tasks a plan may have.

    :param max_map_length: Airflow's own limit (``[core] max_map_length``).
    :raises ValueError: a limit below 1.
    """
    limit = max_ranges if max_map_length is None else min(max_ranges, max_map_length)
    if limit < 1:
        raise ValueError(f"a plan has at least one range, {limit} are allowed")
    return limit


def range_count(
    rows: int | None, rows_per_range: int, max_ranges: int, max_map_length: int | None = None
) -> int:
    """The number of ranges for a row estimate that may be missing, zero, negative or wrong; at least 1."""
    if rows_per_range < 1:
        raise ValueError(f"rows_per_range is at least 1, got {rows_per_range}")
    wanted = -(-max(rows or 0, 0) // rows_per_range)
    return max(1, min(wanted, largest_count(max_ranges, max_map_length)))


def is_dense(span: int, rows: int | None) -> bool:
    """Whether uniform ranges over ``span`` unique whole numbers are balanced enough.

    A range of ``span / n`` numbers holds at most that many rows; with ``span <= 1.5 * rows`` that is at
    most 1.5 times the average.
    """
    return rows is not None and rows > 0 and 2 * span <= 3 * rows


def cut_integers(lo: int, hi: int, count: int) -> list[Bound]:
    """Inner bounds that cut ``[lo, hi]`` into ``count`` parts of equal width, give or take one.

    Fewer when there are not that many whole numbers; each is above ``lo`` and at most ``hi``.
    """
    if hi < lo or count < 1:
        raise ValueError(f"cannot cut [{lo}, {hi}] into {count} parts")
    span = hi - lo + 1
    count = min(count, span)
    return [(str(lo + span * index // count),) for index in range(1, count)]
