"""The planner as a generator: what it asks, in which order, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_mssql_cdc.errors import ConnectionBroken, StatementFailed
from airflow_provider_mssql_cdc.model.source_table import Column
from airflow_provider_mssql_cdc.planning.keys import KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import RangePlan, drive, plan_ranges, seek_bounds
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.support.seek_model import SqliteTable
from tests.support.tables import ORDERS, column

ID = (column("id", "bigint"),)
CODE = (column("code", "varchar(20)"),)


class Server:
    """A table that also answers ``sp_spaceused``."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Any], estimate: object) -> None:
        self.table, self.estimate = SqliteTable(columns, rows), estimate
        self.asked: list[str] = []

    def __call__(self, statement: Statement) -> list[dict[str, Any]]:
        self.asked.append(statement.text.split()[1])
        if "sp_spaceused" in statement.text:
            if isinstance(self.estimate, Exception):
                raise self.estimate
            return [{"name": "orders", "rows": self.estimate}]
        return self.table.answer(statement)


def plan(
    columns: Sequence[Column], rows: Sequence[Any], estimate: object, *, unique: bool = True, **limits: int
) -> RangePlan:
    keys = KeyChoice(tuple(columns), tuple(columns), split_is_unique=unique)
    server = Server(columns, rows, estimate)
    wanted = {"rows_per_range": 10, "max_ranges": 8, **limits}
    found = drive(plan_ranges(ORDERS, keys, **wanted), server)
    assert isinstance(found, RangePlan)
    return found


def numbers(count: int, step: int = 1) -> list[tuple[int]]:
    return [(number * step,) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("rows", "estimate", "method", "ranges"),
    [
        (numbers(40), "40   ", "arithmetic", 4),
        (numbers(40), "27", "arithmetic", 3),
        (numbers(40), "26", "keyset", 4),
        (numbers(40, step=100), "40", "keyset", 4),
        (numbers(40), "0", "keyset", 4),
        (numbers(40), "-1", "keyset", 4),
        (numbers(40), "lots", "keyset", 4),
        (numbers(40), None, "keyset", 4),
        (numbers(5), "0", "keyset", 1),
        (numbers(400), "1", "keyset", 5),
        (numbers(40), "400000", "arithmetic", 4),
        ([], "0", "whole", 1),
        ([], "40", "whole", 1),
        (numbers(1), "1", "arithmetic", 1),
        ([(-(2**63),), (2**63 - 1,)], "2", "keyset", 1),
        ([*numbers(39), (2**63 - 1,)], "40", "keyset", 4),
    ],
)
def test_one_integer_key_is_cut_by_arithmetic_when_dense_and_by_seeks_otherwise(
    rows: list[tuple[int]], estimate: object, method: str, ranges: int
) -> None:
    found = plan(ID, rows, estimate)
    assert (found.method, len(found.ranges)) == (method, ranges)


def test_a_dense_key_that_repeats_is_cut_by_seeks() -> None:
    rows = [(number // 10,) for number in range(100)]
    assert plan(ID, rows, "100", unique=False).method == "keyset"


def test_no_estimate_at_all_is_no_obstacle() -> None:
    assert plan(ID, numbers(40), StatementFailed("no such procedure")).method == "keyset"


def test_a_broken_connection_ends_the_planning() -> None:
    with pytest.raises(ConnectionBroken):
        plan(ID, numbers(40), ConnectionBroken("gone"))


def test_one_range_is_asked_for_without_a_question_to_the_server() -> None:
    assert plan(ID, numbers(40), AssertionError("asked"), max_ranges=1).method == "whole"


def test_no_split_columns_make_one_range_and_say_why() -> None:
    keys = KeyChoice(None, None, reasons=("no key: a heap", "one range: no key to cut ranges on"))
    found = drive(plan_ranges(ORDERS, keys, rows_per_range=1, max_ranges=9), Server(ID, [], "0"))
    assert found == RangePlan.whole("no key: a heap; one range: no key to cut ranges on")


def test_the_reason_holds_no_key_value() -> None:
    found = plan(CODE, [("secret-a",), ("secret-b",)], "2", rows_per_range=1)
    assert len(found.ranges) == 2
    assert "secret" not in found.reason


def bounds(columns: Sequence[Column], rows: Sequence[Any], **wanted: Any) -> list[tuple[str | None, ...]]:
    table = SqliteTable(columns, rows)
    found: list[tuple[str | None, ...]] = drive(seek_bounds(ORDERS, columns, **wanted), table.answer)
    return found


def test_three_values_give_three_ranges_however_many_are_wanted() -> None:
    rows = [(value,) for value in ("open", "shipped", "closed") for _ in range(50)]
    found = bounds(CODE, rows, estimate=150, rows_per_range=10, max_ranges=8)
    assert found == [("open",), ("shipped",)]


def test_a_value_is_never_split_whatever_its_spellings() -> None:
    rows = [(spelled,) for spelled in ("n", "N", "n  ", "N ") for _ in range(10)] + [("o",)]
    assert bounds(CODE, rows, estimate=41, rows_per_range=5, max_ranges=8) == [("o",)]


def test_leading_values_keep_the_text_of_the_bound_before() -> None:
    columns = (*CODE, column("n", "int"))
    rows = [("abc" if number % 2 else "ABC", number) for number in range(40)]
    found = bounds(columns, rows, estimate=40, rows_per_range=10, max_ranges=8)
    assert [number for _, number in found] == ["10", "20", "30"]
    assert len({code for code, _ in found}) == 1


def test_nulls_come_first_and_are_bounds_like_others() -> None:
    columns = (column("a", "int", nullable=True), column("b", "int", nullable=True))
    rows = [(None, None), (None, None), (None, 1), (None, 2), (1, None), (1, 5)]
    assert bounds(columns, rows, estimate=6, rows_per_range=2, max_ranges=8) == [(None, "1"), ("1", None)]


@pytest.mark.parametrize("text", ["caf\ufffd", "half \ud83d of a pair"])
def test_a_key_that_no_text_can_carry_makes_one_range_with_the_reason(text: str) -> None:
    answers = {"TOP": [{"k0": text, "keys_read": 1, "is_lower": 0}], "sys.sp_spaceused": [{"rows": "5"}]}
    found = drive(
        plan_ranges(ORDERS, KeyChoice(CODE, CODE), rows_per_range=1, max_ranges=9),
        lambda statement: answers[statement.text.split()[1]],
    )
    assert found.method == "whole"
    assert "column code holds characters that cannot be sent back exactly" in found.reason


@pytest.mark.parametrize("max_ranges", [2, 3, 4, 5, 7, 8, 256])
def test_neighbours_are_merged_before_there_are_too_many_ranges(max_ranges: int) -> None:
    found = bounds(ID, numbers(200, step=7), estimate=0, rows_per_range=1, max_ranges=max_ranges)
    edges = [0, *(int(number or 0) // 7 - 1 for (number,) in found), 200]
    counted = [upper - lower for lower, upper in pairwise(edges)]
    assert max_ranges // 2 < len(counted) <= max_ranges or max_ranges == 256
    assert max(counted[:-1]) <= 2 * min(counted[:-1])
