"""``python -m benchmarks.load --database``: a whole database as one pipeline, beside the loop over tables.

Three runs of each: the first one, one in which nothing changed, one in which a tenth of the tables did.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer
from benchmarks.watched import Watched
from tests.scenarios.running_airflow import RunningAirflow, eventually, running_airflow
from tests.support.delta_rows import delta_rows

DAGS = Path(__file__).with_name("dags_database")
SECONDS_PER_TASK = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: its task instances, its seconds, its state, and the processor's queue meanwhile."""

    dag_id: str
    what: str
    tables: int
    tasks: int
    seconds: float
    state: str
    load: float

    def line(self) -> str:
        return (
            f"| {self.dag_id} | {self.what} | {self.tables} | {self.tasks} | {self.seconds:.0f} | "
            f"{self.seconds / self.tables:.2f} | {self.state} | {self.load:.1f} |"
        )


def measure(
    tables: int,
    *,
    loop: int,
    rows: int,
    fill: Callable[[EmbeddedSqlServer, int, int], None],
    settings: Mapping[str, str],
) -> bool:
    """Print what each run took; whether every run ended well and silver has every row."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedSqlServer(database="shop") as server:
        fill(server, tables, rows)
        lake, home = Path(folder, "lake"), Path(folder, "airflow")
        home.mkdir()
        variables = {
            **settings,
            "AIRFLOW_CONN_ERP": server.airflow_connection(),
            "BENCH_LAKE": str(lake),
            "BENCH_LOOP": str(loop),
        }
        with running_airflow(home, DAGS, variables) as airflow:
            watched = Watched()
            found = _runs(airflow, server, watched, dag_id="pipeline", tables=tables)
            if loop:
                found += _runs(airflow, server, watched, dag_id="loop", tables=loop)
            database = airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].partition(":")[0]
        print(f"Airflow's own state in {database}; {tables} tables of {rows} rows\n")
        print("| DAG | run | tables | task instances | seconds | per table | state | load |")
        print("|---|---|---|---|---|---|---|---|")
        for one in found:
            print(one.line())
        for name, value in watched.lines().items():
            print(f"{name}: {value}")
        whole = sum(_is_whole(lake / "silver" / "dbo" / f"t{number}", rows) for number in range(tables))
        print(f"silver whole: {whole} of {tables}")
    return whole == tables and {one.state for one in found} == {"success"}


def _runs(
    airflow: RunningAirflow, server: EmbeddedSqlServer, watched: Watched, *, dag_id: str, tables: int
) -> list[Measured]:
    eventually(lambda: airflow.known(dag_id), what=f"{dag_id} is parsed", seconds=120)
    first = _run(airflow, watched, dag_id, "first", tables)
    server.idle()
    quiet = _run(airflow, watched, dag_id, "nothing changed", tables)
    changed = max(1, tables // 10)
    for number in range(changed):
        server.execute(f"UPDATE dbo.t{number} SET name = N'changed' WHERE id % 2 = 0")
    server.idle()
    last = _run(airflow, watched, dag_id, f"{changed} changed", tables)
    return [first, quiet, last]


def _run(airflow: RunningAirflow, watched: Watched, dag_id: str, what: str, tables: int) -> Measured:
    started = time.monotonic()
    run = airflow.trigger(dag_id)
    state, loads = "queued", [os.getloadavg()[0]]
    while state not in {"success", "failed"} and time.monotonic() < started + 600 + tables * SECONDS_PER_TASK:
        time.sleep(1)
        watched.look(airflow)
        loads.append(os.getloadavg()[0])
        state = airflow.run_state(dag_id, run)
    seconds = time.monotonic() - started
    path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run)}/taskInstances?limit=1"
    answer: dict[str, Any] = airflow.call("GET", path)
    tasks = int(answer["total_entries"])
    measured = Measured(dag_id, what, tables, tasks, seconds, state, sum(loads) / len(loads))
    print(measured.line(), flush=True)
    return measured


def _is_whole(silver: Path, rows: int) -> bool:
    return sorted(row["id"] for row in delta_rows(silver, columns="id")) == list(range(rows))
