"""One embedded server and one Airflow for all scenarios: both take a while to start."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymssql
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.scenarios.running_airflow import RunningAirflow, eventually, running_airflow
from tests.support.delta_rows import delta_rows
from tests.support.forwarder import Forwarder
from tests.support.server_process import server_process
from tests.support.statsd_server import StatsdServer

ROWS = 1000
SURVIVORS = ("plain", "killed", "orphaned", "cleared", "dropped", "raced", "shrunk")
FAULTY = ("contended", "restarted", "uncaptured", "replicated")
PRESSED = ("grown", "marked", "midway", "stopped")
TABLES = (*SURVIVORS, *FAULTY, *PRESSED)
"""Each has its own DAG ``bootstrap_<table>``; those that have a file of their own are not listed."""
DAGS = Path(__file__).with_name("dags")


@dataclass
class Server:
    """The embedded server's process, asked and steered as sysadmin by a driver."""

    connection: str
    _session: Any = field(init=False)

    def __post_init__(self) -> None:
        self.connect()

    def connect(self) -> None:
        """Again, where the connection has gone with the others."""
        told = json.loads(self.connection)
        self._session = pymssql.connect(
            server=told["host"],
            port=str(told["port"]),
            user=told["login"],
            password=told["password"],
            database=told["schema"],
            autocommit=True,
        )

    def execute(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a batch; its rows, if it has any."""
        with self._session.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def ids(self, table: str) -> list[int]:
        return [row[0] for row in self.execute(f"SELECT id FROM dbo.{table} ORDER BY id")]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.execute(f"SELECT id, name FROM dbo.{table} ORDER BY id")

    def create(self, table: str, rows: int = ROWS) -> None:
        """A table with some rows, older than its capture instance."""
        self.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        for start in range(0, rows, 500):
            numbers = range(start, min(start + 500, rows))
            values = ", ".join(f"({number}, N'row {number}')" for number in numbers)
            self.execute(f"INSERT INTO dbo.{table} VALUES {values}")
        self.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL",
            (table,),
        )

    def reads_of(self, table: str) -> int:
        """How many statements have read the rows of a table."""
        marks = (f"FROM [dbo].[{table}]", "AS [name]")
        return sum(all(mark in row[3] for mark in marks) for row in self.execute("EXEC embedded.statements"))

    def stall(self, table: str, *, after_rows: int = 50) -> None:
        """The next read of a table stops after some rows, until :meth:`release`."""
        self.fault("stall", rows_of(table), after_rows=after_rows)

    def fault(self, action: str, pattern: str, **arguments: Any) -> None:
        """``EXEC embedded.fault``: what goes wrong at the next statements that match."""
        given = {"action": action, "pattern": pattern, **arguments}
        marks = ", ".join(f"@{name} = %s" for name in given)
        self.execute(f"EXEC embedded.fault {marks}", tuple(given.values()))

    def stalled(self) -> bool:
        return any(row[-1] for row in self.execute("EXEC embedded.faults"))

    def release(self) -> None:
        self.execute("EXEC embedded.release")
        self.execute("EXEC embedded.clear_faults")


def rows_of(table: str) -> str:
    """Matches the statements that read rows of a table, not those that look for its bounds."""
    return rf"AS \[name\](?s:.*)FROM \[dbo\]\.\[{table}\]"


class OneAirflow(LoadScopeScheduling):  # type: ignore[misc]
    """File by file, and all that drive the Airflow in one process: they mostly wait for it."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        drives = "airflow: RunningAirflow" in (self.config.rootpath / file).read_text(encoding="utf-8")
        return "airflow" if drives else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return OneAirflow(config, log)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Tables of 1,000 rows each, older than CDC."""
    with server_process("--database", "shop") as connection:
        server = Server(connection)
        server.execute("EXEC sys.sp_cdc_enable_db")
        for table in (*TABLES, "edited"):
            server.create(table)
        yield server


@pytest.fixture(scope="session")
def past() -> Iterator[Server]:
    """A separate server, since its clock is set back: its days are over."""
    with server_process("--database", "past") as connection:
        yield Server(connection)


@pytest.fixture(scope="session")
def listener(server: Server) -> Forwarder:
    """One name that may lead to several servers."""
    return Forwarder(json.loads(server.connection)["port"])


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the DAG files, to be edited."""
    return Path(shutil.copytree(DAGS, tmp_path_factory.mktemp("home") / "dags"))


@pytest.fixture(scope="session")
def metrics() -> Iterator[StatsdServer]:
    """What Airflow's components and tasks send."""
    with StatsdServer() as receiving:
        yield receiving


@pytest.fixture(scope="session")
def airflow(
    server: Server,
    past: Server,
    listener: Forwarder,
    metrics: StatsdServer,
    lake: Path,
    dags: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningAirflow]:
    variables = {
        "AIRFLOW_CONN_ERP": server.connection,
        "AIRFLOW_CONN_ERP_LISTENER": json.dumps({**json.loads(server.connection), "port": listener.port}),
        "AIRFLOW_CONN_PAST": past.connection,
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "airflow_provider_mssql_cdc=DEBUG",
        "AIRFLOW__METRICS__METRICS_ALLOW_LIST": r"^mssql_cdc\.",
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_PORT": str(metrics.port),
        "SCENARIO_LAKE": str(lake),
        "SCENARIO_TABLES": ",".join(TABLES),
    }
    with running_airflow(tmp_path_factory.mktemp("airflow"), dags, variables) as running:
        for dag_id in (f"bootstrap_{TABLES[-1]}", "bootstrap_edited", "changes_in_order"):
            eventually(lambda dag_id=dag_id: running.known(dag_id), what=f"the file of {dag_id} is parsed")
        yield running
        if os.environ.get("SCENARIO_KEEP_LOGS"):
            print("logs are in", running.home)


@dataclass(frozen=True, slots=True)
class Lake:
    """What the scenarios look at afterwards."""

    path: Path

    def bronze(self, table: str) -> str:
        return str(self.path / "bronze" / table)

    def exists(self, table: str) -> bool:
        return (self.path / "bronze" / table).exists()

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in delta_rows(self.bronze(table)))

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of the snapshot, ordered by key."""
        found = delta_rows(self.bronze(table), "_operation = 0", columns="id, name")
        return sorted((row["id"], row["name"]) for row in found)

    def silver(self, table: str) -> list[tuple[Any, ...]]:
        """Silver's rows, ordered by key."""
        found = delta_rows(self.path / "silver" / table, columns="id, name")
        return sorted((row["id"], row["name"]) for row in found)

    def changes(self, table: str) -> list[tuple[Any, ...]]:
        """All change rows but for the number of the commit that wrote them, in the order of the log."""
        columns = '"_start_lsn", "_command_id", "_seqval", "_operation", "_commit_ts", id, name'
        found = delta_rows(self.bronze(table), "_operation > 0", columns=columns)
        return sorted(tuple(row.values()) for row in found)

    def facts(self, table: str, event: str) -> list[dict[str, Any]]:
        rows = delta_rows(self.path / "ops" / "facts", f"event = '{event}'")
        return [row for row in rows if row["target"] == self.bronze(table)]

    def bootstraps(self, table: str) -> int:
        return len(self.facts(table, "bootstrap"))


@pytest.fixture
def tables(lake: Path) -> Lake:
    return Lake(lake)
