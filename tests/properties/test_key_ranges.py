"""Key ranges tile the keys: every row is in exactly one range, and in exactly one of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.model.key_range import Bound, bound_from_json, bound_to_json, ranges_between
from airflow_provider_mssql_cdc.model.source_table import CHAR_TYPES, Column
from airflow_provider_mssql_cdc.tsql.predicates import range_pieces
from tests.support.seek_model import SqliteTable, folded
from tests.support.tables import column

# few values, so that keys repeat, share prefixes and are equal up to case and blanks; and the extremes
NUMBERS = st.sampled_from([-(2**63), -2, -1, 0, 1, 2, 3, 2**63 - 1])
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "a", "A", "a ", "A  ", "aa", "aA", "Aa ", "b", "B", "z" * 20, "it's", "50% %(lo0)s"]
    ),
    st.text(alphabet="aAbB ", max_size=4),
)


@st.composite
def tables(draw: st.DrawFn, *, max_columns: int = 4) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
    """A key of one to four columns, some nullable, and rows over it."""
    count = draw(st.integers(1, max_columns))
    kinds = [draw(st.sampled_from(["bigint", "varchar(20)", "nvarchar(20)"])) for _ in range(count)]
    nullable = [draw(st.booleans()) for _ in range(count)]
    columns = tuple(
        column(f"k {number}", kind, nullable=accepts)
        for number, (kind, accepts) in enumerate(zip(kinds, nullable, strict=True))
    )
    values = [_values(*described) for described in zip(kinds, nullable, strict=True)]
    rows = draw(st.lists(st.tuples(*values), max_size=40))
    return columns, rows


def _values(kind: str, nullable: bool) -> st.SearchStrategy[Any]:
    values = NUMBERS if kind == "bigint" else TEXTS
    return st.one_of(st.none(), values) if nullable else values


def rank(row: Sequence[Any]) -> tuple[Any, ...]:
    """The server's order, written a second time: NULL first, texts folded."""
    return tuple(
        (value is not None, folded(value) if isinstance(value, str) else value or 0) for value in row
    )


def bounds_among(rows: Sequence[Sequence[Any]], chosen: Sequence[int]) -> list[Bound]:
    """Keys of some rows in the server's order, each strictly above the one before."""
    found: dict[tuple[Any, ...], Sequence[Any]] = {}
    for number in chosen:
        row = rows[number % len(rows)]
        found.setdefault(rank(row), row)
    return [tuple(None if value is None else str(value) for value in found[key]) for key in sorted(found)]


@settings(deadline=None, max_examples=150)
@given(described=tables(), chosen=st.lists(st.integers(0, 39), max_size=6))
def test_every_row_is_in_exactly_one_piece_of_exactly_one_range(
    described: tuple[tuple[Column, ...], list[tuple[Any, ...]]], chosen: list[int]
) -> None:
    columns, rows = described
    bounds = bounds_among(rows, chosen) if rows else []
    table = SqliteTable(columns, rows)
    found: list[tuple[int, int]] = []
    for index, key_range in enumerate(ranges_between(bounds)):
        for piece in range_pieces(columns, key_range):
            found += [(row, index) for row in table.matching(piece)]
    table.close()
    ranks = [rank(tuple(bound)) for bound in _as_values(columns, bounds)]
    expected = [(number, sum(key <= rank(row) for key in ranks)) for number, row in enumerate(rows)]
    assert sorted(found) == expected


def _as_values(columns: Sequence[Column], bounds: Sequence[Bound]) -> list[list[Any]]:
    return [
        [
            int(value) if value is not None and described.sql_type.name not in CHAR_TYPES else value
            for described, value in zip(columns, bound, strict=True)
        ]
        for bound in bounds
    ]


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from(["a", "A", "b"])] * 16), min_size=2, max_size=20),
    chosen=st.lists(st.integers(0, 19), min_size=2, max_size=3),
)
def test_keys_of_sixteen_columns_tile_as_well(rows: list[tuple[str, ...]], chosen: list[int]) -> None:
    columns = tuple(column(f"k{number}", "varchar(5)") for number in range(16))
    table = SqliteTable(columns, rows)
    bounds = bounds_among(rows, chosen)
    found = [
        row
        for key_range in ranges_between(bounds)
        for piece in range_pieces(columns, key_range)
        for row in table.matching(piece)
    ]
    table.close()
    assert sorted(found) == list(range(len(rows)))


@given(bound=st.lists(st.one_of(st.none(), st.text()), min_size=1, max_size=16).map(tuple))
def test_a_bound_survives_json_as_it_is(bound: Bound) -> None:
    written = bound_to_json(bound)
    assert bound_from_json(written) == bound
    assert "\0" not in str(written)


@given(value=st.text(alphabet="\0\ud83d\ude00\udc00aé", min_size=1))
def test_what_jsonb_refuses_travels_as_hex(value: str) -> None:
    assert bound_from_json(bound_to_json((value,))) == (value,)
