"""By which columns silver tells rows apart, and which it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.model.source_table import UniqueIndex
from airflow_provider_mssql_cdc.planning.keys import (
    KeyChoice,
    refuse_other_key,
    refuse_uncertain_key,
    silver_key,
)
from airflow_provider_mssql_cdc.planning.types import plan_columns
from tests.support.tables import column


@pytest.mark.parametrize(
    ("declared", "cast", "refused"),
    [
        ("int", None, False),
        ("datetime2(6)", None, False),
        ("datetime2(7)", None, True),
        ("datetime2(7)", "varchar(27)", False),
        ("datetime2(7)", "datetime2(6)", True),
        ("datetimeoffset(7)", None, True),
        ("datetimeoffset(7)", "varchar(34)", False),
        ("datetimeoffset(6)", None, False),
        ("time(7)", None, False),
        ("datetime", None, False),
    ],
)
def test_a_key_whose_digits_are_cut_is_refused(declared: str, cast: str | None, refused: bool) -> None:
    at = column("at", declared)
    planned = plan_columns([at], {"at": cast} if cast else {}).columns
    if refused:
        with pytest.raises(UnsupportedKey, match='casts={"at": "varchar'):
            silver_key((at,), planned, label="orders")
    else:
        assert silver_key((at,), planned, label="orders") == ("at",)


def test_the_key_has_the_lakes_names_in_key_order() -> None:
    columns = [column("Order Id", "int"), column("tenant", "int"), column("v", "int")]
    planned = plan_columns(columns, {}).columns
    key = silver_key((columns[1], columns[0]), planned, label="orders")
    assert key == ("tenant", "Order_x0020_Id")


@pytest.mark.parametrize("key", [None, ()])
def test_without_a_key_there_is_no_silver(key: tuple[()] | None) -> None:
    with pytest.raises(UnsupportedKey, match="bronze needs no key"):
        silver_key(key, (), label="orders")


def test_a_key_that_bronze_does_not_hold_is_refused() -> None:
    with pytest.raises(UnsupportedKey, match="must be in bronze"):
        silver_key((column("id", "int"),), (), label="orders")


def test_another_key_than_silvers_is_refused() -> None:
    refuse_other_key(("a", "b"), ("a", "b"), silver="/lake/silver")
    for other in (("b", "a"), ("a",), ("c",)):
        with pytest.raises(ConfigurationError, match=r"/lake/silver is keyed on \(a, b\)"):
            refuse_other_key(("a", "b"), other, silver="/lake/silver")


def key_choice(*names: str, unique: bool = True) -> KeyChoice:
    key = tuple(column(name, "int") for name in names)
    return KeyChoice(key=key, split_by=key, key_to_check=not unique)


PRIMARY = UniqueIndex("pk", ("id",), primary=True, clustered=True)
CODE = UniqueIndex("by_code", ("code",))
OTHER = UniqueIndex("by_serial", ("serial",))


def test_a_key_that_no_unique_index_keeps_apart_is_refused_unless_allowed() -> None:
    choice = key_choice("code", unique=False)
    with pytest.raises(UnsupportedKey, match=r'allow=\("key_without_unique_index",\)'):
        refuse_uncertain_key(choice, [PRIMARY], captured=["id", "code"], allow=(), label="orders")
    allowed = ("key_without_unique_index",)
    refuse_uncertain_key(choice, [PRIMARY], captured=["id", "code"], allow=allowed, label="orders")


@pytest.mark.parametrize(
    ("key", "indexes", "captured", "refused"),
    [
        (["id"], [PRIMARY, CODE], ["id", "code"], False),
        (["id"], [PRIMARY], ["id"], False),
        (["code"], [PRIMARY, CODE], ["id", "code"], False),
        (["code"], [PRIMARY, CODE], ["code", "v"], True),
        (["code"], [PRIMARY, CODE, OTHER], ["code", "serial"], False),
        (["code"], [PRIMARY, CODE, replace(OTHER, filtered=True)], ["code", "serial"], True),
        (["code"], [PRIMARY, CODE, replace(OTHER, disabled=True)], ["code", "serial"], True),
        (["code"], [replace(PRIMARY, clustered=False), CODE], ["code"], True),
        (["code"], [replace(PRIMARY, primary=False), CODE], ["code"], True),
        (["code"], [replace(PRIMARY, primary=False), replace(CODE, primary=True)], ["code"], True),
        (["code"], [replace(CODE, primary=True)], ["code", "v"], False),
        (["code"], [CODE], ["code", "v"], False),
        (["code", "id"], [UniqueIndex("both", ("id", "code")), PRIMARY], ["id", "code"], False),
    ],
    ids=[
        "the clustered key",
        "the clustered key alone",
        "another one, the clustered key captured",
        "another one, the clustered key not captured",
        "a third one captured",
        "a third one that is filtered",
        "a third one that is disabled",
        "a heap whose primary key is not captured",
        "clustered by a unique index that is not captured",
        "the primary key, clustered by an index that is not captured",
        "a heap's primary key",
        "a heap's only unique index",
        "a key that holds the clustered one",
    ],
)
def test_a_key_of_rows_that_bronze_cannot_tell_apart_is_refused_unless_allowed(
    key: list[str], indexes: list[UniqueIndex], captured: list[str], refused: bool
) -> None:
    choice = key_choice(*key)
    allowed = ("key_of_indistinct_rows",)
    refuse_uncertain_key(choice, indexes, captured=captured, allow=allowed, label="orders")
    if refused:
        with pytest.raises(UnsupportedKey, match=r'allow=\("key_of_indistinct_rows",\)'):
            refuse_uncertain_key(choice, indexes, captured=captured, allow=(), label="orders")
    else:
        refuse_uncertain_key(choice, indexes, captured=captured, allow=(), label="orders")
