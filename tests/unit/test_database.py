"""The value for a whole database: what it accepts, which tables it means, what it refuses and for whom."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from airflow_provider_mssql_cdc import MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.tracked import TableName, TrackedTable

GOOD: dict[str, Any] = {
    "mssql_conn_id": "erp",
    "include": ("sales.*", "dbo.orders"),
    "bronze": "/lake/bronze/{schema}/{table}",
    "silver": "/lake/silver/{schema}/{table}",
    "facts": "/lake/ops/facts",
}


def database(**arguments: Any) -> MssqlCdcDatabase:
    return MssqlCdcDatabase(**{**GOOD, **arguments})


def tracked(*names: str) -> list[TrackedTable]:
    found = [TableName.parse(name) for name in names]
    return [TrackedTable(name, (f"{name.schema}_{name.table}",)) for name in found]


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("mssql_conn_id", " ", "mssql_conn_id must be a non-empty string"),
        ("include", "sales.*", "include must be a tuple of patterns"),
        ("include", (), 'include must hold a pattern such as "sales.*"'),
        ("include", ("orders",), 'include: a table must be named "schema.table"'),
        ("exclude", ("a.b.c",), 'exclude: a table must be named "schema.table"'),
        ("bronze", "/lake/bronze", "bronze must hold {table}"),
        ("silver", "/lake/{schema}", "silver must hold {table}"),
        ("bronze", "/lake/{database}/{table}", "bronze must hold no other placeholders"),
        ("facts", "/lake/{name}", "facts must hold no other placeholders"),
        ("bronze", "lake/{table}", "bronze: must be an absolute path"),
        ("silver", "/lake/bronze/{schema}/{table}", "bronze and silver are both /lake/bronze/schema/table"),
        ("silver", "/lake/bronze/{schema}/{table}/silver", "silver must not be inside bronze"),
        ("tables", ["sales.order"], "tables must be a dict"),
        ("tables", {"order": {}}, 'tables: a table must be named "schema.table"'),
        ("tables", {"sales.order": 7}, "tables['sales.order'] must be a dict of options"),
        ("tables", {"sales.order": {"split": ("id",)}}, "tables['sales.order']: unknown option 'split'"),
        ("tables", {"sales.*": {"split_by": "id"}}, "tables['sales.*']: split_by must be a tuple"),
        ("tables", {"sales.*": {"mode": "fast"}}, "mode must be one of"),
        ("tables", {"sales.*": {"rows_per_range": 0}}, "rows_per_range must be an integer >= 1, got 0"),
        ("tables", {"sales.*": {"verify_counts": 1}}, "verify_counts must be True or False"),
        ("tables", {"sales.*": {"max_seconds": 60}}, 'max_seconds is for mode="chunked" alone'),
        ("tables", {"sales.*": {"silver": ""}}, "silver must be a non-empty string"),
        ("tables", {"sales.*": {"bronze": "/x/{tab}"}}, "bronze holds an unknown placeholder 'tab'"),
        ("isolation", "nolock", "isolation must be None"),
        ("storage_options", {"KEY": 1}, "storage_options must hold strings"),
    ],
)
def test_a_wrong_argument_is_named(argument: str, value: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        database(**{argument: value})


def test_everything_wrong_is_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        database(mssql_conn_id="", include=("x",), bronze="/b", tables={"a.b": {"mode": "x", "key": ()}})
    told = str(caught.value)
    assert all(word in told for word in ("mssql_conn_id", "include", "bronze", "mode", "key"))


def test_the_tables_that_the_patterns_choose_have_paths_of_their_own() -> None:
    found = database(exclude=("*.audit_*",)).resolve(
        tracked("sales.order", "sales.order line", "sales.audit_x", "dbo.orders", "dbo.other")
    )
    assert found.problems == {}
    assert {one.name: (one.table.bronze, one.silver) for one in found.tables} == {
        "sales.order": ("/lake/bronze/sales/order", "/lake/silver/sales/order"),
        "sales.order line": ("/lake/bronze/sales/order=20line", "/lake/silver/sales/order=20line"),
        "dbo.orders": ("/lake/bronze/dbo/orders", "/lake/silver/dbo/orders"),
    }
    assert {one.table.capture_instance for one in found.tables} == {
        "sales_order",
        "sales_order line",
        "dbo_orders",
    }
    assert {one.table.source for one in found.tables} == {
        ("sales", "order"),
        ("sales", "order line"),
        ("dbo", "orders"),
    }


def test_an_option_of_a_name_goes_over_those_of_patterns_and_a_later_pattern_over_an_earlier_one() -> None:
    given = database(
        tables={
            "sales.order": {"rows_per_range": 3, "split_by": ["id"]},
            "*.*": {"rows_per_range": 1, "quiet_seconds": 0, "silver": None},
            "sales.*": {"rows_per_range": 2, "allow": ("salary",)},
        }
    )
    found = {one.name: one for one in given.resolve(tracked("sales.order", "sales.x", "dbo.orders")).tables}
    assert {name: one.options.rows_per_range for name, one in found.items()} == {
        "sales.order": 3,
        "sales.x": 2,
        "dbo.orders": 1,
    }
    assert found["sales.order"].table.split_by == ("id",)
    assert found["sales.order"].table.allow == ("salary",)
    assert found["dbo.orders"].table.allow is None
    assert {one.silver for one in found.values()} == {None}
    assert given.table_of("sales.order", "sales_order") == found["sales.order"]


def test_of_two_instances_the_newest_is_read_unless_one_is_named() -> None:
    two = [TrackedTable(TableName("sales", "order"), ("order_v2", "sales_order"))]
    only = {"include": ("sales.order",)}
    (newest,) = database(**only).resolve(two).tables
    (named,) = (
        database(**only, tables={"sales.order": {"capture_instance": "sales_order"}}).resolve(two).tables
    )
    assert (newest.table.capture_instance, named.table.capture_instance) == ("order_v2", "sales_order")


@pytest.mark.parametrize(
    ("arguments", "names", "problems"),
    [
        ({}, ("sales.order",), {"dbo.orders": "matches no table"}),
        (
            {"include": ("sales.*",), "tables": {"dbo.x": {}}},
            ("sales.order",),
            {"dbo.x": "tables= has options for it"},
        ),
        (
            {"include": ("sales.*",)},
            ("sales.Order", "sales.order", "sales.x"),
            {"sales.Order": "differ by case alone", "sales.order": "differ by case alone"},
        ),
        (
            {"include": ("*.*",), "bronze": "/lake/bronze/{table}"},
            ("a.order", "b.order", "b.x"),
            {"a.order": "a.order and b.order would share", "b.order": "b.order and a.order would share"},
        ),
        (
            {"include": ("*.*",), "silver": None, "tables": {"a.x": {"bronze": "/lake/bronze/a/y/sub"}}},
            ("a.x", "a.y"),
            {"a.x": "a.x and a.y would share", "a.y": "a.y and a.x would share"},
        ),
        (
            {"include": ("*.*",), "silver": None, "tables": {"a.x": {"bronze": "/lake/ops/facts"}}},
            ("a.x", "a.y"),
            {"a.x": "bronze and facts are both /lake/ops/facts"},
        ),
        (
            {"include": ("*.*",), "silver": None, "tables": {"a.x": {"bronze": "/lake/bronze/a/y_plans"}}},
            ("a.x", "a.y"),
            {"a.x": "would share", "a.y": "would share"},
        ),
    ],
)
def test_what_cannot_be_is_a_problem_of_that_table_alone(
    arguments: dict[str, Any], names: tuple[str, ...], problems: dict[str, str]
) -> None:
    found = database(**arguments).resolve(tracked(*names))
    assert found.problems.keys() == problems.keys()
    assert all(said in found.problems[name] for name, said in problems.items())
    assert {one.name for one in found.tables} == set(names) - problems.keys()


def test_a_table_whose_instance_this_login_does_not_see_is_resolved_by_its_own_name() -> None:
    hidden = [TrackedTable(TableName("dbo", "orders"))]
    (found,) = database(include=("dbo.*",)).resolve(hidden).tables
    assert found.table.capture_instance == "dbo_orders"


def test_it_is_frozen_and_can_be_copied_pickled_and_rendered() -> None:
    given = database(tables={"sales.*": {"casts": {"a": "int"}}}, storage_options={"AWS_SECRET": "hidden"})
    assert copy.deepcopy(given) == given
    assert pickle.loads(pickle.dumps(given)) == given
    assert "hidden" not in repr(given)
    templated = database(bronze="{{ var.value.lake }}/{schema}/{table}")
    rendered = templated.rendered(
        lambda value: value.replace("{{ var.value.lake }}", "/x") if isinstance(value, str) else value
    )
    assert rendered.table_of("a.b").table.bronze == "/x/a/b"
