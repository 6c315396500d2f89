"""How many ranges, and whole-number keys cut by arithmetic."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.planning.ranges import (
    RangePlan,
    cut_integers,
    is_dense,
    is_whole_number,
    range_count,
)
from tests.support.tables import sql_type


@pytest.mark.parametrize(
    ("rows", "rows_per_range", "max_ranges", "max_map_length", "count"),
    [
        (None, 1_000_000, 256, 1024, 1),
        (0, 1_000_000, 256, 1024, 1),
        (-1, 1_000_000, 256, 1024, 1),
        (5, 1_000_000, 256, 1024, 1),
        (1_000_000, 1_000_000, 256, 1024, 1),
        (1_000_001, 1_000_000, 256, 1024, 2),
        (10**10, 1_000_000, 256, 1024, 256),
        (10**10, 1_000_000, 5000, 1024, 1024),
        (10**10, 1_000_000, 5000, None, 5000),
        (10, 1, 256, 3, 3),
    ],
)
def test_the_number_of_ranges_has_ends_whatever_the_estimate(
    rows: int | None, rows_per_range: int, max_ranges: int, max_map_length: int | None, count: int
) -> None:
    assert range_count(rows, rows_per_range, max_ranges, max_map_length) == count


@pytest.mark.parametrize(("rows_per_range", "max_ranges"), [(0, 1), (-1, 1), (1, 0)])
def test_limits_below_one_are_refused(rows_per_range: int, max_ranges: int) -> None:
    with pytest.raises(ValueError):
        range_count(5, rows_per_range, max_ranges)


@pytest.mark.parametrize(
    ("span", "rows", "dense"),
    [
        (100, 100, True),
        (150, 100, True),
        (151, 100, False),
        (1, 1, True),
        (5, None, False),
        (5, 0, False),
        (5, -1, False),
    ],
)
def test_a_key_is_dense_when_uniform_ranges_hold_at_most_one_and_a_half_times_the_average(
    span: int, rows: int | None, dense: bool
) -> None:
    assert is_dense(span, rows) is dense


@pytest.mark.parametrize(
    ("declared", "whole"),
    [
        ("tinyint", True),
        ("bigint", True),
        ("decimal(38,0)", True),
        ("decimal(9,2)", False),
        ("bit", False),
        ("money", False),
        ("date", False),
    ],
)
def test_whole_numbers_are_integers_and_decimals_without_places(declared: str, whole: bool) -> None:
    assert is_whole_number(sql_type(declared)) is whole


@pytest.mark.parametrize(
    ("lo", "hi", "count", "bounds"),
    [
        (1, 100, 4, ["26", "51", "76"]),
        (1, 1, 4, []),
        (1, 2, 4, ["2"]),
        (1, 3, 1, []),
        (-2, 2, 2, ["0"]),
        (0, 255, 3, ["85", "170"]),
        (-(2**63), 2**63 - 1, 2, ["0"]),
        (-(10**38) + 1, 10**38 - 1, 2, ["0"]),
    ],
)
def test_bounds_are_whole_numbers_inside_the_ends(lo: int, hi: int, count: int, bounds: list[str]) -> None:
    assert cut_integers(lo, hi, count) == [(bound,) for bound in bounds]


@given(lo=st.integers(-(2**70), 2**70), span=st.integers(1, 2**70), count=st.integers(1, 300))
def test_widths_differ_by_one_at_most_and_no_bound_repeats(lo: int, span: int, count: int) -> None:
    hi = lo + span - 1
    edges = [lo, *(int(bound) for (bound,) in cut_integers(lo, hi, count)), hi + 1]
    widths = [upper - lower for lower, upper in pairwise(edges)]
    assert len(widths) == min(count, span)
    assert max(widths) - min(widths) <= 1
    assert min(widths) >= 1


@pytest.mark.parametrize(("lo", "hi", "count"), [(2, 1, 1), (1, 2, 0)])
def test_nothing_can_be_cut_from_an_interval_that_is_none(lo: int, hi: int, count: int) -> None:
    with pytest.raises(ValueError):
        cut_integers(lo, hi, count)


def test_a_plan_is_never_empty() -> None:
    assert RangePlan.whole("a reason").ranges == (KeyRange(),)
    assert RangePlan.cut([], method="keyset", reason="x").ranges == (KeyRange(),)
    with pytest.raises(ValueError, match="at least one range"):
        RangePlan((), "keyset", "x")
