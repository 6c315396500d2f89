"""The public value: what it accepts, what it hides, how it is rendered."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.errors import ConfigurationError

GOOD = {
    "mssql_conn_id": "erp",
    "capture_instance": "dbo_orders",
    "bronze": "/lake/bronze/orders",
    "facts": "/lake/ops/facts",
}


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("mssql_conn_id", "", "mssql_conn_id must be a non-empty string"),
        ("capture_instance", None, "capture_instance must be a non-empty string"),
        ("capture_instance", "i" * 101, "capture_instance must have at most 100 characters and no NUL"),
        ("capture_instance", "\U0001f600" * 51, "capture_instance must have at most 100 characters"),
        ("capture_instance", "dbo_\0orders", "capture_instance must have at most 100 characters and no NUL"),
        ("bronze", 7, "bronze must be a non-empty string"),
        ("facts", "  ", "facts must be a non-empty string"),
        ("source", "dbo.orders", "source must be a pair"),
        ("source", ("dbo", "orders", "x"), "source must be a pair"),
        ("source", ("dbo", "t" * 129), "source must hold names of at most 128 characters"),
        ("source", ("d\0o", "orders"), "source must hold names of at most 128 characters without NUL"),
        ("split_by", "id", "split_by must be a tuple"),
        ("split_by", (), "split_by must be a tuple"),
        ("key", ("id", "id"), "key names a column twice"),
        ("key", ("id", 3), "key must hold"),
        ("casts", {"loc": ""}, "casts must be a dict"),
        ("casts", ["loc"], "casts must be a dict"),
        ("allow", "salary", "allow must be a tuple"),
        ("allow", ("salary", "salary"), "allow names a column twice"),
        ("isolation", "nolock", 'isolation must be None (READ COMMITTED) or "snapshot"'),
        ("isolation", "serializable", "isolation must be None"),
        ("storage_options", {"AWS_REGION": 1}, "storage_options must hold strings"),
        ("storage_options", "secret", "storage_options must be a dict"),
        ("bronze", "/lake/orders ", "bronze: must not be empty or begin or end with a blank"),
        ("bronze", "lake/orders", "bronze: must be an absolute path or a URI such as s3://bucket/path"),
        ("facts", "~/facts", "facts: must be an absolute path or a URI such as s3://bucket/path"),
        ("facts", "hdfs://lake/facts", "facts: hdfs://lake cannot hold a Delta table"),
        ("bronze", "/lake/[orders]", "bronze: must not hold '['"),
        ("facts", "file:///lake/bronze//orders/", "bronze and facts are both /lake/bronze/orders"),
        ("facts", "/lake/bronze/orders_plans", "the plans table of bronze and facts are both"),
    ],
)
def test_a_wrong_argument_is_named(argument: str, value: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        MssqlCdcTable(**{**GOOD, argument: value})  # type: ignore[arg-type]


def test_all_wrong_arguments_are_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        MssqlCdcTable(mssql_conn_id="", capture_instance="", bronze="/b", facts="/f", isolation="nolock")  # type: ignore[arg-type]
    assert all(name in str(caught.value) for name in ("mssql_conn_id", "capture_instance", "isolation"))


def test_a_place_that_a_template_decides_is_judged_when_it_is_rendered() -> None:
    table = MssqlCdcTable(**{**GOOD, "facts": "{{ params.facts }}"})
    table.rendered(lambda value: "/lake/facts" if value == table.facts else value)
    with pytest.raises(ConfigurationError, match="facts: must be an absolute path"):
        table.rendered(lambda value: "lake/facts" if value == table.facts else value)
    with pytest.raises(ConfigurationError, match="must have its own path"):
        table.rendered(lambda value: table.bronze if value == table.facts else value)


@pytest.mark.parametrize("name", ["i" * 100, "\U0001f600" * 50, "{{ var.value.instance }}" + "x" * 100])
def test_the_longest_capture_instance_of_sql_server_and_a_template_are_accepted(name: str) -> None:
    assert MssqlCdcTable(**{**GOOD, "capture_instance": name}).capture_instance == name


def test_no_storage_option_is_in_the_repr_or_in_an_error() -> None:
    table = MssqlCdcTable(**GOOD, storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(table)
    assert "hunter2" not in str(table)
    with pytest.raises(ConfigurationError) as caught:
        MssqlCdcTable(**GOOD, storage_options={"AWS_SECRET_ACCESS_KEY": b"hunter2"})  # type: ignore[dict-item]
    assert "hunter2" not in str(caught.value)


def test_rendering_gives_a_new_value_and_leaves_the_shared_one() -> None:
    table = MssqlCdcTable(
        mssql_conn_id="{{ conn }}",
        capture_instance="dbo_{{ t }}",
        bronze="/lake/{{ t }}",
        facts="/lake/facts",
        source=("dbo", "{{ t }}"),
        casts={"loc": "varchar({{ n }})"},
        storage_options={"AWS_REGION": "{{ region }}"},
    )
    values = {"{{ conn }}": "erp", "{{ t }}": "orders", "{{ n }}": "9", "{{ region }}": "eu-1"}

    def render(content: object) -> object:
        if isinstance(content, str):
            for marker, value in values.items():
                content = content.replace(marker, value)
            return content
        if isinstance(content, dict):
            return {key: render(value) for key, value in content.items()}
        assert isinstance(content, tuple)
        return tuple(render(value) for value in content)

    rendered = table.rendered(render)
    assert rendered.source == ("dbo", "orders")
    assert rendered.casts == {"loc": "varchar(9)"}
    assert rendered.storage_options == {"AWS_REGION": "eu-1"}
    assert rendered.bronze == "/lake/orders"
    assert table.bronze == "/lake/{{ t }}"


def test_a_table_can_be_copied_and_pickled() -> None:
    table = MssqlCdcTable(**GOOD, casts={"a": "int"}, storage_options={"k": "v"}, key=("id",))
    assert copy.deepcopy(table) == table
    assert pickle.loads(pickle.dumps(table)) == table


def test_lists_become_tuples_and_dicts_cannot_be_changed_afterwards() -> None:
    casts = {"a": "int"}
    table = MssqlCdcTable(**GOOD, split_by=["id"], casts=casts)  # type: ignore[arg-type]
    casts["b"] = "int"
    assert table.split_by == ("id",)
    assert table.casts == {"a": "int"}
