"""A chunked plan ends at a key: everything up to it is in one chunk, what lies above is in none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.source_table import Column
from airflow_provider_mssql_cdc.planning.ranges import drive, key_of, next_bound
from airflow_provider_mssql_cdc.tsql.predicates import at_most, range_pieces
from airflow_provider_mssql_cdc.tsql.snapshot import first_key
from tests.properties.test_key_ranges import bounds_among, rank, tables
from tests.support.seek_model import SqliteTable
from tests.support.tables import ORDERS

Described = tuple[tuple[Column, ...], list[tuple[Any, ...]]]


def text_of(row: Sequence[Any]) -> Bound:
    return tuple(None if value is None else str(value) for value in row)


@settings(deadline=None, max_examples=80)
@given(described=tables(), chosen=st.lists(st.integers(0, 39), max_size=5), end=st.integers(0, 39))
def test_every_row_up_to_the_last_key_is_in_one_chunk_and_no_other_is(
    described: Described, chosen: list[int], end: int
) -> None:
    columns, rows = described
    if not rows:
        return
    highest = rows[end % len(rows)]
    below = [number for number in chosen if rank(rows[number % len(rows)]) <= rank(highest)]
    bounds = bounds_among(rows, below)
    table = SqliteTable(columns, rows)
    edges: list[Bound | None] = [None, *bounds]
    chunks = [KeyRange(lower, upper) for lower, upper in zip(edges, bounds, strict=False)]
    chunks.append(KeyRange(edges[-1], text_of(highest), closed=True))
    found = [
        row for chunk in chunks for piece in range_pieces(columns, chunk) for row in table.matching(piece)
    ]
    within = table.matching(at_most(columns, text_of(highest)))
    table.close()
    expected = [number for number, row in enumerate(rows) if rank(row) <= rank(highest)]
    assert sorted(found) == expected
    assert sorted(within) == expected


@settings(deadline=None, max_examples=50)
@given(described=tables(max_columns=3), step=st.integers(1, 7), end=st.integers(0, 39))
def test_seeks_end_at_the_last_key_whatever_lies_above(described: Described, step: int, end: int) -> None:
    columns, rows = described
    if not rows:
        return
    highest = rows[end % len(rows)]
    table = SqliteTable(columns, rows)
    bounds: list[Bound] = []
    lower: Bound | None = key_of(table.answer(first_key(ORDERS, columns))[0], columns)
    while lower is not None:
        steps = next_bound(ORDERS, columns, lower=lower, step=step, upper=text_of(highest))
        lower = drive(steps, table.answer)
        if lower is not None:
            bounds.append(lower)
    edges: list[Bound | None] = [None, *bounds]
    chunks = [KeyRange(low, high) for low, high in zip(edges, bounds, strict=False)]
    chunks.append(KeyRange(edges[-1], text_of(highest), closed=True))
    read = [[row for piece in range_pieces(columns, one) for row in table.matching(piece)] for one in chunks]
    table.close()
    assert sum(map(len, read)) == sum(rank(row) <= rank(highest) for row in rows)
    assert all(len(chunk) <= step or len({rank(rows[row]) for row in chunk}) == 1 for chunk in read)
