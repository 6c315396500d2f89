"""Which columns identify a row and which ones ranges are cut on, and every way a choice can be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.source_table import Column, UniqueIndex
from airflow_provider_mssql_cdc.planning.keys import Columns, choose_keys
from tests.support.tables import column

COLUMNS = (
    column("b", "int"),
    column("a", "varchar(20)"),
    column("c", "int", nullable=True),
    column("hidden", "int", captured=False),
    column("total", "int", computed=True),
    column("secret", "int", masked=True),
    column("doc", "xml"),
)
PK = UniqueIndex("PK_t", ("a", "b"), primary=True)


@dataclass(frozen=True)
class Described:
    columns: tuple[Column, ...]
    instance: CaptureInstance
    unique_indexes: tuple[UniqueIndex, ...]


def described(*indexes: UniqueIndex, index_name: str | None = "PK_t") -> Described:
    instance = CaptureInstance(
        name="dbo_t",
        source_schema="dbo",
        source_table="t",
        source_object_id=1,
        change_table_id=2,
        start_lsn=None,
        create_date=datetime(2026, 1, 1),
        captured_columns=("b", "a", "c"),
        index_name=index_name,
    )
    return Described(COLUMNS, instance, indexes)


def names(columns: Columns | None) -> list[str] | None:
    return None if columns is None else [chosen.name for chosen in columns]


def test_the_instances_unique_index_in_key_order_is_the_default() -> None:
    other = UniqueIndex("UQ_first", ("b",))
    choice = choose_keys(described(other, PK))
    assert names(choice.key) == names(choice.split_by) == ["a", "b"]
    assert choice.split_is_unique
    assert not choice.key_to_check
    assert choice.reasons[0] == "key: [a], [b], the capture instance's unique index PK_t"


def test_a_primary_key_made_after_cdc_was_enabled_identifies_rows_too() -> None:
    choice = choose_keys(described(PK, index_name=None))
    assert names(choice.key) == ["a", "b"]
    assert "the table's unique index PK_t" in choice.reasons[0]


@pytest.mark.parametrize(
    "index",
    [
        UniqueIndex("PK_t", ("b",), primary=True, filtered=True),
        UniqueIndex("PK_t", ("b",), primary=True, disabled=True),
        UniqueIndex("PK_t", ("b", "c"), primary=True),
        UniqueIndex("PK_t", ("b", "hidden"), primary=True),
        UniqueIndex("PK_t", ("b", "total"), primary=True),
        UniqueIndex("PK_t", ("b", "secret"), primary=True),
        UniqueIndex("PK_t", ("gone",), primary=True),
        UniqueIndex("UQ_other", ("b",)),
    ],
)
def test_an_index_that_does_not_identify_every_row_never_slips_in(index: UniqueIndex) -> None:
    choice = choose_keys(described(index))
    assert choice.key is None
    assert choice.split_by is None
    assert choice.problems == ()
    assert "silver needs the argument key" in choice.reasons[0]
    assert "one range" in choice.reasons[1]


def test_a_heap_gets_ranges_by_columns_that_are_named_and_may_repeat_and_hold_null() -> None:
    choice = choose_keys(described(index_name=None), split_by=("C", "a"))
    assert choice.key is None
    assert names(choice.split_by) == ["c", "a"]
    assert not choice.split_is_unique


def test_split_columns_that_contain_a_unique_index_are_unique() -> None:
    assert choose_keys(described(PK), split_by=("b", "a", "c")).split_is_unique
    assert not choose_keys(described(PK), split_by=("b",)).split_is_unique


def test_a_key_that_is_the_users_word_alone_is_counted() -> None:
    choice = choose_keys(described(PK), key=("b",))
    assert names(choice.key) == names(choice.split_by) == ["b"]
    assert choice.key_to_check
    assert not choice.split_is_unique
    assert not choose_keys(described(PK), key=("b", "a")).key_to_check


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": ("nope",)}, "key: the table has no column [nope]"),
        ({"key": ("c",)}, "key: column [c] must be NOT NULL"),
        ({"key": ("hidden",)}, "key: column [hidden] must be captured by CDC"),
        ({"key": ("total",)}, "key: column [total] must not be computed"),
        ({"key": ("secret",)}, "key: column [secret] must not be masked"),
        ({"key": ("b", "B")}, "key: column [b] must be named once"),
        ({"split_by": ("nope",)}, "split_by: the table has no column [nope]"),
        (
            {"split_by": ("doc",)},
            "split_by: column [doc] must have a type with an order and an exact text, got xml",
        ),
        ({"split_by": ("hidden",)}, "split_by: column [hidden] must be captured"),
        ({"split_by": ("a",) * 17}, "split_by must name at most 16 columns, got 17"),
    ],
)
def test_an_unusable_choice_is_a_problem_and_never_another_column(
    arguments: dict[str, tuple[str, ...]], said: str
) -> None:
    choice = choose_keys(described(PK), **arguments)
    assert any(said in problem for problem in choice.problems)
    if "key" in arguments:
        assert choice.key is None
    if "split_by" in arguments:
        assert choice.split_by is None
