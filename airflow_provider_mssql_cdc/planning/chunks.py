"""Find the chunk bounds of a chunked snapshot, by arithmetic, by counted slices, or by seeks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.model.chunks import PlanStart, StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import Column, SourceTable
from airflow_provider_mssql_cdc.planning.keys import KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import (
    cut_integers,
    estimated_rows,
    is_dense,
    is_whole_number,
    key_of,
    next_bound,
)
from airflow_provider_mssql_cdc.tsql.snapshot import count_slices, ends_within, first_key
from airflow_provider_mssql_cdc.tsql.statement import Statement

Rows = Sequence[Mapping[str, Any]]

SLICES_PER_CHUNK = 8
MIN_SLICES, MAX_SLICES = 1024, 100_000
MAX_SPANS = 4
"""A key span up to this many times 2**63 - 1 is counted; a wider decimal key is cut by seeks."""
_LONGEST = 2**63 - 1  # bigint, in which the server computes the slice of a key


@dataclass(frozen=True, slots=True)
class Slice:
    """Hold the number of rows with keys from ``low`` to ``high``, both included; keys as integers."""

    low: int
    high: int
    rows: int


def can_be_counted(column: Column) -> bool:
    """Whether a column's keys can be counted per slice: integers and dates, without NULLs."""
    # A NULL belongs to no slice.
    return not column.nullable and (is_whole_number(column.sql_type) or column.sql_type.name == "date")


def number_of(column: Column, text: str) -> int:
    """Return a key as an integer: its value, or the days since 0001-01-01."""
    return date.fromisoformat(text).toordinal() if column.sql_type.name == "date" else int(text)


def text_of(column: Column, number: int) -> str:
    """Return a key in the server's spelling."""
    if column.sql_type.name == "date":
        return date.fromordinal(number).isoformat()
    return str(number)


def counted_bounds(
    table: SourceTable,
    column: Column,
    *,
    first: int,
    last: int,
    chunk_rows: int,
    rows_estimated: int | None,
    found: Callable[[int], None],
) -> Generator[Statement, Rows, None]:
    """Pass each inner bound of ``[first, last]`` to ``found``, in order, as soon as it is known.

    No chunk has more than ``chunk_rows`` counted rows, unless all its rows share one key.
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
    """Yield neighbouring dense slices together, every other slice alone."""
    # An empty slice is not listed and separates its neighbours. The limit keeps the next count of a run
    # finer than this one: it gets at least two slices for each slice of the run.
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
    """Count a run of dense slices again, until none is dense or wider than one key.

    Ends, because each round has at least two slices for each slice of its run.
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
    """Count rows per slice of ``[first, last]``, in pieces whose width fits a bigint of the server."""
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


RowsOf = Sequence[Mapping[str, Any]]

MAX_CHUNKS = 200_000
"""Chunks that one plan may have: limits the plan table, the waves and the log of bronze."""

_WIDEST = MAX_SPANS * (2**63 - 1)


def begin_chunks(
    table: SourceTable,
    keys: KeyChoice,
    *,
    snapshot: Lsn,
    chunk_rows: int,
    split: str,
    commit_ts: datetime | None = None,
) -> Generator[Statement, RowsOf, PlanStart]:
    """Measure the ends of the key and choose how to cut it.

    S must have been recorded before the first statement runs.
    """

    def start(method: str, reason: str, **ends: Any) -> PlanStart:
        return PlanStart(
            snapshot, method, reason, chunk_rows=chunk_rows, split=split, commit_ts=commit_ts, **ends
        )

    estimate = yield from estimated_rows(table)
    if keys.split_by is None:
        reason = "; ".join(keys.reasons) or "the table has no column to cut on"
        return start("whole", reason, rows_estimated=estimate)
    lowest = yield first_key(table, keys.split_by)
    highest = yield first_key(table, keys.split_by, descending=True)
    if not lowest or not highest:
        return start("whole", "the table is empty", rows_estimated=estimate)
    try:
        low, high = (key_of(found[0], keys.split_by) for found in (lowest, highest))
    except UnsupportedKey as exc:
        return start("whole", str(exc), rows_estimated=estimate)
    method, reason = _method(keys, low, high, estimate=estimate)
    return start(method, reason, lowest=low, highest=high, rows_estimated=estimate)


def _method(keys: KeyChoice, low: Bound, high: Bound, *, estimate: int | None) -> tuple[str, str]:
    columns = keys.split_by or ()
    names = ", ".join(column.name for column in columns)
    known = "rows unknown" if estimate is None else f"about {estimate} rows"
    column = columns[0]
    if len(columns) == 1 and can_be_counted(column) and low[0] is not None and high[0] is not None:
        span = number_of(column, high[0]) - number_of(column, low[0]) + 1
        if keys.split_is_unique and is_whole_number(column.sql_type) and is_dense(span, estimate):
            return "arithmetic", f"dense key {names}: {known} over {span} numbers"
        if span <= _WIDEST:
            return "grid", f"rows counted per slice of {names}: {known} over {span} values"
    return "keyset", f"keyset seeks on {names}: {known}"


def find_bounds(
    table: SourceTable, columns: Sequence[Column], plan: StoredPlan, *, found: Callable[[Bound], None]
) -> Generator[Statement, RowsOf, None]:
    """Pass every inner bound above those of the plan to ``found``, in order, as soon as it is known.

    :raises ConfigurationError: ``chunk_rows`` would make more than :data:`MAX_CHUNKS` chunks.
    """
    limited = _limited(found, plan)
    method = plan.start.method
    if method == "arithmetic":
        yield from _by_arithmetic(columns[0], plan, limited)
    elif method == "grid":
        yield from _by_grid(table, columns[0], plan, limited)
    elif method == "keyset":
        yield from _by_seeks(table, columns, plan, limited)


def _limited(found: Callable[[Bound], None], plan: StoredPlan) -> Callable[[Bound], None]:
    count = len(plan.bounds)

    def counted(bound: Bound) -> None:
        nonlocal count
        count += 1
        if count >= MAX_CHUNKS:
            raise ConfigurationError(
                f"chunk_rows must make at most {MAX_CHUNKS:,} chunks of this table, got "
                f"{plan.start.chunk_rows}, which makes more. Abandon this snapshot and start another one "
                "with "
                "a larger chunk_rows"
            )
        found(bound)

    return counted


def _ends(column: Column, plan: StoredPlan) -> tuple[int, int]:
    """Return the span without bounds yet: from the last known bound, or the first key, to the last key."""
    start = plan.start
    lower = plan.bounds[-1] if plan.bounds else start.lowest
    assert lower is not None
    assert start.highest is not None
    return number_of(column, lower[0] or ""), number_of(column, start.highest[0] or "")


def _by_arithmetic(
    column: Column, plan: StoredPlan, found: Callable[[Bound], None]
) -> Generator[Statement, RowsOf, None]:
    """Cut into parts of at most ``chunk_rows`` integers; keys are unique, so rows are at most as many."""
    first, last = _ends(column, plan)
    for bound in cut_integers(first, last, -(-(last - first + 1) // plan.start.chunk_rows)):
        found(bound)
    yield from ()


def _by_grid(
    table: SourceTable, column: Column, plan: StoredPlan, found: Callable[[Bound], None]
) -> Generator[Statement, RowsOf, None]:
    first, last = _ends(column, plan)
    yield from counted_bounds(
        table,
        column,
        first=first,
        last=last,
        chunk_rows=plan.start.chunk_rows,
        rows_estimated=plan.start.rows_estimated,
        found=lambda number: found((text_of(column, number),)),
    )


def _by_seeks(
    table: SourceTable, columns: Sequence[Column], plan: StoredPlan, found: Callable[[Bound], None]
) -> Generator[Statement, RowsOf, None]:
    """Seek each bound ``chunk_rows`` rows after the previous one, up to the last key."""
    start = plan.start
    lower = plan.bounds[-1] if plan.bounds else start.lowest
    while lower is not None:
        try:
            lower = yield from next_bound(
                table, columns, lower=lower, step=start.chunk_rows, upper=start.highest
            )
        except UnsupportedKey:  # this key cannot be a bound: the rest of the table is one chunk
            return
        if lower is not None:
            found(lower)
