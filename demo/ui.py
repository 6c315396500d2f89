"""The demo's server and the example DAGs under a running Airflow, to click through: ``make ui``.

Everything listens on 127.0.0.1; anyone who opens the page is admin. Ctrl-C ends all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from demo.source_tables import fill

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".ui"
READY_WITHIN_SECONDS = 180
STOP_WITHIN_SECONDS = 10


def environment(server: EmbeddedSqlServer, port: int) -> dict[str, str]:
    """Airflow on SQLite, which takes one writer: few tasks at once, and patience with its lock."""
    return {
        **os.environ,
        "AIRFLOW_HOME": str(WORK / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags_examples"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{WORK}/airflow/airflow.db?timeout=60",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_ERP": server.airflow_connection(),
        "MSSQL_CDC_LAKE": str(WORK / "lake"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
    }


def is_healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=5) as answer:
            health = json.loads(answer.read())
    except (URLError, OSError, ValueError):
        return False
    return all(health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor"))


def wait_until_healthy(airflow: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while time.monotonic() < deadline and airflow.poll() is None:
        if is_healthy(port):
            return True
        time.sleep(1)
    return False


def make_pool(variables: dict[str, str]) -> None:
    """The pool that an example names; without it that DAG's tasks would wait forever."""
    command = [sys.executable, "-m", "airflow", "pools", "set", "erp", "4", "reads from the ERP database"]
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop(airflow: subprocess.Popen[bytes]) -> None:
    """Its whole process group: ``airflow standalone`` leaves its children behind when it alone is ended."""
    for number, patience in ((signal.SIGTERM, STOP_WITHIN_SECONDS), (signal.SIGKILL, 0)):
        try:
            os.killpg(airflow.pid, number)
        except ProcessLookupError:
            return
        time.sleep(patience)


def main(port: int) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "airflow").mkdir(parents=True)
    with EmbeddedSqlServer(database="travel") as server, (WORK / "airflow.log").open("wb") as log:
        print("Filling dbo.flights, dbo.airlines and dbo.airports ...", flush=True)
        fill(server)
        variables = environment(server, port)
        airflow = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            print("Starting Airflow ...", flush=True)
            if not wait_until_healthy(airflow, port):
                print(f"Airflow did not start; see {WORK / 'airflow.log'}")
                return 1
            make_pool(variables)
            print(
                f"http://127.0.0.1:{port}  (unpause bootstrap_tables and trigger it; Ctrl-C ends)\n"
                f"The server: {server.host}:{server.port}; as sa, EXEC embedded.fault makes it misbehave.\n"
                "Nobody writes to it: a run with resnapshot waits for a commit, or for EXEC embedded.idle",
                flush=True,
            )
            airflow.wait()
        except KeyboardInterrupt:
            print("\nStopping ...")
        finally:
            stop(airflow)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    sys.exit(main(parser.parse_args().port))
