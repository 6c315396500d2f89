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

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".demo"
DAG_ID = "bootstrap_tables"


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

        title(f"2. Airflow runs dags_examples/{DAG_ID}.py: plan, mapped reads, one commit per table")
        say("meanwhile somebody updates, deletes, inserts and renumbers flights, a transaction every 0.25 s")
        with Writer(server, counts["flights"]) as writer:
            code = run_dag(server)
        if code != 0:
            return code
        say(f"{writer.commits} transactions were committed while the DAG ran")

        title("3. What is in the lake")
        show_lake()

        title("4. The proof: bronze and the changes above the snapshot's LSN, against the source, row by row")
        different = sum(show_proof(server, table.name, key=table.key) for table in TABLES)
    outcome = "FAILED" if different else "Done"
    title(f"{outcome} in {time.monotonic() - started:.0f} s; the Delta tables are in .demo/lake")
    return 1 if different else 0


def run_dag(server: EmbeddedSqlServer) -> int:
    """Airflow in a process of its own, over a fresh metadata database."""
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
    command = [sys.executable, "-m", "demo.run_dag", DAG_ID]
    with (WORK / "airflow.log").open("w") as log:
        return subprocess.run(command, env=environment, stderr=log, check=False).returncode


def show_lake() -> None:
    facts = proof.query(str(WORK / "lake/ops/facts"), "SELECT * FROM t WHERE event = 'bootstrap'")
    for row in facts:
        table = Path(row["target"]).name
        say(f"facts: {row['event']} of {table}: {row['rows']:,} rows at LSN {row['min_lsn']}")
        say(f"       changes have to pass {row['consistent_after']}")
    say("bronze/flights, three rows:")
    columns = "_operation, _start_lsn, flight_id, carrier, tailnum, origin, dest, time_hour"
    for row in proof.query(
        str(WORK / "lake/bronze/flights"), f"SELECT {columns} FROM t ORDER BY flight_id LIMIT 3"
    ):
        say("  " + ", ".join(f"{name}={value}" for name, value in row.items()))


def show_proof(server: EmbeddedSqlServer, name: str, *, key: str) -> int:
    """Print how one table compares; returns how many rows differ."""
    bronze = str(WORK / "lake/bronze" / name)
    snapshot = proof.query(bronze, "SELECT max(_snapshot) AS s FROM t")[0]["s"]
    now = proof.source(server, f"dbo.{name}", key=key)
    built = proof.rebuilt(server, bronze, instance=f"dbo_{name}", key=key, snapshot=snapshot)
    different = sum(now.get(value) != built.get(value) for value in now.keys() | built.keys())
    say(f"dbo.{name:<10} source {len(now):>8,} rows, rebuilt {len(built):>8,} rows, different: {different}")
    return different


def title(text: str) -> None:
    print(f"\n{text}", flush=True)


def say(text: Any) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
