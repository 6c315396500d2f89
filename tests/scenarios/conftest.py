"""One embedded server and one Airflow for all scenarios: both take a while to start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymssql
import pytest

from tests.scenarios.running_airflow import RunningAirflow, eventually, running_airflow
from tests.support.delta_rows import delta_rows
from tests.support.server_process import server_process

ROWS = 1000
TABLES = ("plain", "killed", "orphaned", "cleared", "dropped", "raced", "shrunk")
DAGS = Path(__file__).with_name("dags")


@dataclass
class Server:
    """The embedded server's process, asked and steered as sysadmin by a driver."""

    connection: str
    _session: Any = field(init=False)

    def __post_init__(self) -> None:
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

    def reads_of(self, table: str) -> int:
        """How many statements have read the rows of a table."""
        marks = (f"FROM [dbo].[{table}]", "AS [name]")
        return sum(all(mark in row[3] for mark in marks) for row in self.execute("EXEC embedded.statements"))

    def stall(self, table: str, *, after_rows: int = 50) -> None:
        """The next read of a table stops after some rows, until :meth:`release`."""
        pattern = rf"AS \\[name\\](?s:.*)FROM \\[dbo\\]\\.\\[{table}\\]".replace("\\\\", "\\")
        self.execute(
            "EXEC embedded.fault @action = 'stall', @pattern = %s, @after_rows = %s", (pattern, after_rows)
        )

    def stalled(self) -> bool:
        return any(row[-1] for row in self.execute("EXEC embedded.faults"))

    def release(self) -> None:
        self.execute("EXEC embedded.release")
        self.execute("EXEC embedded.clear_faults")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Tables of 1,000 rows each, older than CDC."""
    with server_process("--database", "shop") as connection:
        server = Server(connection)
        server.execute("EXEC sys.sp_cdc_enable_db")
        for table in TABLES:
            server.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
            for start in range(0, ROWS, 500):
                values = ", ".join(f"({number}, N'row {number}')" for number in range(start, start + 500))
                server.execute(f"INSERT INTO dbo.{table} VALUES {values}")
            server.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = %s, @role_name = NULL",
                (table,),
            )
        yield server


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="session")
def airflow(server: Server, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    variables = {
        "AIRFLOW_CONN_ERP": server.connection,
        "SCENARIO_LAKE": str(lake),
        "SCENARIO_TABLES": ",".join(TABLES),
    }
    with running_airflow(tmp_path_factory.mktemp("airflow"), DAGS, variables) as running:
        eventually(lambda: running.known(f"bootstrap_{TABLES[-1]}"), what="the DAG files are parsed")
        yield running
        if os.environ.get("SCENARIO_KEEP_LOGS"):
            print("logs are in", running.home)


@dataclass(frozen=True, slots=True)
class Lake:
    """What the scenarios look at afterwards."""

    path: Path

    def bronze(self, table: str) -> str:
        return str(self.path / "bronze" / table)

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in delta_rows(self.bronze(table)))

    def bootstraps(self, table: str) -> int:
        facts = delta_rows(self.path / "ops" / "facts", "event = 'bootstrap'")
        return sum(row["target"] == self.bronze(table) for row in facts)


@pytest.fixture
def tables(lake: Path) -> Lake:
    return Lake(lake)
