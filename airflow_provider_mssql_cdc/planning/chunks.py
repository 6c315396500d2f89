"""Cutting a table into chunks without I/O: begin once, then find bounds from wherever the last one was.

Dense whole numbers are cut by arithmetic, other whole numbers and dates by counts per slice of a grid,
any other key by keyset seeks. All of it happens after S, between the first and the last key that the
table had then: what is inserted above the last key comes as changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.model.chunk_plan import PlanStart, StoredPlan
from airflow_provider_mssql_cdc.model.columns import Column, SourceTable
from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.grid import (
    MAX_GRIDS,
    fits_a_grid,
    grid_bounds,
    number_of,
    text_of,
)
from airflow_provider_mssql_cdc.planning.key_choice import KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import cut_integers, is_dense, is_whole_number
from airflow_provider_mssql_cdc.planning.seeks import estimated_rows, key_of, next_bound
from airflow_provider_mssql_cdc.tsql.keys import first_key
from airflow_provider_mssql_cdc.tsql.statement import Statement

Rows = Sequence[Mapping[str, Any]]

MAX_CHUNKS = 200_000
"""More than this is refused: the plan, its waves and the log of bronze would outgrow what they are for."""

_WIDEST = MAX_GRIDS * (2**63 - 1)


def begin_chunks(
    table: SourceTable,
    keys: KeyChoice,
    *,
    snapshot: Lsn,
    chunk_rows: int,
    split: str,
    commit_ts: datetime | None = None,
) -> Generator[Statement, Rows, PlanStart]:
    """Measure the key's ends and choose how to cut. S has been recorded before the first statement runs."""

    def start(method: str, reason: str, **ends: Any) -> PlanStart:
        return PlanStart(
            snapshot, method, reason, chunk_rows=chunk_rows, split=split, commit_ts=commit_ts, **ends
        )

    estimate = yield from estimated_rows(table)
    if keys.split_by is None:
        reason = "; ".join(keys.reasons) or "no column to cut on"
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
    if len(columns) == 1 and fits_a_grid(column) and low[0] is not None and high[0] is not None:
        span = number_of(column, high[0]) - number_of(column, low[0]) + 1
        if keys.split_is_unique and is_whole_number(column.sql_type) and is_dense(span, estimate):
            return "arithmetic", f"dense key {names}: {known} over {span} numbers"
        if span <= _WIDEST:
            return "grid", f"rows counted per slice of {names}: {known} over {span} values"
    return "keyset", f"keyset seeks on {names}: {known}"


def find_bounds(
    table: SourceTable, columns: Sequence[Column], plan: StoredPlan, *, found: Callable[[Bound], None]
) -> Generator[Statement, Rows, None]:
    """Tell ``found`` every inner bound above those that the plan has, in order, as soon as it is known.

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
                f"chunk_rows={plan.start.chunk_rows} makes more than {MAX_CHUNKS:,} chunks of this table. "
                "Abandon this snapshot and open another one with a larger chunk_rows"
            )
        found(bound)

    return counted


def _ends(column: Column, plan: StoredPlan) -> tuple[int, int]:
    """Where bounds are still to be found: from the last known one, or the first key, to the last key."""
    start = plan.start
    lower = plan.bounds[-1] if plan.bounds else start.lowest
    assert lower is not None
    assert start.highest is not None
    return number_of(column, lower[0] or ""), number_of(column, start.highest[0] or "")


def _by_arithmetic(
    column: Column, plan: StoredPlan, found: Callable[[Bound], None]
) -> Generator[Statement, Rows, None]:
    """Parts of at most ``chunk_rows`` numbers; unique keys, so no part has more rows than that."""
    first, last = _ends(column, plan)
    for bound in cut_integers(first, last, -(-(last - first + 1) // plan.start.chunk_rows)):
        found(bound)
    yield from ()


def _by_grid(
    table: SourceTable, column: Column, plan: StoredPlan, found: Callable[[Bound], None]
) -> Generator[Statement, Rows, None]:
    first, last = _ends(column, plan)
    yield from grid_bounds(
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
) -> Generator[Statement, Rows, None]:
    """Each bound is the key ``chunk_rows`` rows after the one before, up to the last key.

    A key that no text can carry ends the cutting: what is left is one chunk.
    """
    start = plan.start
    lower = plan.bounds[-1] if plan.bounds else start.lowest
    while lower is not None:
        try:
            lower = yield from next_bound(
                table, columns, lower=lower, step=start.chunk_rows, upper=start.highest
            )
        except UnsupportedKey:
            return
        if lower is not None:
            found(lower)
