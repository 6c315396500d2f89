"""The main job, shown: a table older than its CDC, loaded while somebody goes on writing to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from demo import proof
from demo.source_tables import TABLES, fill
from demo.writer import Writer

SECOND_TO_SPARE = 1.5
ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".demo"
EXAMPLE = "whole_database"
LOAD, FOLLOW = "erp_load", "erp_follow"


def main() -> int:
    started = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "airflow").mkdir(parents=True)
    with EmbeddedSqlServer(database="travel") as server:
        title("1. A SQL Server on this machine, with rows that are older than change data capture")
        counts = fill(server)
        for table, count in counts.items():
            say(
                f"dbo.{table:<10} {count:>8,} rows, then CDC was enabled: none of them is in the change table"
            )

        title(f"2. Airflow runs {LOAD} of dags_examples/{EXAMPLE}.py: every tracked table to silver")
        say("meanwhile somebody updates, deletes, inserts and renumbers flights, a transaction every 0.25 s")
        with Writer(server, counts["flights"]) as writer:
            code = run_dag(server, LOAD)
        if code != 0:
            return code
        say(f"{writer.commits} transactions were committed while the DAG ran")

        title(f"3. Airflow runs {FOLLOW}: the changes of all tables to bronze, and from there to silver")
        time.sleep(SECOND_TO_SPARE)
        server.idle()  # as capture does every five minutes or so on a quiet database
        if (code := run_dag(server, FOLLOW)) != 0:
            return code

        title("4. What is in the lake")
        show_lake()

        title("5. The proof: silver against the source, row by row")
        different = sum(show_proof(server, table.name, key=table.key) for table in TABLES)
    outcome = "FAILED" if different else "Done"
    title(f"{outcome} in {time.monotonic() - started:.0f} s; the Delta tables are in .demo/lake")
    return 1 if different else 0


def run_dag(server: EmbeddedSqlServer, dag_id: str) -> int:
    """Airflow in a separate process, over a fresh metadata database."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(WORK / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags_examples"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{WORK}/airflow/airflow.db",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_ERP": server.airflow_connection(),
        "MSSQL_CDC_LAKE": str(WORK / "lake"),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "demo.run_dag", dag_id]
    with (WORK / "airflow.log").open("w") as log:
        return subprocess.run(command, env=environment, stderr=log, check=False).returncode


def show_lake() -> None:
    events = "'bootstrap', 'changes', 'merge'"
    for row in proof.query(
        str(WORK / "lake/ops/facts"),
        f"SELECT * FROM t WHERE event IN ({events}) AND target LIKE '%/flights' ORDER BY written_at",
    ):
        changed = ", ".join(f"{row[name]:,} {name}" for name in ("inserts", "updates", "deletes"))
        say(f"facts: {row['event']:<9} of flights: {row['rows']:>7,} rows; {changed}; up to {row['end_lsn']}")
    show_rows(
        "bronze", "_operation, _start_lsn, flight_id, carrier, dep_delay, origin, dest", "_operation > 2"
    )
    show_rows("silver", "_start_lsn, _commit_ts, flight_id, carrier, dep_delay, origin, dest", "true")


def show_rows(layer: str, columns: str, where: str) -> None:
    say(f"{layer}/flights, the newest three rows:")
    query = f"SELECT {columns} FROM t WHERE {where} ORDER BY _start_lsn DESC, flight_id LIMIT 3"
    for row in proof.query(str(WORK / "lake" / layer / "dbo" / "flights"), query):
        say("  " + ", ".join(f"{name}={value}" for name, value in row.items()))


def show_proof(server: EmbeddedSqlServer, name: str, *, key: str) -> int:
    """Print how one table compares; returns how many rows differ."""
    now = proof.source(server, f"dbo.{name}", key=key)
    silver = proof.silver(str(WORK / "lake/silver/dbo" / name), key=key)
    different = sum(now.get(value) != silver.get(value) for value in now.keys() | silver.keys())
    say(f"dbo.{name:<10} source {len(now):>8,} rows, silver {len(silver):>8,} rows, different: {different}")
    return different


def title(text: str) -> None:
    print(f"\n{text}", flush=True)


def say(text: Any) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
