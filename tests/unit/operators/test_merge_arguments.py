"""Arguments of the merge operator: wrong ones fail when the DAG is parsed; templates are rendered per run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.errors import ConfigurationError, NotReadyYet
from airflow_provider_mssql_cdc.jobs.task import Waiting
from airflow_provider_mssql_cdc.operators import MssqlCdcMergeOperator

TABLE = MssqlCdcTable("erp", "dbo_orders", "/lake/bronze/orders", "/lake/facts")


def operator(**arguments: Any) -> MssqlCdcMergeOperator:
    given = {"task_id": "merge", "table": TABLE, "silver": "/lake/silver/orders"}
    return MssqlCdcMergeOperator(**(given | arguments))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("silver", ""),
        ("silver", " "),
        ("silver", None),
        ("silver", 3),
        ("silver", "/lake/silver "),
        ("silver", "dbfs:/silver"),
        ("silver", "silver/orders"),
        ("silver", "file:///lake/bronze/orders/"),
        ("silver", "/lake/facts"),
        ("silver", "/lake/bronze/orders_plans"),
        ("wait_consistent", "perhaps"),
        ("wait_seconds", -1),
        ("poll_seconds", 0),
        ("deferrable", None),
        ("table", "dbo_orders"),
    ],
)
def test_a_wrong_argument_fails_at_parse_time_and_is_named(argument: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=argument):
        operator(**{argument: value})


def test_its_places_and_its_wait_are_templated() -> None:
    merge = operator(silver="/lake/{{ params.layer }}/orders", wait_consistent="{{ params.wait }}")
    merge.render_template_fields({"params": {"layer": "silver", "wait": False}})  # type: ignore[typeddict-item]
    assert merge.silver == "/lake/silver/orders"
    assert merge.wait_consistent == "False"


def test_a_wait_gives_the_worker_back_and_ends() -> None:
    merge = operator(wait_seconds=6000, poll_seconds=3600)
    with pytest.raises(TaskDeferred) as deferred:
        merge.wait(Waiting("not yet"))
    seconds = (deferred.value.trigger.moment - datetime.now(UTC)).total_seconds()  # type: ignore[attr-defined]
    assert 3000 < seconds <= 3600
    assert deferred.value.method_name == "resume"
    over = operator(wait_seconds=0)
    with pytest.raises(NotReadyYet, match="not yet"):
        over.wait(Waiting("not yet"))
