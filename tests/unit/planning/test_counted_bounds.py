"""Grids: chunks follow the counts, whatever the spread of the key; a model of the table answers."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.model.source_table import Column
from airflow_provider_mssql_cdc.planning import chunks as grid
from airflow_provider_mssql_cdc.planning.chunks import can_be_counted, counted_bounds, number_of, text_of
from airflow_provider_mssql_cdc.planning.ranges import drive
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.support.tables import ORDERS, column

BIGINT = 2**63
ID = column("id", "bigint")


class Counted:
    """Keys in order; answers the two statements that grids ask."""

    def __init__(self, keys: list[int], described: Column = ID) -> None:
        self.keys, self.column, self.statements, self.rows_read = sorted(keys), described, 0, 0

    def answer(self, statement: Statement) -> list[dict[str, Any]]:
        self.statements += 1
        low, high = (number_of(self.column, str(statement.parameters[name])) for name in ("lo0", "hi0"))
        inside = self.keys[bisect_left(self.keys, low) : bisect_right(self.keys, high)]
        if "MIN(" in statement.text:
            ends = (inside[0], inside[-1]) if inside else (None, None)
            texts = [None if end is None else text_of(self.column, end) for end in ends]
            return [{"lowest": texts[0], "highest": texts[1]}]
        assert high - low < BIGINT, "a distance that the server cannot hold"
        self.rows_read += len(inside)
        width = int(re.search(r"/ CAST\((\d+) AS bigint\)", statement.text)[1])  # type: ignore[index]
        counts: dict[int, int] = {}
        for key in inside:
            counts[(key - low) // width] = counts.get((key - low) // width, 0) + 1
        return [{"slice": number, "row_count": count} for number, count in sorted(counts.items())]

    def chunks(self, *, chunk_rows: int, estimate: int | None) -> list[list[int]]:
        """The keys of every chunk."""
        bounds: list[int] = []
        steps = counted_bounds(
            ORDERS,
            self.column,
            first=self.keys[0],
            last=self.keys[-1],
            chunk_rows=chunk_rows,
            rows_estimated=estimate,
            found=bounds.append,
        )
        drive(steps, self.answer)
        assert bounds == sorted(set(bounds))
        edges = [0, *(bisect_left(self.keys, bound) for bound in bounds), len(self.keys)]
        return [self.keys[low:high] for low, high in pairwise(edges)]


SHAPES = {
    "sparse": [number * 1_000_003 for number in range(5000)],
    "a sentinel": [*range(5000), 10**15],
    "sentinels at both ends": [-BIGINT, *range(5000), BIGINT - 1],
    "two clusters": [*range(2500), *range(10**17, 10**17 + 2500)],
    "a dense cluster in a sparse key": sorted(
        {*range(0, 10**12, 10**9), *range(4 * 10**11, 4 * 10**11 + 4000)}
    ),
    "dense": list(range(5000)),
    "squares": [number * number for number in range(5000)],
    "many rows of one key": [7] * 5000 + list(range(100, 200)),
}


@pytest.mark.parametrize("estimate", [None, 0, -1, 500, 5000, 50_000], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_chunk_is_above_its_rows_unless_they_share_a_key(shape: str, estimate: int | None) -> None:
    model = Counted(SHAPES[shape])
    chunks = model.chunks(chunk_rows=100, estimate=estimate)
    assert [len(chunk) for chunk in chunks if len(chunk) > 100 and len(set(chunk)) > 1] == []
    assert all(chunks)
    assert len(chunks) <= 2 * len(model.keys) // 100 + 2


@pytest.mark.parametrize("shape", SHAPES)
def test_a_grid_costs_a_few_passes_over_the_key(shape: str) -> None:
    model = Counted(SHAPES[shape])
    model.chunks(chunk_rows=100, estimate=len(model.keys))
    assert model.statements <= 20
    assert model.rows_read <= 4 * len(model.keys)


def test_a_table_too_large_for_one_fine_grid_is_counted_again_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With limits as small as these one grid's slices are all dense, and neighbours."""
    monkeypatch.setattr(grid, "MIN_SLICES", 8)
    monkeypatch.setattr(grid, "MAX_SLICES", 16)
    chunks = Counted(list(range(20_000))).chunks(chunk_rows=10, estimate=20_000)
    assert {len(chunk) for chunk in chunks} <= set(range(1, 11))


@settings(max_examples=60, deadline=None)
@given(
    keys=st.lists(st.integers(-BIGINT, BIGINT - 1) | st.integers(0, 300), min_size=1, max_size=400),
    chunk_rows=st.integers(1, 50),
    estimate=st.none() | st.integers(-5, 10_000),
)
def test_any_keys_are_packed_in_order(keys: list[int], chunk_rows: int, estimate: int | None) -> None:
    chunks = Counted(keys).chunks(chunk_rows=chunk_rows, estimate=estimate)
    assert [key for chunk in chunks for key in chunk] == sorted(keys)
    assert [len(chunk) for chunk in chunks if len(chunk) > chunk_rows and len(set(chunk)) > 1] == []


def test_dates_are_counted_by_days() -> None:
    model = Counted([*range(1, 900, 3), 3_652_059], column("day", "date"))
    chunks = model.chunks(chunk_rows=10, estimate=300)
    assert max(map(len, chunks)) <= 10


@pytest.mark.parametrize(
    ("described", "fits"),
    [
        (column("id", "bigint"), True),
        (column("id", "tinyint"), True),
        (column("id", "decimal(38,0)"), True),
        (column("id", "date"), True),
        (column("id", "decimal(18,4)"), False),
        (column("id", "datetime2(7)"), False),
        (column("id", "nvarchar(20)"), False),
        (column("id", "bigint", nullable=True), False),
    ],
    ids=lambda value: str(getattr(value, "sql_type", value)),
)
def test_a_grid_is_for_whole_numbers_and_dates_without_nulls(described: Column, fits: bool) -> None:
    assert can_be_counted(described) is fits
