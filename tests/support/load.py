"""The three jobs of a load without Airflow, so that a test stands between any two of their steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.listener import Replica
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone, ChangesRequest
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.model.plan import Attempt, PlannedRange, StagedRange
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
        login: str = "sa",
        conn_id: str = "erp",
        **arguments: Any,
    ) -> None:
        self.server, self.driver, self.login = server, driver, login
        self.password: str | None = None  # None: the login's own
        self.port: int | None = None  # None: the server's
        self.table = MssqlCdcTable(
            conn_id, instance, str(folder / "bronze"), str(folder / "facts"), **arguments
        )
        self.run_id = run_id
        self.try_number = 1

    def connect(self, listener: EmbeddedSqlServer | Replica | None = None) -> SourceSession:
        port = self.port or (listener or self.server).port
        return SourceSession(
            ConnectionSettings(
                self.table.mssql_conn_id,
                "127.0.0.1",
                port=port,
                database=self.server.database,
                login=self.login,
                password=self.password or self.server.password_of(self.login),
                encryption="off",
                driver=self.driver,
            ),
            isolation=self.table.isolation,
        )

    def attempt(self, task: str) -> Attempt:
        return Attempt("load", self.run_id, task, try_number=self.try_number)

    def plan(
        self,
        *,
        rows_per_range: int = 100,
        max_ranges: int = 100,
        resnapshot: bool = False,
        wait_seconds: float = 0,
    ) -> list[PlannedRange]:
        request = PlanRequest(
            self.table,
            self.attempt("plan"),
            max_ranges=max_ranges,
            rows_per_range=rows_per_range,
            resnapshot=resnapshot,
            wait_seconds=wait_seconds,
        )
        return plan_snapshot(request, connect=self.connect)

    def read(
        self,
        planned: PlannedRange,
        *,
        listener: EmbeddedSqlServer | Replica | None = None,
        verify_counts: bool = False,
    ) -> StagedRange:
        """One range, whose plan went through XCom as JSON."""
        return read_range(
            self.table,
            PlannedRange.from_xcom(json.loads(json.dumps(planned.to_xcom()))),
            attempt=self.attempt("read"),
            connect=lambda: self.connect(listener),
            verify_counts=verify_counts,
        )

    def complete(self, outcomes: list[StagedRange]) -> CompletedSnapshot:
        """All ranges, whose outcomes went through XCom as JSON."""
        through_xcom = [StagedRange.from_xcom(json.loads(json.dumps(one.to_xcom()))) for one in outcomes]
        return complete_snapshot(
            self.table, through_xcom, attempt=self.attempt("complete"), connect=self.connect
        )

    def all(self, **asked: Any) -> CompletedSnapshot:
        """Plan, as asked, then read and complete."""
        return self.complete([self.read(planned) for planned in self.plan(**asked)])

    def changes(self) -> ChangesDone:
        """What CDC has recorded since."""
        request = ChangesRequest(self.table, self.attempt("changes"), quiet_seconds=0)
        done = run_changes(request, connect=self.connect)
        assert isinstance(done, ChangesDone), done
        return done

    def bronze_version(self) -> int:
        return DeltaTable(self.table.bronze).version()
