"""The three jobs of a load without Airflow, so that a test stands between any two of their steps."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.replica import Replica
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.plan import PlannedRange
from airflow_provider_mssql_cdc.model.staged import StagedRange
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings, DriverName


class Load:
    """One Airflow run's three jobs on one table, called one by one."""

    def __init__(
        self,
        server: EmbeddedSqlServer,
        folder: Path,
        *,
        instance: str,
        run_id: str = "manual__1",
        driver: DriverName | None = None,
    ) -> None:
        self.server, self.driver = server, driver
        self.table = MssqlCdcTable("erp", instance, str(folder / "bronze"), str(folder / "facts"))
        self.run_id = run_id

    def connect(self, listener: EmbeddedSqlServer | Replica | None = None) -> SourceSession:
        port = (listener or self.server).port
        return SourceSession(
            ConnectionSettings(
                "erp",
                "127.0.0.1",
                port=port,
                database=self.server.database,
                login="sa",
                password=self.server.password_of("sa"),
                encryption="off",
                driver=self.driver,
            )
        )

    def attempt(self, task: str) -> Attempt:
        return Attempt("load", self.run_id, task)

    def plan(self, *, rows_per_range: int = 100, resnapshot: bool = False) -> list[PlannedRange]:
        request = PlanRequest(
            self.table,
            self.attempt("plan"),
            max_ranges=100,
            rows_per_range=rows_per_range,
            resnapshot=resnapshot,
            wait_seconds=0,
        )
        return plan_snapshot(request, connect=self.connect)

    def read(
        self, planned: PlannedRange, *, listener: EmbeddedSqlServer | Replica | None = None
    ) -> StagedRange:
        return read_range(
            self.table, planned, attempt=self.attempt("read"), connect=lambda: self.connect(listener)
        )

    def complete(self, outcomes: list[StagedRange]) -> CompletedSnapshot:
        return complete_snapshot(self.table, outcomes, attempt=self.attempt("complete"), connect=self.connect)

    def all(self) -> CompletedSnapshot:
        return self.complete([self.read(planned) for planned in self.plan()])

    def bronze_version(self) -> int:
        return DeltaTable(self.table.bronze).version()
