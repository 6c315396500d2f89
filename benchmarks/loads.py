"""The product's own work on ``dbo.orders``: by its jobs, or without CDC by what the jobs are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.lake.bronze import open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.commit import commit_snapshot
from airflow_provider_mssql_cdc.lake.staging import stage_range
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, PlanId, PlannedRange, ReadHorizon, StagedRange
from airflow_provider_mssql_cdc.model.source_table import LakeColumn, SnapshotHeader
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from airflow_provider_mssql_cdc.tsql.statement import Statement, with_literals
from benchmarks.servers import Server
from benchmarks.tables import ORDERS
from tests.contract.tables import Made, described

Lake = tuple[LakeColumn, ...]

STAMP = Lsn(1 << 40)
"""S where no server gives one."""


def first_rows(rows: int) -> KeyRange:
    """The range of the ids below ``rows``."""
    return KeyRange(None, (str(rows),))


@dataclass
class Load:
    """One load of ``dbo.orders`` into a bronze table below ``folder``.

    :param folder: a new one for each load.
    :param driver: None takes the product's own choice.
    """

    server: Server
    folder: Path
    driver: str | None = None
    _tries: itertools.count[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    @property
    def table(self) -> MssqlCdcTable:
        return MssqlCdcTable(
            "bench", f"dbo_{ORDERS}", str(self.folder / "bronze"), str(self.folder / "facts")
        )

    def attempt(self, task: str) -> Attempt:
        return Attempt("bench", "run", task, try_number=next(self._tries))

    def connect(self) -> SourceSession:
        return self.server.session(self.driver)

    def planned(self, *, ranges: int = 1) -> list[PlannedRange]:
        """The plan; makes bronze. On a server without CDC a plan of whole ranges, by hand."""
        if self.server.no_cdc is None:
            request = PlanRequest(
                self.table, self.attempt("plan"), max_ranges=ranges, rows_per_range=1, wait_seconds=0
            )
            return plan_snapshot(request, connect=self.connect)
        with self.connect() as session:
            open_or_create(TableLocation.bronze_of(self.table), _identity(_orders(session)), _lake(session))
        plan = PlanId.new(STAMP, Attempt("bench", "run", "plan").run)
        return [PlannedRange(plan, index, ranges) for index in range(ranges)]

    def read(self, planned: PlannedRange, key_range: KeyRange | None = None) -> StagedRange:
        """What a mapped task does: read and stage; ``key_range`` in place of the planned one."""
        item = planned if key_range is None else replace(planned, key_range=key_range)
        if self.server.no_cdc is None:
            return read_range(self.table, item, attempt=self.attempt("read"), connect=self.connect)
        with self.connect() as session:
            return self.stage(item, _batches(session, item.key_range), columns=_lake(session))

    def stage(
        self, planned: PlannedRange, batches: Iterable[pa.RecordBatch], *, columns: Lake
    ) -> StagedRange:
        """Stage rows that come from elsewhere than a read."""
        files = stage_range(
            open_existing(TableLocation.bronze_of(self.table)),
            self.header(SourceIdentity("bench", "", "", ""), columns, snapshot=planned.snapshot),
            planned,
            batches,
            attempt=self.attempt("read").label,
        )
        return StagedRange(
            planned.plan,
            planned.index,
            planned.count,
            rows=sum(file.rows for file in files),
            files=files,
            horizon=ReadHorizon(planned.snapshot, datetime.now(UTC)),
        )

    def complete(self, outcomes: list[StagedRange]) -> int:
        """The one commit; rows in it."""
        if self.server.no_cdc is None:
            attempt = self.attempt("complete")
            return complete_snapshot(self.table, outcomes, attempt=attempt, connect=self.connect).rows
        with self.connect() as session:
            identity, columns = _identity(_orders(session)), _lake(session)
        files = [file for outcome in outcomes for file in outcome.files]
        return commit_snapshot(
            TableLocation.bronze_of(self.table), self.header(identity, columns), files
        ).rows

    def header(self, identity: SourceIdentity, columns: Lake, *, snapshot: Lsn = STAMP) -> SnapshotHeader:
        attempt = self.attempt("complete")
        instance = self.table.capture_instance
        return SnapshotHeader(identity, instance, snapshot, None, tuple(columns), attempt.run, attempt.run_id)

    def statement(self, rows: int) -> str:
        """What a mapped task sends for the rows with the smallest ids; values are written into it."""
        with self.connect() as session:
            return with_literals(_select(session, first_rows(rows)))

    def sample(self, rows: int) -> tuple[list[pa.RecordBatch], Lake]:
        """The rows with the smallest ids as the product reads them, and the columns they have."""
        with self.connect() as session:
            return list(_batches(session, first_rows(rows))), _lake(session)


def _orders(session: SourceSession) -> Made:
    return described(session, "dbo", ORDERS)


def _lake(session: SourceSession) -> Lake:
    return tuple(column.lake for column in plan_columns(_orders(session).columns, {}).columns)


def _select(session: SourceSession, key_range: KeyRange) -> Statement:
    orders = _orders(session)
    columns = plan_columns(orders.columns, {}).columns
    return select_range(orders.table, columns, split_by=(orders.column("id"),), key_range=key_range)


def _batches(session: SourceSession, key_range: KeyRange) -> Iterator[pa.RecordBatch]:
    return session.read(_select(session, key_range), captured_schema(_lake(session)))


def _identity(orders: Made) -> SourceIdentity:
    return SourceIdentity("bench", orders.table.database, orders.table.schema, orders.table.name)
