"""One source table on the embedded server and its bronze: load it, change it, read changes, rebuild it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone, ChangesRequest
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.planning.windows import DataInterval
from tests.support.delta_rows import delta_rows
from tests.support.rebuild import rebuild

CHANGE_ROWS = r"FROM \[cdc\].*ROWCOUNT_BIG"
"""The statement that reads a window's rows, and not the one that asks whether there are any."""
CDC_COLUMNS = ("_start_lsn", "_command_id", "_seqval", "_operation")


class ChangesWorld:
    """``dbo.orders`` (or another name) with CDC on, a connection by one driver, and a lake in a folder.

    :param columns: of the table, as DDL; ``id`` is the key.
    """

    def __init__(
        self,
        server: EmbeddedSqlServer,
        folder: Path,
        *,
        driver: str = "mssql-python",
        name: str = "orders",
        columns: str = "name nvarchar(40) NULL, amount decimal(18, 4) NULL",
        conn_id: str = "erp",
    ) -> None:
        self.server, self.name, self.conn_id = server, name, conn_id
        server.execute(f"CREATE TABLE dbo.{name} (id bigint NOT NULL PRIMARY KEY, {columns})")
        self.connection = server.airflow_connection(extra={"mssql_cdc": {"driver": driver}})
        self.table = MssqlCdcTable(
            mssql_conn_id=conn_id,
            capture_instance=f"dbo_{name}",
            bronze=str(folder / "bronze" / name),
            facts=str(folder / "facts"),
        )

    # -- the source

    def insert(self, *ids: int) -> None:
        """Each in a separate commit."""
        for number in ids:
            self.execute(f"INSERT INTO dbo.{self.name} (id, name) VALUES (?, ?)", number, f"row {number}")

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.server.execute(sql, *parameters)

    def source(self, *columns: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        names = columns or ("id", "name", "amount")
        rows = self.execute(f"SELECT {', '.join(names)} FROM dbo.{self.name}")
        return {(row[0],): dict(zip(names, row, strict=True)) for row in rows}

    # -- the jobs

    def session(self) -> Any:
        return MssqlCdcHook(self.conn_id).session()

    def attempt(self, task_id: str, run_id: str = "run", *, try_number: int = 1) -> Attempt:
        return Attempt("dag", run_id, task_id, try_number=try_number)

    def bootstrap(
        self, *, resnapshot: bool = False, run_id: str = "run", ranges: int = 3
    ) -> CompletedSnapshot:
        request = PlanRequest(
            self.table,
            self.attempt("plan", run_id),
            max_ranges=ranges,
            rows_per_range=10,
            resnapshot=resnapshot,
            wait_seconds=0,
        )
        planned = plan_snapshot(request, connect=self.session)
        outcomes = [
            read_range(self.table, item, attempt=self.attempt("read", run_id), connect=self.session)
            for item in planned
        ]
        return complete_snapshot(
            self.table, outcomes, attempt=self.attempt("complete", run_id), connect=self.session
        )

    def run(self, **asked: Any) -> ChangesDone | Skipped | Waiting:
        """One run of changes; keywords are those of ChangesRequest."""
        given: dict[str, Any] = {"table": self.table, "attempt": self.attempt("changes"), **asked}
        return run_changes(ChangesRequest(**given), connect=self.session)

    def changes(self, **asked: Any) -> ChangesDone:
        done = self.run(**asked)
        assert isinstance(done, ChangesDone), done
        return done

    def interval(self, start: datetime, end: datetime, **asked: Any) -> ChangesDone | Skipped | Waiting:
        return self.run(interval=DataInterval(start, end), to_interval_end=True, **asked)

    # -- the lake

    @property
    def state(self) -> BronzeState:
        return open_existing(TableLocation.bronze_of(self.table)).state

    def position(self) -> str:
        coverage = self.state.coverage
        assert coverage is not None
        return coverage.changes.text

    def bronze(self, where: str = "true") -> list[dict[str, Any]]:
        return delta_rows(self.table.bronze, where)

    def change_rows(self) -> Counter[tuple[Any, ...]]:
        """Bronze's change rows by what CDC says of them, with their number."""
        return Counter(tuple(row[name] for name in CDC_COLUMNS) for row in self.bronze("_operation > 0"))

    def recorded_rows(self, instance: str | None = None) -> Counter[tuple[Any, ...]]:
        """The change table's rows within coverage."""
        coverage = self.state.coverage
        assert coverage is not None
        rows = self.execute(
            "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id], "
            "CONVERT(varchar(22), [__$seqval], 1), [__$operation] "
            f"FROM cdc.[{instance or f'dbo_{self.name}'}_CT]"
        )
        return Counter(row for row in rows if coverage.base.text < row[0] <= coverage.changes.text)

    def rebuilt(self) -> dict[tuple[Any, ...], Mapping[str, Any]]:
        """The source by the rule, from bronze alone, as of its position."""
        rows = self.bronze()
        snapshot = self.state.snapshot
        assert snapshot is not None
        changes = [row for row in rows if row["_operation"] > 0]
        return rebuild(rows, changes, key=("id",), snapshot=snapshot.text, end=self.position())

    def facts(self, event: str) -> list[dict[str, Any]]:
        return delta_rows(self.table.facts, f"event = '{event}'")

    # -- the clock

    def tick(self, seconds: float = 2) -> datetime:
        """Let time pass on the server and let capture write an idle entry; the server's time."""
        self.server.clock.shift(timedelta(seconds=seconds))
        self.server.idle()
        return self.server.clock.utc().astimezone(UTC)


def some_text(rng: random.Random) -> str | None:
    return rng.choice([None, "", "a", "A ", "Ünïcode 🌺", "x" * 40])
