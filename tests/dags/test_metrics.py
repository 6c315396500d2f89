"""Metrics that tasks send, received by a StatsD server; and tables that are behind, by their facts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcChangesOperator,
    MssqlCdcFreshnessOperator,
    MssqlCdcMergeOperator,
)
from airflow_provider_mssql_cdc.operators._metrics import emit_facts
from airflow_provider_mssql_cdc.sensors import MssqlCdcFreshnessSensor
from tests.dags.harness import run, states
from tests.support.statsd_server import StatsdServer

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
ORDERS = "erp__shop_dbo_orders"


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsdServer]:
    """The backend of this process, set up as Airflow sets up a task's."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    with StatsdServer() as server:
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.port))
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        yield server
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)


def arrives(statsd: StatsdServer, metric: Callable[[str], bool]) -> bool:
    for _ in range(100):
        if any(metric(each) for each in statsd.received):
            return True
        time.sleep(0.1)
    return False


def moved(server: EmbeddedSqlServer) -> None:
    """Some changes, and a commit after them."""
    server.execute("UPDATE dbo.orders SET name = N'x' WHERE id < 10")
    server.clock.shift(timedelta(seconds=3))
    server.idle()


def loaded(table: MssqlCdcTable, dag_id: str) -> DAG:
    with DAG(dag_id=dag_id, schedule=None) as dag:
        load = mssql_cdc_bootstrap(
            group_id="orders", table=table, rows_per_range=500, default_args={"retries": 0}
        )
        changes = MssqlCdcChangesOperator(task_id="changes", table=table, quiet_seconds=0)
        merge = MssqlCdcMergeOperator(
            task_id="merge", table=table, silver=table.bronze.replace("/bronze/", "/silver/")
        )
        load >> changes >> merge
    return dag


def test_a_load_and_its_merge_are_counted_per_table(
    server: EmbeddedSqlServer, make_table: MakeTable, statsd: StatsdServer
) -> None:
    dag = loaded(make_table(), "counted")
    assert run(dag).state == "success"
    moved(server)
    assert run(dag).state == "success"
    assert arrives(statsd, lambda each: each.startswith(f"airflow.mssql_cdc.lag_seconds.{ORDERS}:"))
    assert arrives(statsd, lambda each: each.startswith(f"airflow.mssql_cdc.duration.{ORDERS}.merge:"))
    for expected in (
        f"airflow.mssql_cdc.rows.{ORDERS}.bootstrap:1000|c",
        f"airflow.mssql_cdc.rows.{ORDERS}.merge:1000|c",
        f"airflow.mssql_cdc.rows.{ORDERS}.changes:20|c",
    ):
        assert expected in statsd.received
    names = statsd.names()
    assert f"airflow.mssql_cdc.bytes.{ORDERS}.merge" in names


def test_a_failure_is_counted_by_its_class(
    server: EmbeddedSqlServer, make_table: MakeTable, statsd: StatsdServer
) -> None:
    dag = loaded(make_table(capture_instance="dbo_missing"), "failing")
    assert run(dag).state == "failed"
    failed = "airflow.mssql_cdc.failures.SourceObjectMissing.dbo_missing__connection_erp_:1|c"
    assert arrives(statsd, lambda each: each == failed), statsd.received


def test_headroom_and_differences_are_gauges(statsd: StatsdServer) -> None:
    target, source = "/lake/silver/orders", "erp: shop.dbo.orders"
    emit_facts(
        [
            FactsRow(event="changes", target=target, source=source, retention_headroom_hours=1.5),
            FactsRow(event="reconcile", target=target, source=source, detail={"missing": 2, "extra": 1}),
        ]
    )
    assert arrives(statsd, lambda each: each == f"airflow.mssql_cdc.differences.{ORDERS}:3|g")
    assert f"airflow.mssql_cdc.headroom_seconds.{ORDERS}:5400.0|g" in statsd.received


def test_a_backend_that_fails_fails_no_task(
    server: EmbeddedSqlServer, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.observability import stats

    def broken(*_: object, **__: object) -> None:
        raise OSError("no route to the backend")

    monkeypatch.setattr(stats, "incr", broken)
    monkeypatch.setattr(stats, "timing", broken)
    dag_run = run(loaded(make_table(), "unmeasured"))
    assert states(dag_run)["orders.complete", -1] == "success"


def test_with_tags_the_table_is_one(
    server: EmbeddedSqlServer,
    make_table: MakeTable,
    statsd: StatsdServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    assert run(loaded(make_table(), "tagged")).state == "success"
    expected = f"airflow.mssql_cdc.rows,table={ORDERS},event=bootstrap:1000|c"
    assert arrives(statsd, lambda each: each == expected), statsd.received


def test_a_table_that_is_behind_fails_the_check_with_what_to_look_at(
    server: EmbeddedSqlServer, make_table: MakeTable, capsys: pytest.CaptureFixture[str]
) -> None:
    server.clock.shift(timedelta(hours=-2))  # its commits are two hours old
    table = make_table()
    dag = loaded(table, "fresh")
    assert run(dag).state == "success"
    moved(server)
    assert run(dag).state == "success"
    source = "erp: shop.dbo.orders"
    with DAG(dag_id="checked", schedule=None) as dag:
        for name, arguments in {
            "fresh": {"max_lag": 86_400},
            "pattern": {"max_lag": 86_400, "sources": ["erp: shop.*"]},
            "behind": {"max_lag": 3600, "sources": [source]},
            "old": {"max_age": 0},
            "unknown": {"max_lag": 86_400, "sources": ["erp: shop.dbo.other"]},
        }.items():
            MssqlCdcFreshnessOperator(task_id=name, facts=table.facts, **arguments)
        MssqlCdcFreshnessSensor(
            task_id="sensor", facts=table.facts, max_lag=86_400, timeout=10, poke_interval=1
        )
        MssqlCdcFreshnessSensor(
            task_id="in_vain", facts=table.facts, max_lag=3600, mode="poke", timeout=1, poke_interval=1
        )
    ended = states(run(dag))
    assert {name for (name, _), state in ended.items() if state == "success"} == {
        "fresh",
        "pattern",
        "sensor",
    }
    said = capsys.readouterr().out
    assert f"{source}: it is " in said
    assert "behind, at most 1:00:00 are allowed; look at the task that reads its changes" in said
    assert "no task has written facts of it for" in said
    assert "erp: shop.dbo.other has no facts" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "max_lag or max_age must be given"),
        ({"max_lag": -1}, "max_lag must be a number >= 0"),
        ({"max_lag": 1, "sources": "orders"}, "sources must be a tuple of names"),
        ({"max_lag": 1, "delta_conn_id": "s3", "storage_options": {}}, "exclude each other"),
    ],
)
def test_wrong_arguments_are_refused_when_the_dag_is_parsed(
    arguments: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        MssqlCdcFreshnessOperator(task_id="check", facts="/lake/facts", **arguments)  # type: ignore[arg-type]
