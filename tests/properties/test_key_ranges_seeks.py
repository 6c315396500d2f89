"""Keyset planning over any key and any estimate: bounds rise, ranges tile, every key is read once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.model.key_range import Bound, ranges_between
from airflow_provider_mssql_cdc.model.source_table import Column
from airflow_provider_mssql_cdc.planning.ranges import drive, seek_bounds
from airflow_provider_mssql_cdc.tsql.predicates import range_pieces
from tests.properties.test_key_ranges import _as_values, rank, tables
from tests.support.seek_model import SqliteTable
from tests.support.tables import ORDERS, column

ESTIMATES = st.one_of(st.none(), st.integers(-5, 200))


def planned(table: SqliteTable, *, estimate: int | None, rows_per_range: int, max_ranges: int) -> list[Bound]:
    steps = seek_bounds(
        ORDERS, table.columns, estimate=estimate, rows_per_range=rows_per_range, max_ranges=max_ranges
    )
    bounds: list[Bound] = drive(steps, table.answer)
    return bounds


def sizes(table: SqliteTable, bounds: list[Bound]) -> list[int]:
    """Rows per range, counted by the ranges' own conditions."""
    return [
        sum(len(table.matching(piece)) for piece in range_pieces(table.columns, key_range))
        for key_range in ranges_between(bounds)
    ]


@settings(deadline=None, max_examples=80)
@given(
    described=tables(max_columns=3),
    estimate=ESTIMATES,
    rows_per_range=st.integers(1, 12),
    max_ranges=st.integers(2, 9),
)
def test_planned_bounds_rise_and_their_ranges_tile_the_table(
    described: tuple[tuple[Column, ...], list[tuple[Any, ...]]],
    estimate: int | None,
    rows_per_range: int,
    max_ranges: int,
) -> None:
    columns, rows = described
    table = SqliteTable(columns, rows)
    bounds = planned(table, estimate=estimate, rows_per_range=rows_per_range, max_ranges=max_ranges)
    counted = sizes(table, bounds)
    table.close()
    ranks = [rank(tuple(bound)) for bound in _as_values(columns, bounds)]
    assert all(lower < upper for lower, upper in pairwise(ranks))
    assert len(bounds) < max_ranges
    assert sum(counted) == len(rows)
    assert all(counted) or not rows, "no range of a plan is empty, the first one included"


@settings(deadline=None, max_examples=60)
@given(
    leading=st.integers(1, 25),
    count=st.integers(1, 300),
    ranges=st.integers(2, 12),
    data=st.data(),
)
def test_with_an_exact_count_bounds_are_ntiles_and_each_key_is_read_once(
    leading: int, count: int, ranges: int, data: st.DataObject
) -> None:
    columns = (column("a", "varchar(10)"), column("b", "int"), column("c", "int"))
    # spelled as it comes, so that one leading value has several texts
    spellings = st.sampled_from([str.lower, str.upper, "{}  ".format])
    rows = [(data.draw(spellings)(f"x{number % leading:03d}"), number % 7, number) for number in range(count)]
    table = SqliteTable(columns, rows)
    rows_per_range = -(-count // ranges)
    bounds = planned(table, estimate=count, rows_per_range=rows_per_range, max_ranges=ranges)
    read = table.keys_read
    counted = sizes(table, bounds)
    table.close()
    tiles = len(counted)
    assert counted == [count // tiles + (index < count % tiles) for index in range(tiles)]
    assert tiles == min(ranges, -(-count // rows_per_range))
    assert read <= count + 4 * (tiles + 1) * len(columns)


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(1, 200),
    estimate=ESTIMATES,
    rows_per_range=st.integers(1, 50),
    max_ranges=st.integers(2, 16),
)
def test_a_wrong_estimate_costs_balance_and_nothing_else(
    count: int, estimate: int | None, rows_per_range: int, max_ranges: int
) -> None:
    table = SqliteTable((column("id", "int"),), [(number * 10,) for number in range(count)])
    bounds = planned(table, estimate=estimate, rows_per_range=rows_per_range, max_ranges=max_ranges)
    counted = sizes(table, bounds)
    table.close()
    step = max(rows_per_range, -(-max(estimate or 0, 0) // max_ranges))
    doublings = max(1, 4 * -(-count // (step * max_ranges)))
    assert sum(counted) == count
    assert max(counted) <= (step + step // 2) * doublings
