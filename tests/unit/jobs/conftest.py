"""A server, a lake and the three jobs of a whole snapshot, each as one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.plan import PlannedRange
from airflow_provider_mssql_cdc.model.staged import StagedRange
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession

READER = "loader"


class Load:
    """Plans, reads and completes one table as the tasks of one Airflow run would."""

    def __init__(self, server: EmbeddedSqlServer, table: MssqlCdcTable, *, run_id: str = "run") -> None:
        self.server, self.table, self.run_id = server, table, run_id
        self.login, self.password, self.port = "sa", None, server.port

    def connect(self) -> SourceSession:
        text = self.server.airflow_connection(login=self.login, password=self.password)
        fields = {**json.loads(text), "port": self.port}
        fields["extra"] = json.dumps({**fields["extra"], "mssql_cdc": {"login_timeout_seconds": 5}})
        settings = settings_of(Connection(conn_id=self.table.mssql_conn_id, **fields))
        return SourceSession(settings, isolation=self.table.isolation)

    def attempt(self, task_id: str, index: int = -1, *, try_number: int = 1) -> Attempt:
        return Attempt("dag", self.run_id, task_id, index, try_number)

    def plan(self, *, rows_per_range: int = 100, max_ranges: int = 16, **request: Any) -> list[PlannedRange]:
        asked = PlanRequest(self.table, self.attempt("plan"), max_ranges, rows_per_range, **request)
        return plan_snapshot(asked, connect=self.connect)

    def read(self, planned: PlannedRange, *, try_number: int = 1) -> StagedRange:
        attempt = self.attempt("read", planned.index, try_number=try_number)
        through_xcom = PlannedRange.from_xcom(json.loads(json.dumps(planned.to_xcom())))
        return read_range(self.table, through_xcom, attempt=attempt, connect=self.connect)

    def complete(self, staged: list[StagedRange]) -> CompletedSnapshot:
        through_xcom = [StagedRange.from_xcom(json.loads(json.dumps(one.to_xcom()))) for one in staged]
        return complete_snapshot(
            self.table, through_xcom, attempt=self.attempt("complete"), connect=self.connect
        )

    def all(self, **request: Any) -> CompletedSnapshot:
        return self.complete([self.read(planned) for planned in self.plan(**request)])


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


@pytest.fixture
def orders(server: EmbeddedSqlServer) -> None:
    """``dbo.orders``: 300 rows, older than CDC."""
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(300)])
    server.enable_cdc("dbo.orders")


@pytest.fixture
def make_load(server: EmbeddedSqlServer, tmp_path: Path) -> Callable[..., Load]:
    def make(*, run_id: str = "run", **arguments: Any) -> Load:
        given = {
            "mssql_conn_id": "erp",
            "capture_instance": "dbo_orders",
            "bronze": str(tmp_path / "bronze"),
            "facts": str(tmp_path / "facts"),
            **arguments,
        }
        return Load(server, MssqlCdcTable(**given), run_id=run_id)

    return make
