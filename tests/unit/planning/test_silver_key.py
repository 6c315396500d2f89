"""By which columns silver tells rows apart, and which it refuses."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.planning.keys import refuse_other_key, silver_key
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
    with pytest.raises(UnsupportedKey, match="Bronze is complete without it"):
        silver_key(key, (), label="orders")


def test_a_key_that_bronze_does_not_hold_is_refused() -> None:
    with pytest.raises(UnsupportedKey, match="not in bronze"):
        silver_key((column("id", "int"),), (), label="orders")


def test_another_key_than_silvers_is_refused() -> None:
    refuse_other_key(("a", "b"), ("a", "b"), silver="/lake/silver")
    for other in (("b", "a"), ("a",), ("c",)):
        with pytest.raises(ConfigurationError, match="/lake/silver tells its rows apart by a, b"):
            refuse_other_key(("a", "b"), other, silver="/lake/silver")
