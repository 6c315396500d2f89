"""Packs of small tables and shares of a run's mapped tasks, as tables of cases."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.planning.packs import (
    LABEL_CHARACTERS,
    PACK_ROWS,
    TABLE_ROWS,
    Shares,
    cost,
    label_of,
    pack,
    ranges_wanted,
    share_out,
    wanted_packs,
)


@pytest.mark.parametrize(
    ("rows", "seconds", "expected"),
    [
        (0, None, TABLE_ROWS),
        (500, None, TABLE_ROWS + 500),
        (-1, None, TABLE_ROWS),
        (None, None, TABLE_ROWS + PACK_ROWS),
        (100, 10.0, TABLE_ROWS + 200_000),
        (1_000_000, 1.0, TABLE_ROWS + 1_000_000),
    ],
)
def test_a_table_costs_its_rows_or_what_it_took_last_time(
    rows: int | None, seconds: float | None, expected: int
) -> None:
    assert cost(rows, seconds) == expected


def test_the_largest_go_first_and_each_pack_gets_as_much_as_the_others() -> None:
    assert pack({"a": 5, "b": 4, "c": 3, "d": 3, "e": 1}, packs=2) == [["a", "d"], ["b", "c", "e"]]


def test_there_are_no_more_packs_than_tables_and_none_for_none() -> None:
    assert pack({"a": 1}, packs=4) == [["a"]]
    assert pack({}, packs=4) == []


@given(
    st.dictionaries(st.text(min_size=1, max_size=257), st.integers(1, 10**9), max_size=60),
    st.integers(1, 12),
    st.integers(50, 900),
)
def test_every_table_is_in_one_pack_whose_names_fit_into_its_item(
    costs: dict[str, int], packs: int, item_bytes: int
) -> None:
    sizes = {name: len(json.dumps(name)) + 2 for name in costs}
    found = pack(costs, packs=packs, sizes=sizes, item_bytes=item_bytes)
    assert sorted(name for names in found for name in names) == sorted(costs)
    assert all(len(names) == 1 or len(json.dumps(names)) <= item_bytes + 2 for names in found)


@pytest.mark.parametrize(
    ("tables", "each", "at_least", "packs"),
    [(0, 0, 4, 1), (1, 10, 4, 1), (500, TABLE_ROWS, 4, 5), (8, PACK_ROWS, 4, 8), (10, TABLE_ROWS, 4, 4)],
)
def test_more_to_do_makes_more_packs(tables: int, each: int, at_least: int, packs: int) -> None:
    assert wanted_packs({str(n): each for n in range(tables)}, at_least=at_least) == packs


@pytest.mark.parametrize(
    ("rows", "rows_per_range", "max_ranges", "max_tasks", "expected"),
    [
        (1_000_000, 1_000_000, 256, 256, 1),
        (1_000_001, 1_000_000, 256, 256, 2),
        (None, 1_000_000, 256, 256, 1),
        (10**12, 1_000_000, 10_000, 256, 128),
        (10**12, 1_000_000, 64, 256, 64),
        (10**12, 1, 10, 4, 2),
    ],
)
def test_a_large_table_wants_a_task_per_range_and_never_more_than_a_run_can_give(
    rows: int | None, rows_per_range: int, max_ranges: int, max_tasks: int, expected: int
) -> None:
    found = ranges_wanted(rows, rows_per_range=rows_per_range, max_ranges=max_ranges, max_tasks=max_tasks)
    assert found == expected


@pytest.mark.parametrize(
    ("asked", "shares"),
    [
        ({"packs": 5}, Shares((), {}, 5, ())),
        ({"ranges": {"a": 3, "b": 8}}, Shares(("b", "a"), {}, 0, ())),
        ({"ranges": {"a": 12, "b": 8, "c": 4}}, Shares(("a", "c"), {}, 0, ("b",))),
        ({"packs": 9, "ranges": {"a": 8}}, Shares(("a",), {}, 8, ())),
        ({"packs": 9, "ranges": {"a": 12}}, Shares(("a",), {}, 4, ())),
        ({"waves": {"x": 100, "y": 2}}, Shares((), {"x": 6, "y": 2}, 0, ())),
        ({"waves": {"x": 100}, "ranges": {"a": 12}}, Shares(("a",), {"x": 4}, 0, ())),
        ({"waves": {str(n): 1 for n in range(9)}}, Shares((), {str(n): 1 for n in range(8)}, 0, ("8",))),
        (
            {"packs": 9, "waves": {"x": 9}, "ranges": {"a": 8}},
            Shares(("a",), {"x": 4}, 4, ()),
        ),
    ],
)
def test_sixteen_tasks_are_shared_out(asked: dict[str, object], shares: Shares) -> None:
    given: dict[str, object] = {"packs": 0, "ranges": {}, "waves": {}, **asked}
    assert share_out(**given, max_tasks=16, max_waves=8) == shares  # type: ignore[arg-type]


names = st.text("abcxyz", min_size=1, max_size=3)


@given(
    st.integers(0, 50),
    st.dictionaries(names, st.integers(2, 40)),
    st.dictionaries(names, st.integers(1, 40)),
    st.integers(4, 80),
    st.integers(1, 40),
)
def test_nothing_is_shared_out_twice_and_no_snapshot_in_part(
    packs: int, ranges: dict[str, int], waves: dict[str, int], max_tasks: int, max_waves: int
) -> None:
    wanted = {name: min(count, max_tasks // 2) for name, count in ranges.items()}
    found = share_out(packs=packs, ranges=wanted, waves=waves, max_tasks=max_tasks, max_waves=max_waves)
    used = found.packs + sum(wanted[name] for name in found.ranges) + sum(found.waves.values())
    assert used <= max_tasks
    assert sum(found.waves.values()) <= max_waves
    assert all(count <= waves[name] for name, count in found.waves.items())
    assert set(found.ranges) <= set(wanted)
    assert found.ranges or not wanted
    assert found.packs or not packs
    assert found.waves or not waves
    assert set(wanted) - set(found.ranges) <= set(found.waiting)


@pytest.mark.parametrize(
    ("tables", "label"),
    [
        (["sales.order"], "follow: sales.order"),
        (["a.b", "c.d"], "follow: a.b, c.d"),
        (["x" * 300], "follow: " + "x" * 241 + "…"),
    ],
)
def test_a_label_names_its_tables(tables: list[str], label: str) -> None:
    assert label_of(tables, prefix="follow: ") == label


@given(st.lists(st.text(min_size=1, max_size=280), min_size=1, max_size=400))
def test_a_label_fits_into_what_airflow_keeps(tables: list[str]) -> None:
    label = label_of(tables, prefix="follow: ")
    assert len(label) <= LABEL_CHARACTERS
    assert label.startswith("follow: " + tables[0][:20])
