"""A running Airflow behind a path, with tables in every state that the page knows: all by real runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable

from tests.scenarios.conftest import ROWS, Server
from tests.scenarios.running_airflow import RunningAirflow, eventually, running_airflow
from tests.support.ports import free_port
from tests.support.server_process import server_process

DAGS = Path(__file__).with_name("dags")
PREFIX = "/ops/airflow"
HOSTILE = '<script>alert(1)</script>"it\'s"&amp;'
"""Name of a table, which is in names, messages and labels of the page."""

INSTANCES = {
    name: f"dbo_{name}" for name in ("orders", "customers", "invoices", "parts", "readings", "prices")
} | {"shipments": "dbo_shipments", "hostile": "dbo_hostile"}
STATES = {
    "invoices": "gap",
    "shipments": "not loaded",
    "hostile": "failed",
    "parts": "failed",
    "prices": "silver differs",
    "readings": "loading",
    "orders": "following",
    "customers": "loaded",
}
"""State that each table is brought into; ``shipments`` does not exist at the source."""
FOLLOWED_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class World:
    """What the test looks at."""

    airflow: RunningAirflow
    server: Server
    lake: Path

    @property
    def base(self) -> str:
        """Address of Airflow's UI, without a slash at its end."""
        return f"http://127.0.0.1:{self.airflow.port}{PREFIX}"

    def run(self, *dag_ids: str, state: str = "success") -> None:
        """Run some DAGs at the same time, and see each end in a state."""
        runs = [(dag_id, self.airflow.trigger(dag_id)) for dag_id in dag_ids]
        self.see_end(runs, state=state)

    def see_end(self, runs: Sequence[tuple[str, str]], *, state: str = "success") -> None:
        """Wait for some runs."""
        for dag_id, run_id in runs:
            assert self.airflow.wait_for_run(dag_id, run_id) == state, (dag_id, run_id)

    def write(self, table: str, number: int) -> None:
        """Insert a row, and have it captured."""
        self.server.execute(f"INSERT INTO [dbo].[{table}] VALUES ({number}, N'new')")


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start everything, and bring each table into its state."""
    lake = folder / "lake"
    lake.mkdir()
    with server_process("--database", "shop") as connection:
        server = Server(connection)
        server.execute("EXEC sys.sp_cdc_enable_db")
        for name in INSTANCES.keys() - {"shipments", "hostile"}:
            server.create(name)
        _create_hostile(server)
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({"oncall": "on call"}))
        port = free_port()
        base = f"http://127.0.0.1:{port}{PREFIX}"
        variables = {
            "AIRFLOW_CONN_ERP": server.connection,
            # With ALL_ADMINS, Airflow logs in whoever comes.
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "oncall:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": base,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
            "AIRFLOW__MSSQL_CDC__FACTS": str(lake / "ops" / "facts"),
            "BROWSER_LAKE": str(lake),
            "BROWSER_TABLES": json.dumps(INSTANCES),
        }
        home = folder / "airflow"
        home.mkdir()
        with running_airflow(home, DAGS, variables, port=port) as airflow:
            eventually(lambda: airflow.known("prove_hostile"), what="the DAG file is parsed")
            made = World(airflow, server, lake)
            _bring_about(made)
            yield made


def _create_hostile(server: Server) -> None:
    quoted = HOSTILE.replace("]", "]]")
    server.execute(f"CREATE TABLE [dbo].[{quoted}] (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL, "
        "@capture_instance = N'dbo_hostile'",
        (HOSTILE,),
    )


def _bring_about(made: World) -> None:
    made.run(*(f"load_{name}" for name in ("orders", "customers", "invoices", "parts", "prices")))
    for name in ("orders", "invoices", "parts", "prices"):
        made.write(name, ROWS)
    made.run(*(f"follow_{name}" for name in ("orders", "invoices", "parts", "prices")))
    for number in range(1, 4):
        made.write("orders", ROWS + number)
        made.run("follow_orders")
    DeltaTable(str(made.lake / "silver" / "prices")).delete("id = 3")
    _prove(made, "orders")
    _prove(made, "prices")
    _lose_changes(made)
    _fail(made)
    made.run("load_shipments", state="failed")
    _load_in_part(made)


def _prove(made: World, name: str) -> None:
    """A proof waits until changes and a merge have passed what it has read, so they go on beside it."""
    dag_id = f"prove_{name}"
    run_id = made.airflow.trigger(dag_id)
    for number in range(FOLLOWED_AT_MOST):
        if made.airflow.run_state(dag_id, run_id) in {"success", "failed"}:
            break
        made.write(name, 2 * ROWS + number)
        made.run(f"follow_{name}")
    made.see_end([(dag_id, run_id)])


def _lose_changes(made: World) -> None:
    for number in range(2):
        made.write("invoices", ROWS + 1 + number)
    [(low,)] = made.server.execute("SELECT CONVERT(varchar(30), sys.fn_cdc_get_max_lsn(), 1)")
    made.server.execute("EXEC embedded.cleanup @instance = 'dbo_invoices', @up_to = %s", (low,))
    made.run("follow_invoices", state="failed")


def _fail(made: World) -> None:
    """Of ``parts`` the read of changes fails, of the table with the hostile name the snapshot's."""
    reads = (
        r"FROM \[cdc\]\.\[dbo_parts_CT\](?s:.*)ROWCOUNT_BIG",
        r"AS \[name\](?s:.*)FROM \[dbo\]\.\[<script>",
    )
    for read in reads:
        made.server.fault("fail", read, number=229, times=100)
    made.write("parts", -1)
    made.run("follow_parts", "load_hostile", state="failed")
    made.server.execute("EXEC embedded.clear_faults")


def _load_in_part(made: World) -> None:
    made.server.stall("readings")
    run = made.airflow.trigger("load_readings")

    def others_done() -> bool:
        tasks = made.airflow.tasks("load_readings", run)
        waves = [task["state"] for task in tasks if task["map_index"] >= 0]
        return waves.count("success") == len(waves) - 1 and len(waves) > 1

    eventually(others_done, what="all waves but the one that stalls are done")
    assert made.server.stalled()
