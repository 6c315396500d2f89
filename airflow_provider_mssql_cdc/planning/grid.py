"""Bounds from row counts per slice of a grid: sizes follow the counts, not the spread of the key.

One GROUP BY counts the rows of every slice in one pass over the key. Runs of slices that hold too many
rows are counted again between their own smallest and largest key, on a finer grid: a dense cluster far
from everything else, or a sentinel at the end of the type, costs one more pass over the cluster alone.
Slices are then packed into chunks in key order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from airflow_provider_mssql_cdc.model.columns import Column, SourceTable
from airflow_provider_mssql_cdc.planning.ranges import is_whole_number
from airflow_provider_mssql_cdc.tsql.keys import count_slices, ends_within
from airflow_provider_mssql_cdc.tsql.statement import Statement

Rows = Sequence[Mapping[str, Any]]

SLICES_PER_CHUNK = 8
MIN_SLICES, MAX_SLICES = 1024, 100_000
MAX_GRIDS = 4
"""A span of up to this many times 2**63 - 1 is counted; a wider decimal key is cut by seeks."""
_LONGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows counted among the keys ``low`` to ``high``, both included; keys as whole numbers."""

    low: int
    high: int
    rows: int


def fits_a_grid(column: Column) -> bool:
    """Whole numbers and dates without NULLs, which no slice would hold."""
    return not column.nullable and (is_whole_number(column.sql_type) or column.sql_type.name == "date")


def number_of(column: Column, text: str) -> int:
    """A key as a whole number: its value, or the days since 0001-01-01."""
    return date.fromisoformat(text).toordinal() if column.sql_type.name == "date" else int(text)


def text_of(column: Column, number: int) -> str:
    """A key as the server renders it."""
    if column.sql_type.name == "date":
        return date.fromordinal(number).isoformat()
    return str(number)


def grid_bounds(
    table: SourceTable,
    column: Column,
    *,
    first: int,
    last: int,
    chunk_rows: int,
    rows_estimated: int | None,
    found: Callable[[int], None],
) -> Generator[Statement, Rows, None]:
    """Tell ``found`` each inner bound of ``[first, last]`` in order, as soon as it is known.

    No chunk has more than ``chunk_rows`` rows, as counted, unless all its rows share one key.
    """
    packed = 0
    slices = yield from _counted(table, column, first, last, wanted=_slices_for(rows_estimated, chunk_rows))
    for run in _runs(slices, chunk_rows):
        finer = [run[0]]
        if _is_dense(run[0], chunk_rows):
            finer = yield from _refined(table, column, run, chunk_rows=chunk_rows)
        for one in finer:
            if packed and packed + one.rows > chunk_rows:
                found(one.low)
                packed = 0
            packed += one.rows


def _slices_for(rows: int | None, chunk_rows: int) -> int:
    wanted = SLICES_PER_CHUNK * -(-max(rows or 0, 0) // chunk_rows)
    return max(MIN_SLICES, min(wanted, MAX_SLICES))


def _is_dense(one: Slice, chunk_rows: int) -> bool:
    return one.high > one.low and one.rows > max(1, chunk_rows // 4)


def _runs(slices: Iterable[Slice], chunk_rows: int) -> Iterator[list[Slice]]:
    """Neighbouring dense slices together, every other slice alone.

    An empty slice, which is not listed, parts its neighbours. A run has no more rows than one grid is fine
    enough for, so that counting it again is always finer than it was.
    """
    most = MAX_SLICES * chunk_rows // SLICES_PER_CHUNK
    run: list[Slice] = []
    rows = 0
    for one in slices:
        dense = _is_dense(one, chunk_rows)
        if run and not (dense and run[-1].high + 1 == one.low and rows + one.rows <= most):
            yield run
            run, rows = [], 0
        if dense:
            run.append(one)
            rows += one.rows
        else:
            yield [one]
    if run:
        yield run


def _refined(
    table: SourceTable, column: Column, run: Sequence[Slice], *, chunk_rows: int
) -> Generator[Statement, Rows, list[Slice]]:
    """A run of dense slices counted again, until none is dense or as narrow as one key.

    Every round is narrower than the one before: a grid has at least two slices per slice of its run.
    """
    low, high = run[0].low, run[-1].high
    ends = (yield ends_within(table, column, lower=text_of(column, low), upper=text_of(column, high)))[0]
    if ends["lowest"] is None:
        return [Slice(low, high, 0)]
    rows = sum(one.rows for one in run)
    wanted = _slices_for(rows, chunk_rows)
    low, high = number_of(column, ends["lowest"]), number_of(column, ends["highest"])
    counted = yield from _counted(table, column, low, high, wanted=wanted)
    finer: list[Slice] = []
    for inner in _runs(counted, chunk_rows):
        if _is_dense(inner[0], chunk_rows):
            finer += yield from _refined(table, column, inner, chunk_rows=chunk_rows)
        else:
            finer += inner
    return finer


def _counted(
    table: SourceTable, column: Column, first: int, last: int, *, wanted: int
) -> Generator[Statement, Rows, list[Slice]]:
    """One grid over ``[first, last]``, in pieces whose distances the server can hold in a bigint."""
    slices: list[Slice] = []
    for low in range(first, last + 1, _LONGEST):
        high = min(low + _LONGEST - 1, last)
        width = max(1, -(-(high - low + 1) // wanted))
        statement = count_slices(
            table, column, lower=text_of(column, low), upper=text_of(column, high), width=width
        )
        for row in (yield statement):
            begin = low + int(row["slice"]) * width
            slices.append(Slice(begin, min(begin + width - 1, high), int(row["row_count"])))
    return slices
