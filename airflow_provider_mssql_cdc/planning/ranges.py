"""Cut a table into key ranges for a whole snapshot, by arithmetic or by keyset seeks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_mssql_cdc.errors import MssqlCdcError, StatementFailed, UnsupportedKey
from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange, ranges_between
from airflow_provider_mssql_cdc.model.source_table import INTEGER_TYPES, Column, SourceTable, SqlType
from airflow_provider_mssql_cdc.planning.keys import KeyChoice
from airflow_provider_mssql_cdc.tsql.catalog import space_used
from airflow_provider_mssql_cdc.tsql.snapshot import first_key, key_ends, seek_key
from airflow_provider_mssql_cdc.tsql.statement import Statement


@dataclass(frozen=True, slots=True)
class RangePlan:
    """Hold the ranges of a table and how they were cut.

    :param ranges: cover every key once, in the server's order; never empty.
    :param method: ``whole``, ``arithmetic`` or ``keyset``.
    :param reason: for the log and the facts, without a key value.
    """

    ranges: tuple[KeyRange, ...]
    method: str
    reason: str

    def __post_init__(self) -> None:
        if not self.ranges:
            raise ValueError("a plan must have at least one range")

    @classmethod
    def whole(cls, reason: str) -> RangePlan:
        """Build a plan of one range for the whole table."""
        return cls((KeyRange(),), "whole", reason)

    @classmethod
    def cut(cls, bounds: Iterable[Bound], *, method: str, reason: str) -> RangePlan:
        """Build a plan of the ranges between inner bounds, which are in the server's order."""
        return cls(tuple(ranges_between(tuple(bounds))), method, reason)


def is_whole_number(sql_type: SqlType) -> bool:
    """Whether keys of this type can be cut by arithmetic: tinyint to bigint, decimal(p,0)."""
    return sql_type.name in INTEGER_TYPES or (sql_type.name == "decimal" and sql_type.scale == 0)


def largest_count(max_ranges: int, max_map_length: int | None = None) -> int:
    """Return how many mapped tasks a plan may have.

    :param max_map_length: Airflow's limit (``[core] max_map_length``).
    :raises ValueError: a limit below 1.
    """
    limit = max_ranges if max_map_length is None else min(max_ranges, max_map_length)
    if limit < 1:
        raise ValueError(f"limit must be >= 1, got {limit}")
    return limit


def range_count(
    rows: int | None, rows_per_range: int, max_ranges: int, max_map_length: int | None = None
) -> int:
    """Return the number of ranges, at least 1; the estimate may be missing, zero, negative or wrong."""
    if rows_per_range < 1:
        raise ValueError(f"rows_per_range must be >= 1, got {rows_per_range}")
    wanted = -(-max(rows or 0, 0) // rows_per_range)
    return max(1, min(wanted, largest_count(max_ranges, max_map_length)))


def is_dense(span: int, rows: int | None) -> bool:
    """Whether ranges of equal width over ``span`` unique integers are balanced enough.

    A range of ``span / n`` numbers holds at most that many rows; with ``span <= 1.5 * rows`` that is at
    most 1.5 times the average.
    """
    return rows is not None and rows > 0 and 2 * span <= 3 * rows


def cut_integers(lo: int, hi: int, count: int) -> list[Bound]:
    """Return the inner bounds that cut ``[lo, hi]`` into ``count`` parts of equal width, within one.

    Fewer when there are not that many integers; each bound is above ``lo`` and at most ``hi``.
    """
    if hi < lo or count < 1:
        raise ValueError(f"lo <= hi and count >= 1 must hold, got [{lo}, {hi}] and {count}")
    span = hi - lo + 1
    count = min(count, span)
    return [(str(lo + span * index // count),) for index in range(1, count)]


Rows = Sequence[Mapping[str, Any]]
Steps = Generator[Statement, Rows, Any]


def drive(steps: Steps, run: Callable[[Statement], Rows]) -> Any:
    """Run a planner: send it the rows of each statement, and throw errors of ``run`` into it."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = run(statement)
            except MssqlCdcError as exc:
                statement = steps.throw(exc)
            else:
                statement = steps.send(rows)
    except StopIteration as finished:
        return finished.value


class TooManySeeks(Exception):
    """The cut would take more seeks than the caller wants to wait for."""


def plan_ranges(
    table: SourceTable,
    keys: KeyChoice,
    *,
    rows_per_range: int,
    max_ranges: int,
    max_seeks: int | None = None,
) -> Generator[Statement, Rows, RangePlan]:
    """Cut a table into ranges. S must have been recorded before the first statement runs.

    :param max_ranges: limit of the result; the caller applies Airflow's own limit.
    :param max_seeks: limit of the seeks; None for no limit.
    :raises TooManySeeks: the key must be sought for more ranges than ``max_seeks``.
    """
    if keys.split_by is None:
        return RangePlan.whole("; ".join(keys.reasons) or "the table has no column to cut ranges on")
    if max_ranges == 1:
        return RangePlan.whole("one range, since max_ranges is 1")
    estimate = yield from estimated_rows(table)
    if len(keys.split_by) == 1 and keys.split_is_unique and is_whole_number(keys.split_by[0].sql_type):
        plan = yield from _arithmetic(table, keys.split_by[0], estimate, rows_per_range, max_ranges)
        if plan is not None:
            return plan
    if max_seeks is not None and range_count(estimate, rows_per_range, max_ranges) > max_seeks:
        raise TooManySeeks
    return (yield from _keyset(table, keys.split_by, estimate, rows_per_range, max_ranges))


def estimated_rows(table: SourceTable) -> Generator[Statement, Rows, int | None]:
    """Read the table's row count from its metadata; None when the server does not return one."""
    try:
        rows = yield space_used(table)
    except StatementFailed:
        return None
    return rows_told(rows)


def rows_told(rows: Rows) -> int | None:
    """The number in the answer of ``sp_spaceused``, which is a string with blanks."""
    try:
        return int(str(rows[0]["rows"]).strip()) if rows else None
    except ValueError:
        return None


def _arithmetic(
    table: SourceTable, column: Column, estimate: int | None, rows_per_range: int, max_ranges: int
) -> Generator[Statement, Rows, RangePlan | None]:
    """Cut into ranges of equal width; None when the key is too sparse for balanced ranges."""
    ends = (yield key_ends(table, column))[0]
    if ends["lowest"] is None:
        return RangePlan.whole("the table is empty")
    lo, hi = int(ends["lowest"]), int(ends["highest"])
    span = hi - lo + 1
    if not is_dense(span, estimate):
        return None
    count = range_count(min(estimate or 0, span), rows_per_range, max_ranges)
    reason = f"dense key {column.name}: about {estimate} rows over {span} numbers"
    return RangePlan.cut(cut_integers(lo, hi, count), method="arithmetic", reason=reason)


def _keyset(
    table: SourceTable, columns: Sequence[Column], estimate: int | None, rows_per_range: int, max_ranges: int
) -> Generator[Statement, Rows, RangePlan]:
    names = ", ".join(column.name for column in columns)
    try:
        bounds = yield from seek_bounds(
            table, columns, estimate=estimate, rows_per_range=rows_per_range, max_ranges=max_ranges
        )
    except UnsupportedKey as exc:
        return RangePlan.whole(str(exc))
    known = "rows unknown" if estimate is None else f"about {estimate} rows"
    return RangePlan.cut(bounds, method="keyset", reason=f"keyset seeks on {names}: {known}")


def seek_bounds(
    table: SourceTable,
    columns: Sequence[Column],
    *,
    estimate: int | None,
    rows_per_range: int,
    max_ranges: int,
) -> Generator[Statement, Rows, list[Bound]]:
    """Seek the inner bounds of at most ``max_ranges`` ranges, until the end of the table.

    :raises UnsupportedKey: a key has no exact text, so it cannot bound a range.
    """
    # The estimate sets only the first steps. A table with more rows than estimated gets more ranges; when
    # those would be too many, neighbours are merged and the step is doubled.
    found = yield first_key(table, columns)
    if not found:
        return []
    lower = key_of(found[0], columns)
    bounds: list[Bound] = []
    steps = _Steps(estimate, rows_per_range, max_ranges)
    while (bound := (yield from next_bound(table, columns, lower=lower, step=steps.next()))) is not None:
        bounds.append(bound)
        lower = bound
        if len(bounds) >= max_ranges and len(bounds) % 2 == 0:
            bounds = bounds[1::2]
            steps.double()
    while len(bounds) >= max_ranges:
        bounds = bounds[1::2]
    return bounds


def next_bound(
    table: SourceTable, columns: Sequence[Column], *, lower: Bound, step: int, upper: Bound | None = None
) -> Generator[Statement, Rows, Bound | None]:
    """Seek the key ``step`` rows after the first one at ``lower``; None when there are fewer rows.

    When more rows share the values of ``lower``, the result is the first key above them.

    :param upper: keys above it are ignored.
    """
    row, shared = yield from _search(table, columns, lower=lower, rows=step + 1, inclusive=True, upper=upper)
    if row is not None and int(row["is_lower"]) == 1:
        row, shared = yield from _search(table, columns, lower=lower, rows=1, inclusive=False, upper=upper)
    return None if row is None else key_of(row, columns, shared=lower[:shared])


def _search(
    table: SourceTable,
    columns: Sequence[Column],
    *,
    lower: Bound,
    rows: int,
    inclusive: bool,
    upper: Bound | None,
) -> Generator[Statement, Rows, tuple[Mapping[str, Any] | None, int]]:
    """Return the ``rows``-th key from a bound, and how many leading values it shares with the bound."""
    left = rows
    for depth in range(len(columns) - 1, -1, -1):
        statement = seek_key(
            table, columns, lower=lower, depth=depth, rows=left, inclusive=inclusive, upper=upper
        )
        found = (yield statement) if statement is not None else ()
        if found:
            read = int(found[0]["keys_read"])
            if read >= left:
                return found[0], depth
            left -= read
    return None, 0


def key_of(row: Mapping[str, Any], columns: Sequence[Column], *, shared: Bound = ()) -> Bound:
    """Return the key of a row.

    :param shared: leading values that equal those of the previous bound; their text is kept.
    :raises UnsupportedKey: a value has no exact text.
    """
    # The row may spell shared values differently ('A' and 'a'): for the server they are equal, and with
    # equal text the range's predicate compares them by equality.
    rest = range(len(shared), len(columns))
    values = tuple(_text(row[f"k{index}"]) for index in rest)
    for index, value in zip(rest, values, strict=True):
        if value is not None and not _is_exact(value):
            raise UnsupportedKey(
                f"one range: a key in column {columns[index].name} holds characters that cannot be sent back "
                "exactly"
            )
    return (*shared, *values)


def _text(value: Any) -> Any:
    """Decode a key of nchar or nvarchar, which is read as UTF-16 units, so that half a pair survives."""
    return value.decode("utf-16-le", "surrogatepass") if isinstance(value, bytes) else value


def _is_exact(value: object) -> bool:
    """Whether a driver returned the server's text exactly: no replacement character, no half pair."""
    if not isinstance(value, str):
        return False
    return not any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in value)


class _Steps:
    """Return how many rows the next range gets."""

    # The sizes that NTILE would give while the estimate lasts; then one seek of 1.5 steps, so that a few
    # rows above the estimate do not become a separate range; then equal steps.

    def __init__(self, estimate: int | None, rows_per_range: int, max_ranges: int) -> None:
        rows = max(estimate or 0, 0)
        count = range_count(rows, rows_per_range, max_ranges)
        self._step = max(rows_per_range, -(-rows // max_ranges))
        small, larger = divmod(rows, count)
        self._planned = [small + 1] * larger + [small] * (count - larger)
        self._planned[-1] = self._step + self._step // 2

    def next(self) -> int:
        """Return the rows to the next bound, at least 1."""
        return self._planned.pop(0) if self._planned else self._step

    def double(self) -> None:
        """Double the size of further ranges, after neighbours have been merged."""
        self._step *= 2
