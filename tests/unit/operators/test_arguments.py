"""Arguments of the operators: wrong ones fail when the DAG is parsed, all at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcAbandonOperator,
    MssqlCdcCompleteOperator,
    MssqlCdcPlanOperator,
    MssqlCdcSnapshotOperator,
)
from airflow_provider_mssql_cdc.operators._base import as_flag

TABLE = MssqlCdcTable(
    mssql_conn_id="erp",
    capture_instance="dbo_orders",
    bronze="/lake/{{ params.folder }}/orders",
    facts="/lake/facts",
    storage_options={"AWS_SECRET_ACCESS_KEY": "hunter2"},
)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_ranges", 0),
        ("max_ranges", True),
        ("max_ranges", "16"),
        ("rows_per_range", -1),
        ("rows_per_range", 1.5),
        ("wait_seconds", -1),
        ("resnapshot", "perhaps"),
        ("resnapshot", 2),
        ("table", "dbo_orders"),
    ],
)
def test_a_wrong_argument_fails_when_the_dag_is_parsed(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"table": TABLE, argument: value}
    with pytest.raises(ConfigurationError, match=argument):
        MssqlCdcPlanOperator(task_id="plan", **arguments)


def test_all_wrong_arguments_are_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        MssqlCdcPlanOperator(task_id="plan", table=TABLE, max_ranges=0, rows_per_range=0, resnapshot="maybe")
    assert all(name in str(caught.value) for name in ("max_ranges", "rows_per_range", "resnapshot", "'plan'"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_ranges": 0, "verify_counts": "yes"}, ["max_ranges", "verify_counts", "'orders'"]),
        ({"show_bounds": "{{ params.show }}"}, ["show_bounds must be True or False"]),
        (
            {"mode": "chunked", "verify_counts": True},
            ["verify_counts must be left out unless mode is 'whole'"],
        ),
        (
            {"max_seconds": 60, "min_headroom_hours": 0, "wait_seconds": -1},
            [
                "max_seconds must be left out unless mode is 'chunked'",
                "min_headroom_hours must be left out unless mode is 'chunked'",
                "wait_seconds",
            ],
        ),
        ({"mode": "all", "table": "dbo_orders"}, ["mode must be one of", "table must be an MssqlCdcTable"]),
    ],
)
def test_the_task_group_refuses_all_that_no_task_of_it_can_use(
    arguments: dict[str, Any], said: list[str]
) -> None:
    with DAG(dag_id="wrong", schedule=None), pytest.raises(ConfigurationError) as caught:
        mssql_cdc_bootstrap(**{"group_id": "orders", "table": TABLE, **arguments})
    assert [part for part in said if part not in str(caught.value)] == []


@pytest.mark.parametrize("snapshot", ["", "0x12", None, "0x" + "0" * 20])
def test_what_is_no_lsn_cannot_be_given_up(snapshot: Any) -> None:
    with pytest.raises(ConfigurationError, match="snapshot: an LSN must be|snapshot must be an LSN"):
        MssqlCdcAbandonOperator(task_id="abandon", table=TABLE, snapshot=snapshot)
    MssqlCdcAbandonOperator(task_id="abandon", table=TABLE, snapshot="{{ params.snapshot }}")


def test_a_table_that_renders_to_nonsense_fails_its_task_at_once() -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    operator = MssqlCdcPlanOperator(task_id="plan", table=TABLE).prepare_for_execution()
    with pytest.raises(AirflowFailException, match="delta-rs cannot write to"):
        operator.render_template_fields({"params": {"folder": "[a]"}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        *((True, True), ("True", True), ("true", True), (" 1 ", True), ("yes", True)),
        *((False, False), ("False", False), ("0", False), ("", False), ("None", False), (None, False)),
    ],
)
def test_a_templated_flag_is_read_as_a_flag(value: object, flag: bool) -> None:
    assert as_flag(value, name="resnapshot") is flag


@pytest.mark.parametrize("value", ["perhaps", "2", 2, [], "{{ params.x }}"])
def test_a_flag_that_is_neither_is_an_error(value: object) -> None:
    with pytest.raises(ConfigurationError, match="resnapshot must be true or false"):
        as_flag(value, name="resnapshot")


def test_two_runs_in_one_process_render_their_own_table() -> None:
    operator = MssqlCdcPlanOperator(task_id="plan", table=TABLE)
    seen = []
    for folder in ("a", "b"):
        copy = operator.prepare_for_execution()
        copy.render_template_fields({"params": {"folder": folder}})  # type: ignore[arg-type]
        seen.append(copy.table.bronze)
    assert seen == ["/lake/a/orders", "/lake/b/orders"]
    assert operator.table is TABLE


def test_a_serialized_dag_holds_no_storage_option() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG(dag_id="secrets", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=TABLE)
    assert "hunter2" not in str(DagSerialization.serialize_dag(dag))


def test_data_that_looks_like_jinja_is_not_rendered() -> None:
    operator = MssqlCdcSnapshotOperator(
        task_id="read", table=TABLE, key_range={"lo": ["{{ 7 * 7 }}"], "hi": None}
    )
    operator.render_template_fields({"params": {"folder": "a"}})  # type: ignore[arg-type]
    assert operator.key_range["lo"] == ["{{ 7 * 7 }}"]


def test_the_task_group_takes_arguments_of_operators_by_keyword() -> None:
    with DAG(dag_id="group", schedule=None, default_args={"retries": 7}) as dag:
        group = mssql_cdc_bootstrap(
            group_id="orders", table=TABLE, pool="erp", max_ranges=4, retry_delay=timedelta(seconds=1)
        )
    assert group.group_id == "orders"
    assert set(dag.task_dict) == {"orders.plan", "orders.read", "orders.complete"}
    assert dag.task_dict["orders.plan"].max_ranges == 4
    assert {task.pool for task in dag.tasks} == {"erp"}
    assert {task.retries for task in dag.tasks} == {7}
    assert dag.task_dict["orders.plan"].retry_delay == timedelta(seconds=1)


def test_the_task_group_retries_when_nobody_says_how_often() -> None:
    with DAG(dag_id="defaults", schedule=None) as dag:
        mssql_cdc_bootstrap(group_id="orders", table=TABLE)
    assert {task.retries for task in dag.tasks} == {3}


@pytest.mark.parametrize("item", [None, "x", {}, {"plan": "p", "index": 0, "count": 1}])
def test_a_key_range_that_is_no_plan_item_fails_at_once_and_says_what_to_do(item: object) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    operator = MssqlCdcSnapshotOperator(task_id="read", table=TABLE, key_range=item)  # type: ignore[arg-type]
    with pytest.raises(AirflowFailException, match="plan"):
        operator.execute({})  # type: ignore[arg-type]


@pytest.mark.parametrize("staged", [None, "text", {"plan": 1}, [{"plan": "p"}], [1]])
def test_outcomes_that_no_read_returned_fail_at_once(staged: object) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    operator = MssqlCdcCompleteOperator(task_id="complete", table=TABLE, staged=staged)
    with pytest.raises(AirflowFailException, match="staged"):
        operator.execute({})  # type: ignore[arg-type]
