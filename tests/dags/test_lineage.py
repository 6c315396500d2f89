"""Lineage that Airflow's OpenLineage provider writes to a file, read as the JSON that it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.operators._lineage import delta_name, server_name, statistics
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from tests.dags.harness import run
from tests.dags.test_metrics import loaded

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]

# In a process of its own: Airflow asks once per process whether OpenLineage is on.
A_RUN = """
import sys
from airflow_provider_mssql_cdc import MssqlCdcTable
from tests.dags.harness import run
from tests.dags.test_metrics import loaded
bronze, facts = sys.argv[1:]
table = MssqlCdcTable(mssql_conn_id="erp", capture_instance="dbo_orders", bronze=bronze, facts=facts)
assert run(loaded(table, "traced")).state == "success"
"""


def run_apart(table: MssqlCdcTable, folder: Path) -> list[dict[str, Any]]:
    """Run a load and its merge; the events that were written."""
    events = folder / "events.jsonl"
    environment = {
        **os.environ,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(events), "append": True}
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", A_RUN, table.bronze, table.facts],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return [json.loads(line) for line in events.read_text().splitlines()]


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in datasets]


def completed(events: list[dict[str, Any]], task: str) -> dict[str, Any]:
    (event,) = [
        each for each in events if each["eventType"] == "COMPLETE" and each["job"]["name"] == f"traced.{task}"
    ]
    return event


def test_a_load_and_its_merge_tell_what_they_read_and_wrote(
    server: EmbeddedSqlServer, make_table: MakeTable, tmp_path: Path
) -> None:
    table = make_table()
    events = run_apart(table, tmp_path)
    load, merge = completed(events, "orders.complete"), completed(events, "merge")
    source = (f"mssql://{server.host}:{server.port}", "shop.dbo.orders")
    bronze, silver = ("file", table.bronze), ("file", table.bronze.replace("/bronze/", "/silver/"))
    assert (names(load["inputs"]), names(load["outputs"])) == ([source], [bronze])
    assert (names(merge["inputs"]), names(merge["outputs"])) == ([bronze], [silver])
    assert load["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1000
    to_silver = merge["outputs"][0]["outputFacets"]["outputStatistics"]
    assert to_silver["rowCount"] == 1000
    assert to_silver["fileCount"] >= 1
    assert to_silver["size"] > 0
    (told,) = load["run"]["facets"]["mssql_cdc"]["tables"]
    assert (told["event"], told["rows"], told["target"]) == ("bootstrap", 1000, table.bronze)
    assert told["snapshot"] == told["position"]
    assert told["snapshot"].startswith("0x")
    password = json.loads(os.environ["AIRFLOW_CONN_ERP"])["password"]
    assert password
    assert password not in json.dumps(events)


def test_the_same_dag_runs_where_the_provider_is_not_installed(
    server: EmbeddedSqlServer, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openlineage", None)
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    assert run(loaded(make_table(), "untraced")).state == "success"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/lake/bronze/orders", ("file", "/lake/bronze/orders")),
        ("s3://lake/bronze/orders", ("s3://lake", "bronze/orders")),
        ("gs://lake/a", ("gs://lake", "a")),
        (
            "abfss://box@account.dfs.core.windows.net/a/b",
            ("abfss://box@account.dfs.core.windows.net", "a/b"),
        ),
    ],
)
def test_a_delta_table_is_named_as_openlineage_names_its_files(uri: str, name: tuple[str, str]) -> None:
    assert delta_name(uri) == name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"host": "db"}, "mssql://db:1433"),
        ({"host": "db", "port": 14330}, "mssql://db:14330"),
        ({"host": "::1"}, "mssql://[::1]:1433"),
        ({"host": "db", "instance": "erp", "port": None}, "mssql://db\\erp"),
    ],
)
def test_a_server_is_named_by_its_host_and_port(given: dict[str, Any], name: str) -> None:
    assert server_name(ConnectionSettings(conn_id="erp", **given)) == name


def test_windows_of_one_table_are_one_output() -> None:
    rows = [FactsRow(event="changes", target="/b", rows=3), FactsRow(event="changes", target="/b", rows=4)]
    assert statistics(rows) == {"rows": 7, "size": None, "files": None}
