"""``python -m benchmarks.load``: many tables at once by a running Airflow, four tasks at a time.

Fifty tables in twenty ranges each are 1,000 mapped tasks, which takes an hour on two cores: Airflow needs
a second or more for each task, whatever the task does. ``--tables 5 --ranges 8`` shows the same in minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer
from tests.scenarios.running_airflow import RunningAirflow, eventually, running_airflow
from tests.support.delta_rows import delta_rows

DAGS = Path(__file__).with_name("dags")
PER_DAG = 10
SAMPLE_SECONDS = 3.0
SECONDS_PER_TASK = 60
MB = 1024


@dataclass
class Watched:
    """What was seen of Airflow while it ran: the largest memory by kind of process, and its health."""

    largest_mb: Counter[str] = field(default_factory=Counter)
    looks: int = 0
    unhealthy: int = 0

    def look(self, airflow: RunningAirflow) -> None:
        self.looks += 1
        self.unhealthy += not airflow.healthy()
        for kind, megabytes in memory_of(airflow):
            self.largest_mb[kind] = max(self.largest_mb[kind], megabytes)


def memory_of(airflow: RunningAirflow) -> Iterator[tuple[str, int]]:
    """Resident megabytes of each process in the sessions of Airflow's components."""
    names = {process.pid: str(process.args[1]) for process in airflow.processes}  # type: ignore[index]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            status = (entry / "status").read_text()
        except (OSError, IndexError):
            continue
        if session in names and "VmRSS:" in status:
            megabytes = int(status.partition("VmRSS:")[2].split()[0]) // MB
            own = int(entry.name) == session
            yield (names[session] if own else f"a process of {names[session]}"), megabytes


def fill(server: EmbeddedSqlServer, tables: int, rows: int) -> None:
    for number in range(tables):
        server.execute(f"CREATE TABLE dbo.t{number} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        server.executemany(
            f"INSERT INTO dbo.t{number} VALUES (?, ?)", [(key, f"row {key}") for key in range(rows)]
        )
        server.enable_cdc(f"dbo.t{number}")


def load(airflow: RunningAirflow, options: argparse.Namespace) -> tuple[float, Watched, Counter[str]]:
    """Trigger every DAG at once and wait; seconds, what was seen, and the states of all tasks."""
    dags = [f"load_{first}" for first in range(0, options.tables, PER_DAG)]
    for dag_id in dags:
        eventually(lambda dag_id=dag_id: airflow.known(dag_id), what=f"{dag_id} is parsed")
    watched, over = Watched(), threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            watched.look(airflow)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.monotonic()
    patience = SECONDS_PER_TASK * options.tables * (options.ranges + 2)
    try:
        runs = {dag_id: airflow.trigger(dag_id) for dag_id in dags}
        for dag_id, run in runs.items():
            airflow.wait_for_run(dag_id, run, seconds=patience)
    finally:
        over.set()
        watcher.join()
    seconds = time.monotonic() - started
    states = Counter(
        task["state"] for dag_id, run in runs.items() for task in all_tasks(airflow, dag_id, run)
    )
    return seconds, watched, states


def all_tasks(airflow: RunningAirflow, dag_id: str, run: str) -> Iterator[dict[str, Any]]:
    """Page by page: one page holds a hundred."""
    offset = 0
    while True:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run.replace('+', '%2B')}/taskInstances"
        page = airflow.call("GET", f"{path}?limit=100&offset={offset}")["task_instances"]
        yield from page
        offset += len(page)
        if len(page) < 100:
            return


def report(lake: Path, options: argparse.Namespace, measured: tuple[float, Watched, Counter[str]]) -> bool:
    """Print it; whether every table is there, whole and once."""
    seconds, watched, states = measured
    bronzes = [lake / "bronze" / f"t{number}" for number in range(options.tables)]
    whole = sum(len(delta_rows(bronze, columns="id")) == options.rows for bronze in bronzes)
    commits = Counter(DeltaTable(str(bronze)).version() for bronze in bronzes)
    facts = DeltaTable(str(lake / "ops" / "facts"))
    files = [Path(file) for file in facts.file_uris()]
    lines = {
        "tables, ranges of each, rows of each": f"{options.tables}, {options.ranges}, {options.rows}",
        "seconds": f"{seconds:.0f}",
        "task instances by state": dict(states),
        "seconds of four slots per task": f"{4 * seconds / sum(states.values()):.1f}",
        "tables that are whole": f"{whole} of {options.tables}",
        "bronze's last version": dict(commits),
        "facts": f"{len(delta_rows(facts.table_uri))} rows, version {facts.version()}, {len(files)} files, "
        f"{sum(file.stat().st_size for file in files) / 1024:.0f} KB",
        "looks at Airflow's health, unhealthy": f"{watched.looks}, {watched.unhealthy}",
        "largest resident MB": dict(sorted(watched.largest_mb.items())),
    }
    print("| | |\n|---|---|")
    for name, value in lines.items():
        print(f"| {name} | {value} |")
    return whole == options.tables and set(states) == {"success"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--ranges", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedSqlServer(database="shop") as server:
        fill(server, options.tables, options.rows)
        lake = Path(folder, "lake")
        variables = {
            "AIRFLOW_CONN_ERP": server.airflow_connection(),
            "BENCH_LAKE": str(lake),
            "BENCH_TABLES": str(options.tables),
            "BENCH_RANGES": str(options.ranges),
            "BENCH_ROWS": str(options.rows),
        }
        home = Path(folder, "airflow")
        home.mkdir()
        with running_airflow(home, DAGS, variables) as airflow:
            measured = load(airflow, options)
        return 0 if report(lake, options, measured) else 1


if __name__ == "__main__":
    sys.exit(main())
