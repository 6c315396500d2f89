"""The judge of a reconcile: which rows a key may have, by the state rule written a second time."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.planning.reconcile import ChangeRow, Judge, Possible, differing

JUDGE = Judge()


def row(commit: int, operation: int, value: str, *, seqval: int = 0, command: int | None = 1) -> ChangeRow:
    return ChangeRow(f"{commit:04d}", command, f"{seqval:04d}", operation, (1, value))


def last(*changes: ChangeRow, judge: Judge = JUDGE) -> set[tuple[int, str] | None]:
    states = judge.states(changes)[-1][1]
    return {None if state is None else state.image for state in states}


def test_a_key_without_changes_has_no_states() -> None:
    assert JUDGE.states([]) == []


def test_an_insert_an_update_and_a_delete_leave_what_they_say() -> None:
    insert, delete = row(1, 2, "a"), row(3, 1, "b")
    update = [row(2, 3, "a"), row(2, 4, "b")]
    played = JUDGE.states([delete, *update, insert])
    assert [lsn for lsn, _ in played] == ["", "0001", "0002", "0003"]
    assert [{None if each is None else each.image[1] for each in states} for _, states in played] == [
        {None},
        {"a"},
        {"b"},
        {None},
    ]


def test_before_an_update_the_row_was_its_before_image() -> None:
    played = JUDGE.states([row(2, 3, "a"), row(2, 4, "b")])
    assert JUDGE.explains((1, "a"), played, until="0001")
    assert not JUDGE.explains((1, "b"), played, until="0001")
    assert JUDGE.explains((1, "b"), played, until="0002")
    assert not JUDGE.explains((1, "c"), played, until="9999")


def test_before_a_delete_alone_there_was_a_row() -> None:
    played = JUDGE.states([row(2, 1, "a")])
    assert not JUDGE.explains(None, played, until="0001")
    assert JUDGE.explains(None, played, until="0002")


def test_a_key_that_passes_from_row_to_row_is_there() -> None:
    assert last(row(1, 4, "new", seqval=0), row(1, 3, "old", seqval=1)) == {(1, "new")}
    assert last(row(1, 3, "old", seqval=0), row(1, 4, "new", seqval=0)) == {(1, "new")}
    assert last(row(1, 3, "a"), row(1, 4, "b", seqval=0), row(1, 3, "b", seqval=1)) == {None}


def test_what_a_transaction_added_and_removed_itself_leaves_what_was_before() -> None:
    assert last(row(1, 2, "a", seqval=0), row(1, 1, "a", seqval=1)) == {None, (1, "a")}
    assert last(row(1, 2, "z"), row(2, 2, "a", seqval=0), row(2, 1, "a", seqval=1)) == {(1, "a")}
    assert last(row(1, 1, "z"), row(2, 2, "a", seqval=0), row(2, 1, "a", seqval=1)) == {None}


def test_a_change_row_that_is_there_twice_counts_once() -> None:
    assert last(row(1, 2, "a"), row(1, 2, "a"), row(2, 1, "a"), row(2, 1, "a")) == {None}


def test_large_objects_are_not_compared_with_before_images() -> None:
    judge = Judge(large=frozenset([2]))
    change = ChangeRow("0002", 1, "0", 3, (1, "a", None))
    played = judge.states([change, ChangeRow("0002", 1, "0", 4, (1, "b", "long"))])
    assert judge.explains((1, "a", "whatever"), played, until="0001")
    assert not judge.explains((1, "x", "whatever"), played, until="0001")
    assert not judge.explains((1, "b", "other"), played, until="0002")


@pytest.mark.parametrize(
    ("silver", "expected", "kind"),
    [
        ((1, "a"), (1, "a"), None),
        (None, None, None),
        (None, (1, "a"), "missing"),
        ((1, "a"), None, "extra"),
        ((1, "a"), (1, "a "), "different"),
        ((1, None), (1, ""), "different"),
    ],
)
def test_silver_fails_in_three_ways(silver: object, expected: tuple[object, ...] | None, kind: str) -> None:
    states = frozenset([None if expected is None else Possible(expected)])
    assert JUDGE.compare(silver, states) == kind  # type: ignore[arg-type]


def test_columns_that_differ_are_found() -> None:
    assert differing((1, None, "a", 2.5), (1, "", "a", 2.25)) == [1, 3]
