"""``python -m benchmarks.load``: many tables at once by a running Airflow, four tasks at a time.

Fifty tables in twenty ranges each are 1,000 mapped tasks, which takes twenty to forty minutes on two cores:
Airflow needs about a second for each, whatever it does. ``--tables 5 --ranges 8`` shows the same in two
minutes. Airflow's own state is in SQLite, or in PostgreSQL with ``--airflow-db postgres``. Once a minute a
line on standard error says how far it is.

``--database --tables 500 --rows 100`` loads them as one pipeline instead, and some of them as a loop beside.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer
from benchmarks.database import measure
from benchmarks.load_report import Load, Outcome, report
from benchmarks.watched import Watched
from tests.scenarios.running_airflow import DATABASE, RunningAirflow, eventually, running_airflow

DAGS = Path(__file__).with_name("dags")
PER_DAG = 10
LOOK_EVERY_SECONDS = 3.0
SAY_EVERY_SECONDS = 60.0
PATIENCE_SECONDS_PER_TASK = 15
FEWEST_SECONDS = 600
ENDED = {"success", "failed"}
# The scenarios notice lost tasks sooner than Airflow does; a busy Airflow must not take slow tasks for lost.
AS_AIRFLOW_HAS_IT = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "300",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "10",
}


def fill(server: EmbeddedSqlServer, tables: int, rows: int) -> None:
    for number in range(tables):
        server.execute(f"CREATE TABLE dbo.t{number} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        server.executemany(
            f"INSERT INTO dbo.t{number} VALUES (?, ?)", [(key, f"row {key}") for key in range(rows)]
        )
        server.enable_cdc(f"dbo.t{number}")


def run(airflow: RunningAirflow, load: Load) -> Outcome:
    """Trigger every DAG at once and look until all runs have ended, or patience has."""
    dags = [f"load_{first}" for first in range(0, load.tables, PER_DAG)]
    for dag_id in dags:
        eventually(lambda dag_id=dag_id: airflow.known(dag_id), what=f"{dag_id} is parsed")
    watched, started = Watched(), time.monotonic()
    runs = {dag_id: airflow.trigger(dag_id) for dag_id in dags}
    patience = FEWEST_SECONDS + PATIENCE_SECONDS_PER_TASK * load.tasks
    told, states = started, dict.fromkeys(dags, "queued")
    while set(states.values()) - ENDED and time.monotonic() < started + patience:
        time.sleep(LOOK_EVERY_SECONDS)
        watched.look(airflow)
        states |= _states(airflow, runs)
        if time.monotonic() > told + SAY_EVERY_SECONDS:
            told = time.monotonic()
            _say(f"{told - started:.0f} s: {_progress(airflow, load)}; {watched.summary()}")
    seconds = time.monotonic() - started
    tasks = [task for dag_id, run in runs.items() for task in airflow.tasks(dag_id, run)]
    database = airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].partition(":")[0]
    return Outcome(database, seconds, watched, states, tasks)


def _states(airflow: RunningAirflow, runs: dict[str, str]) -> dict[str, str]:
    """Of the runs that the API could tell about; a call that fails costs a look, not the load."""
    try:
        return {dag_id: airflow.run_state(dag_id, run) for dag_id, run in runs.items()}
    except (OSError, ValueError) as exc:
        _say(f"the api-server did not answer: {exc}")
        return {}


def _progress(airflow: RunningAirflow, load: Load) -> str:
    every = "/api/v2/dags/~/dagRuns/~/taskInstances?limit=1"

    def count(wanted: str) -> int:
        return int(airflow.call("GET", f"{every}&{wanted}")["total_entries"])

    try:
        tables = count("operator=MssqlCdcCompleteOperator&state=success")
        done, failed = count("state=success"), count("state=failed&state=upstream_failed")
    except (OSError, ValueError) as exc:
        return f"the api-server did not answer: {exc}"
    return f"{tables} of {load.tables} tables, {done} of {load.tasks} tasks done, {failed} failed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--ranges", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--database", action="store_true", help="as one pipeline, beside the loop")
    parser.add_argument("--loop", type=int, help="with --database: tables of the loop; a tenth by default")
    parser.add_argument("--airflow-db", choices=("sqlite", "postgres", "auto"))
    options = parser.parse_args()
    given = Load(options.tables, options.ranges, options.rows)
    if options.airflow_db:
        os.environ[DATABASE] = options.airflow_db
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # Airflow is stopped then, too
    if options.database:
        loop = options.tables // 10 if options.loop is None else options.loop
        good = measure(options.tables, loop=loop, rows=options.rows, fill=fill, settings=AS_AIRFLOW_HAS_IT)
        return 0 if good else 1
    with tempfile.TemporaryDirectory() as folder, EmbeddedSqlServer(database="shop") as server:
        fill(server, given.tables, given.rows)
        lake, home = Path(folder, "lake"), Path(folder, "airflow")
        home.mkdir()
        variables = {
            **AS_AIRFLOW_HAS_IT,
            "AIRFLOW_CONN_ERP": server.airflow_connection(),
            "BENCH_LAKE": str(lake),
            "BENCH_TABLES": str(given.tables),
            "BENCH_RANGES": str(given.ranges),
            "BENCH_ROWS": str(given.rows),
        }
        _say("Airflow starts")
        with running_airflow(home, DAGS, variables) as airflow:
            outcome = run(airflow, given)
        return 0 if report(lake, given, outcome) else 1


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
