"""Arguments of the changes operator and of the capture sensor, and the run's data interval."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator
from airflow_provider_mssql_cdc.operators.changes import interval_of
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor

TABLE = MssqlCdcTable(
    mssql_conn_id="erp", capture_instance="dbo_orders", bronze="/lake/orders", facts="/lake/facts"
)
NOON = datetime(2026, 5, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("until", "tomorrow"), ("until", None), ("start", "then"), ("new_columns", True)),
        *(("max_commits", 0), ("max_commits", "5"), ("quiet_seconds", -1), ("wait_seconds", 1.5)),
        *(("poll_seconds", -1), ("deferrable", "no"), ("table", "dbo_orders")),
    ],
)
def test_a_wrong_argument_fails_when_the_dag_is_parsed(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"table": TABLE, argument: value}
    with pytest.raises(ConfigurationError, match=argument):
        MssqlCdcChangesOperator(task_id="changes", **arguments)


def test_all_wrong_arguments_are_reported_at_once() -> None:
    wrong: dict[str, Any] = {"until": "then", "max_commits": 0, "quiet_seconds": -1}
    with pytest.raises(ConfigurationError) as caught:
        MssqlCdcChangesOperator(task_id="changes", table=TABLE, **wrong)
    assert [name for name in wrong if name not in str(caught.value)] == []


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"until": "data_interval_end", "start": "now", "new_columns": "null", "max_commits": 1},
        {"until": "{{ params.until }}", "start": "{{ params.start }}"},
    ],
)
def test_words_and_templates_are_taken(arguments: dict[str, Any]) -> None:
    MssqlCdcChangesOperator(task_id="changes", table=TABLE, **arguments)


def test_a_template_that_renders_to_nonsense_fails_in_the_task() -> None:
    operator = MssqlCdcChangesOperator(task_id="changes", table=TABLE, until="{{ params.until }}")
    operator.until = "tomorrow"
    with pytest.raises(ConfigurationError, match="until"):
        operator.run_job({})  # type: ignore[typeddict-item]


def test_the_sensor_refuses_a_table_that_is_none() -> None:
    with pytest.raises(ConfigurationError, match="MssqlCdcTable"):
        MssqlCdcCaptureSensor(task_id="wait", table="dbo_orders", lsn="0x1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "exactly one of lsn, time and consistent_after must be given, got none"),
        ({"lsn": f"0x{7:020X}", "time": NOON}, "got lsn, time"),
        ({"lsn": "0x7"}, "20 hex digits"),
        ({"time": "yesterday"}, "cannot be used"),
        ({"time": NOON.date()}, "time must be a datetime or an ISO 8601 string, got date"),
        ({"time": NOON.replace(tzinfo=None)}, "must have a zone"),
        ({"consistent_after": {"lsn": f"0x{7:020X}"}}, "commit_time"),
    ],
)
def test_the_sensor_refuses_what_cannot_be_waited_for_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        MssqlCdcCaptureSensor(task_id="wait", table=TABLE, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lsn": "{{ params.lsn }}"},
        {"time": "{{ data_interval_end }}"},
        {"time": "2026-05-11T12:00:00Z"},
        {"consistent_after": {"lsn": "{{ params.lsn }}", "commit_time": "{{ params.time }}"}},
        {"consistent_after": {"lsn": f"0x{7:020X}", "consistent_after": None}},
    ],
)
def test_the_sensor_takes_what_can_be_waited_for_or_is_known_later(arguments: dict[str, Any]) -> None:
    MssqlCdcCaptureSensor(task_id="wait", table=TABLE, **arguments)


@pytest.mark.parametrize(
    ("context", "is_empty"),
    [
        pytest.param({}, None, id="a manual run, a run by an asset: none"),
        pytest.param({"data_interval_start": None, "data_interval_end": None}, None, id="none either"),
        pytest.param(
            {"data_interval_start": NOON, "data_interval_end": NOON}, True, id="Airflow 3's default cron"
        ),
        pytest.param(
            {"data_interval_start": NOON, "data_interval_end": NOON.replace(hour=13)}, False, id="an hour"
        ),
    ],
)
def test_the_interval_of_a_run(context: dict[str, Any], is_empty: bool | None) -> None:
    interval = interval_of(context)  # type: ignore[arg-type]
    assert (None if interval is None else interval.is_empty) is is_empty
