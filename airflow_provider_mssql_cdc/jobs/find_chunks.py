"""Finding the bounds of a chunked snapshot and storing them as they are found."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.jobs.steps import OnStep
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.plans import PlanMoved, add_bounds, begin_plan, finish_plan, read_plan
from airflow_provider_mssql_cdc.model.chunk_plan import PlanStart, StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.waves import Stopped
from airflow_provider_mssql_cdc.planning.chunks import begin_chunks, find_bounds
from airflow_provider_mssql_cdc.planning.seeks import drive
from airflow_provider_mssql_cdc.planning.waves import chunks_per_wave as wave_size
from airflow_provider_mssql_cdc.source.watermarks import commit_time
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql.statement import Statement

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)

STORE_SECONDS, STORE_BOUNDS = 15.0, 1000
"""Bounds are stored when this much time has passed, or this many have been found, since the last time."""


class _TimeIsUp(Exception):
    """The run's ``max_seconds`` have passed; what was found is stored."""


class ChunkPlanner:
    """Plans one table on one session; what it has found is in the plans table, not in this object."""

    def __init__(
        self,
        session: SourceSession,
        source: LoadableTable,
        table: MssqlCdcTable,
        *,
        on_step: OnStep,
        stop_after: datetime | None,
    ) -> None:
        self._session, self._source, self._table = session, source, table
        self._on_step, self._stop_after = on_step, stop_after
        self._location = TableLocation.plans_of(table)
        self._waiting: list[Bound] = []
        self._stored_at = time.monotonic()

    def finished_plan(
        self, snapshot: Lsn, *, chunk_rows: int, max_waves: int, chunks_per_wave: int | None
    ) -> StoredPlan | Stopped:
        """The plan of S as it is stored; what is missing of it is found first.

        :raises ConfigurationError: it was begun on other columns than the table is cut on now.
        """
        plan = read_plan(self._location, snapshot)
        if plan is None:
            plan = self._begun(snapshot, chunk_rows=chunk_rows)
        self._check(plan, chunk_rows=chunk_rows)
        while not plan.is_finished:
            try:
                plan = self._all_bounds(plan)
                each = wave_size(plan.chunks, max_waves=max_waves, asked=chunks_per_wave)
                plan = finish_plan(self._location, plan, chunks_per_wave=each)
            except PlanMoved as exc:
                log.info("%s: %s", self._table.label, exc)
                plan = self._stored(snapshot)
            except _TimeIsUp:
                plan = self._stored(snapshot)
                return Stopped(
                    f"{self._table.label}: max_seconds have passed with {plan.chunks} chunk(s) of snapshot "
                    f"{snapshot} planned; the next run goes on from there"
                )
        return plan

    def _begun(self, snapshot: Lsn, *, chunk_rows: int) -> StoredPlan:
        source, session = self._source, self._session
        steps = begin_chunks(
            source.description.table,
            source.keys,
            snapshot=snapshot,
            chunk_rows=chunk_rows,
            split=source.split_hash,
            commit_ts=commit_time(session, snapshot),
        )
        start = drive(steps, self._run)
        assert isinstance(start, PlanStart)
        plan = begin_plan(self._location, source.identity, start)
        self._on_step("plan begun")
        return plan

    def _check(self, plan: StoredPlan, *, chunk_rows: int) -> None:
        if plan.start.split != self._source.split_hash:
            names = ", ".join(column.name for column in self._source.split_columns)
            raise ConfigurationError(
                f"{self._table.label}: the stored plan of snapshot {plan.snapshot} was cut on other columns "
                f"than the table is cut on now ({names}): name those in split_by again, or abandon the "
                "snapshot and open another one"
            )
        if plan.start.chunk_rows != chunk_rows:
            log.warning(
                "%s: the stored plan of snapshot %s has chunks of %d rows; chunk_rows=%d is not used",
                *(self._table.label, plan.snapshot, plan.start.chunk_rows, chunk_rows),
            )

    def _all_bounds(self, plan: StoredPlan) -> StoredPlan:
        """Find on from the last stored bound; stored in between, before a statement that may take long.

        :raises PlanMoved: another planner has stored bounds meanwhile.
        """
        self._waiting, self._stored_at = [], time.monotonic()

        def run(statement: Statement) -> list[dict[str, Any]]:
            nonlocal plan
            out_of_time = self._stop_after is not None and datetime.now(UTC) >= self._stop_after
            due = len(self._waiting) >= STORE_BOUNDS or time.monotonic() - self._stored_at >= STORE_SECONDS
            if self._waiting and (due or out_of_time):
                plan = self._store(plan)
            if out_of_time:
                raise _TimeIsUp
            return self._run(statement)

        steps = find_bounds(
            self._source.description.table, self._source.split_columns, plan, found=self._waiting.append
        )
        drive(steps, run)
        return self._store(plan) if self._waiting else plan

    def _store(self, plan: StoredPlan) -> StoredPlan:
        longer = add_bounds(self._location, plan, self._waiting)
        self._waiting.clear()
        self._stored_at = time.monotonic()
        log.info("%s: %d chunk(s) planned so far", self._table.label, longer.chunks)
        self._on_step("bounds stored")
        return longer

    def _run(self, statement: Statement) -> list[dict[str, Any]]:
        with self._session.transaction():
            return self._session.rows(statement, doing=f"planning chunks of {self._table.label}")

    def _stored(self, snapshot: Lsn) -> StoredPlan:
        plan = read_plan(self._location, snapshot)
        assert plan is not None, "a plan that was begun is never removed"
        return plan
