"""Pieces of a range, as conditions: the NULL rules, one by one, and what is refused."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.tsql.predicates import EVERYTHING, NOTHING, pieces_from, range_pieces
from tests.support.tables import column

N = column("n", "int", nullable=True)
A, B = column("a", "int", nullable=True), column("b", "int", nullable=True)
ID = column("id", "int")

LO, HI = "CAST(%(lo0)s AS int)", "CAST(%(hi0)s AS int)"
LO1, HI1 = "CAST(%(lo1)s AS int)", "CAST(%(hi1)s AS int)"


def texts(columns, lower: Bound | None, upper: Bound | None) -> list[str]:
    pieces = range_pieces(columns, KeyRange(lower, upper))
    return [" ".join(piece.text.split()) for piece in pieces]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, None, ""),
        (None, ("5",), f"([n] < {HI} OR [n] IS NULL)"),
        (("5",), None, f"[n] >= {LO}"),
        (("5",), ("9",), f"[n] >= {LO} AND [n] < {HI}"),
        ((None,), ("9",), f"([n] < {HI} OR [n] IS NULL)"),
        ((None,), None, ""),
        (None, (None,), "1 = 0"),
        (("5",), ("5",), "1 = 0"),
        ((None,), (None,), "1 = 0"),
    ],
)
def test_one_nullable_column(lower: Bound | None, upper: Bound | None, expected: str) -> None:
    assert texts((N,), lower, upper) == [expected]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, ("5",), f"[id] < {HI}"),
        (("5",), None, f"[id] >= {LO}"),
        (("5",), ("9",), f"[id] >= {LO} AND [id] < {HI}"),
    ],
)
def test_one_column_that_is_not_null_has_the_short_form(
    lower: Bound | None, upper: Bound | None, expected: str
) -> None:
    assert texts((ID,), lower, upper) == [expected]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, ("1", "2"), [f"([a] < {HI} OR [a] IS NULL)", f"[a] = {HI} AND ([b] < {HI1} OR [b] IS NULL)"]),
        (None, ("1", None), [f"([a] < {HI} OR [a] IS NULL)"]),
        (None, (None, "2"), [f"[a] IS NULL AND ([b] < {HI1} OR [b] IS NULL)"]),
        (None, (None, None), ["1 = 0"]),
        (("1", "2"), None, [f"[a] = {LO} AND [b] >= {LO1}", f"[a] > {LO}"]),
        (("1", None), None, [f"[a] = {LO}", f"[a] > {LO}"]),
        ((None, "2"), None, [f"[a] IS NULL AND [b] >= {LO1}", "[a] IS NOT NULL"]),
        ((None, None), None, ["[a] IS NULL", "[a] IS NOT NULL"]),
        (
            ("1", "2"),
            ("3", "4"),
            [
                f"[a] = {LO} AND [b] >= {LO1}",
                f"[a] > {LO} AND [a] < {HI}",
                f"[a] = {HI} AND ([b] < {HI1} OR [b] IS NULL)",
            ],
        ),
        (
            (None, "2"),
            ("3", None),
            [f"[a] IS NULL AND [b] >= {LO1}", f"[a] IS NOT NULL AND [a] < {HI}"],
        ),
        (("1", "2"), ("1", "4"), [f"[a] = {LO} AND [b] >= {LO1} AND [b] < {HI1}"]),
        (("1", None), ("1", "4"), [f"[a] = {LO} AND ([b] < {HI1} OR [b] IS NULL)"]),
        ((None, None), (None, "4"), [f"[a] IS NULL AND ([b] < {HI1} OR [b] IS NULL)"]),
    ],
)
def test_two_nullable_columns(lower: Bound | None, upper: Bound | None, expected: list[str]) -> None:
    assert texts((A, B), lower, upper) == expected


def test_values_that_the_server_may_hold_for_equal_are_told_apart_by_the_server() -> None:
    columns = (column("at", "datetimeoffset(0)"), column("b", "int"))
    lower, upper = ("2024-01-01 10:00:00 +00:00", "1"), ("2024-01-01 12:00:00 +02:00", "5")
    lo, hi = "CAST(%(lo0)s AS datetimeoffset(0))", "CAST(%(hi0)s AS datetimeoffset(0))"
    assert texts(columns, lower, upper) == [
        f"[at] = {lo} AND [b] >= {LO1} AND {lo} < {hi}",
        f"[at] > {lo} AND [at] < {hi} AND {lo} < {hi}",
        f"[at] = {hi} AND [b] < {HI1} AND {lo} < {hi}",
        f"[at] = {lo} AND [b] >= {LO1} AND [b] < {HI1} AND {lo} = {hi}",
    ]


def test_the_last_column_needs_no_such_question() -> None:
    assert len(texts((ID, column("b", "varchar(5)")), ("1", "n"), ("1", "N"))) == 1


@pytest.mark.parametrize(
    ("columns", "bound", "said"),
    [
        ((ID,), ("1", "2"), "a bound of 2 values for 1 key columns"),
        ((ID, N), ("1",), "a bound of 1 values for 2 key columns"),
        ((column("x", "xml"),), ("1",), "column x of type xml cannot bound a range"),
    ],
)
def test_a_bound_of_other_columns_is_refused(columns, bound: Bound, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        range_pieces(columns, KeyRange(bound, None))


def test_a_seek_has_one_piece_per_column_from_the_longest_prefix_on() -> None:
    columns = (A, column("b", "int"), column("c", "int"))
    pieces = pieces_from(columns, ("1", "2", "3"), inclusive=True)
    assert [" ".join(piece.text.split()) for piece in pieces] == [
        f"[a] = {LO} AND [b] = {LO1} AND [c] >= CAST(%(lo2)s AS int)",
        f"[a] = {LO} AND [b] > {LO1}",
        f"[a] > {LO}",
    ]
    assert "[c] > " in pieces_from(columns, ("1", "2", "3"), inclusive=False)[0].text


def test_a_seek_from_null_knows_what_needs_no_question() -> None:
    assert pieces_from((N,), (None,), inclusive=True) == (EVERYTHING,)
    assert pieces_from((ID,), (None,), inclusive=False) == (EVERYTHING,)
    assert NOTHING.is_nothing
    assert EVERYTHING.where == ""


def test_names_and_values_cannot_leave_their_place() -> None:
    hostile = column("x]; DROP TABLE t --%(lo0)s", "varchar(20)")
    (piece,) = range_pieces((hostile,), KeyRange(("'; DROP TABLE t --",), None))
    assert piece.text.startswith("[x]]; DROP TABLE t --%%(lo0)s] >= CAST(%(lo0)s ")
    assert dict(piece.parameters) == {"lo0": "'; DROP TABLE t --"}
