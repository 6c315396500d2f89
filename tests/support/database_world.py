"""The jobs of a whole database without Airflow: one run after the other, everything through JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc import MssqlCdcDatabase
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.each_table import Worker
from airflow_provider_mssql_cdc.jobs.packs import complete_tables, follow_tables, read_item
from airflow_provider_mssql_cdc.jobs.plan_database import plan_database
from airflow_provider_mssql_cdc.jobs.plan_loads import DatabaseRequest
from airflow_provider_mssql_cdc.model.database_items import DatabasePlan, ReadItem, TableRef, ToComplete
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.planning.report import RunReport, report_of
from airflow_provider_mssql_cdc.source.kept import TaskSessions
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings, DriverName
from tests.support.delta_rows import delta_rows

Result = Mapping[str, Any]


class DatabaseWorld:
    """A server, a lake in a folder, and runs of the pipeline's tasks."""

    def __init__(
        self,
        server: EmbeddedSqlServer,
        folder: Path,
        *,
        driver: DriverName | None = None,
        login: str = "sa",
        tables_at_once: int = 1,
        **arguments: Any,
    ) -> None:
        self.server, self.folder, self.driver, self.login = server, folder, driver, login
        self.tables_at_once = tables_at_once
        given: dict[str, Any] = {
            "mssql_conn_id": "erp",
            "include": ("*.*",),
            "bronze": f"{folder}/bronze/{{schema}}/{{table}}",
            "silver": f"{folder}/silver/{{schema}}/{{table}}",
            "facts": f"{folder}/ops/facts",
            "tables": {"*.*": {"quiet_seconds": 0, "wait_seconds": 0}},
            **arguments,
        }
        self.database = MssqlCdcDatabase(**given)
        self.run_id = 0
        self.port: int | None = None  # None: the server's
        self.sessions = 0
        self._of_tasks: list[TaskSessions] = []
        self.results: dict[tuple[str, int], Result] = {}

    def session(self, isolation: str | None) -> SourceSession:
        self.sessions += 1
        return SourceSession(
            ConnectionSettings(
                "erp",
                "127.0.0.1",
                port=self.port or self.server.port,
                database=self.server.database,
                login=self.login,
                password=self.server.password_of(self.login),
                encryption="off",
                driver=self.driver,
            ),
            isolation=isolation,
        )

    def worker(self, task: str, number: int = -1, try_number: int = 1) -> Worker:
        """What one try of one task has, its sessions its own."""
        attempt = Attempt("erp", f"run_{self.run_id}", task, number, try_number)
        sessions = TaskSessions(self.session)
        self._of_tasks.append(sessions)
        return Worker(self.database, attempt, sessions, lambda table: table, self.tables_at_once)

    def close(self) -> None:
        """End the sessions of all tasks so far, as each task does at its end."""
        while self._of_tasks:
            self._of_tasks.pop().close()

    def plan(
        self,
        *,
        max_tasks: int = 64,
        max_waves: int = 16,
        parts: tuple[str, ...] = ("load", "follow"),
        resnapshot: tuple[str, ...] = (),
        again: bool = False,
    ) -> DatabasePlan:
        """A new run's plan, or the same run's ``again``."""
        self.run_id += 0 if again else 1
        return plan_database(
            DatabaseRequest(self.worker("plan"), parts, max_tasks, max_waves, 2, 2, resnapshot)
        )

    def read(self, item: ReadItem, *, try_number: int = 1) -> Result:
        outcome = read_item(
            self.worker("read", item.number, try_number), ReadItem.from_xcom(_through_xcom(item.to_xcom()))
        )
        return self._kept("read", item.number, outcome.to_xcom(plan=item.plan, item=item.number))

    def complete(self, plan: DatabasePlan, slot: int, *, try_number: int = 1) -> Result:
        given = _through_xcom(list(plan.complete_slots())[slot])
        tables = [ToComplete.from_xcom(one) for one in given["tables"]]
        read = {number: result for (task, number), result in self.results.items() if task == "read"}
        outcome = complete_tables(self.worker("complete", slot, try_number), tables, read)
        return self._kept("complete", slot, outcome.to_xcom(plan=plan.plan, item=slot))

    def follow(self, plan: DatabasePlan, slot: int, *, try_number: int = 1) -> Result:
        given = _through_xcom(list(plan.follow_slots())[slot])
        tables = [TableRef.from_xcom(one) for one in given["tables"]]
        outcome = follow_tables(self.worker("follow", slot, try_number), tables)
        return self._kept("follow", slot, outcome.to_xcom(plan=plan.plan, item=slot))

    def run(self, **asked: Any) -> RunReport:
        """All tasks of one run, each once."""
        plan = self.plan(**asked)
        self.results.clear()
        for item in plan.read:
            self.read(item)
        for slot in range(len(plan.complete)):
            self.complete(plan, slot)
        for slot in range(len(plan.follow)):
            self.follow(plan, slot)
        return self.report(plan)

    def report(self, plan: DatabasePlan) -> RunReport:
        expected = {("read", item.number): item.names for item in plan.read}
        completed = [[one.table.name for one in slot] for slot in plan.complete]
        expected |= {("complete", number): names for number, names in enumerate(completed)}
        expected |= {("follow", n): [one.name for one in slot] for n, slot in enumerate(plan.follow)}
        return report_of("shop", _through_xcom(plan.summary()), expected, self.results)

    def _kept(self, task: str, number: int, result: dict[str, Any]) -> Result:
        self.results[task, number] = _through_xcom(result)
        return self.results[task, number]

    def silver_of(self, name: str, columns: str = "id, name") -> list[tuple[Any, ...]]:
        silver = self.database.table_of(name).silver
        assert silver is not None
        return sorted(tuple(row.values()) for row in delta_rows(silver, columns=columns))

    def differs(self, name: str, columns: str = "id, name") -> bool:
        """Whether silver is not the source, row by row."""
        rows = self.server.execute(f"SELECT {columns} FROM {name}")
        return self.silver_of(name, columns) != sorted(tuple(row) for row in rows)


def create_table(
    server: EmbeddedSqlServer, name: str, *, rows: int = 5, key: str = "PRIMARY KEY", tracked: bool = True
) -> None:
    """``id, name``, filled, then tracked."""
    server.execute(f"CREATE TABLE {name} (id int NOT NULL {key}, name nvarchar(40) NULL)")
    server.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(n, f"row {n}") for n in range(rows)])
    if tracked:
        server.enable_cdc(name)


def _through_xcom(value: Any) -> Any:
    return json.loads(json.dumps(value))
