"""``plan`` of a chunked snapshot: open S once, find the bounds, return the missing waves."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.facts import (
    chunk_plan_row,
    opening_row,
    reader_columns,
    write_missing_chunk_facts,
    write_snapshot_facts,
)
from airflow_provider_mssql_cdc.jobs.guards import headroom_hours, refuse_lost_changes
from airflow_provider_mssql_cdc.jobs.plan_snapshot import bronze_for_snapshot, record_snapshot
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, loadable_table
from airflow_provider_mssql_cdc.jobs.task import OnStep, Skipped, unwatched
from airflow_provider_mssql_cdc.lake.bronze import Bronze, problems_with
from airflow_provider_mssql_cdc.lake.chunked import Opened, landed_waves, open_snapshot
from airflow_provider_mssql_cdc.lake.plans import PlanMoved, add_bounds, begin_plan, finish_plan, read_plan
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, PlanStart, StopEarly, StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.planning.chunks import begin_chunks, find_bounds
from airflow_provider_mssql_cdc.planning.coverage import is_other_object, is_proven_gap
from airflow_provider_mssql_cdc.planning.ranges import drive
from airflow_provider_mssql_cdc.planning.snapshots import (
    AlreadyStored,
    OpenNew,
    ResumeLoad,
    decide_run,
    missing_waves,
)
from airflow_provider_mssql_cdc.planning.snapshots import chunks_per_wave as wave_size
from airflow_provider_mssql_cdc.source.measure import check_key
from airflow_provider_mssql_cdc.source.watermarks import commit_time, low
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql.statement import Statement

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession


log = logging.getLogger(__name__)

STORE_SECONDS, STORE_BOUNDS = 15.0, 1000
"""Bounds are stored after this much time, or this many new bounds, so that a retry continues from them."""


class _TimeIsUp(Exception):
    """The run's ``max_seconds`` have passed; bounds found so far are stored."""


class ChunkPlanner:
    """Plan one table on one session; progress is stored in the plans table, not in this object."""

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
    ) -> StoredPlan | Skipped:
        """Return the complete stored plan of S; find and store missing bounds first.

        :raises ConfigurationError: the plan was begun on other split columns.
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
                return Skipped(
                    f"{self._table.label}: max_seconds have passed with {plan.chunks} chunk(s) of snapshot "
                    f"{snapshot} planned; the next run continues from there"
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
        """Find the remaining bounds; store them regularly, and before statements that may be slow.

        :raises PlanMoved: another planner stored bounds concurrently.
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


@dataclass(frozen=True, slots=True)
class ChunkedRequest:
    """Parameters of ``plan``. They do not change a plan that is already stored.

    :param chunk_rows: target rows per chunk.
    :param max_waves: maximum waves that one run maps; Airflow's own limit applies too.
    :param chunks_per_wave: None to let the package choose.
    :param wait_seconds: how long opening waits for capture to pass every S that bronze knows.
    :param max_seconds: time from now after which this run starts no further wave.
    :param min_headroom_hours: start no wave below this headroom.
    """

    table: MssqlCdcTable
    attempt: Attempt
    chunk_rows: int = 1_000_000
    max_waves: int = 256
    chunks_per_wave: int | None = None
    resnapshot: bool = False
    wait_seconds: float = 600
    max_seconds: float | None = None
    min_headroom_hours: float | None = None


def plan_chunks(
    request: ChunkedRequest, *, connect: Connect, on_step: OnStep = unwatched
) -> list[PlannedWave] | Skipped:
    """Return the waves that bronze lacks, at most ``max_waves``; one no-op wave when none is missing.

    :raises PreflightFailed: lists every problem; nothing has been written.
    :raises UnsupportedKey: the user's key has fewer values than rows; nothing has been opened.
    :raises RetentionGap: changes above the position have been purged, so the snapshot cannot be continued.
    :raises NotReadyYet: a new S would not be above those that bronze knows.
    """
    table, started_at = request.table, datetime.now(UTC)
    stop = _stop_early(request, started_at)
    with connect() as session:
        location = TableLocation.bronze_of(table)
        source = loadable_table(session, table, also=partial(problems_with, location))
        bronze = bronze_for_snapshot(session, location, source, resnapshot=request.resnapshot)
        work = _open_or_go_on(session, source, bronze, request=request, started_at=started_at)
        if isinstance(work, AlreadyStored):
            log.info("%s: bronze holds snapshot %s; nothing is read", table.label, work.snapshot)
            return [PlannedWave(work.snapshot, 0, 1, done=True)]
        on_step("opened")
        instance = source.description.instance
        refuse_lost_changes(session, instance, state=bronze.state, label=table.label)
        if reason := too_little_headroom(session, source, bronze, stop=stop):
            return Skipped(f"{table.label}: {reason}")
        planner = ChunkPlanner(session, source, table, on_step=on_step, stop_after=stop.after)
        plan = planner.finished_plan(
            work.snapshot,
            chunk_rows=request.chunk_rows,
            max_waves=request.max_waves,
            chunks_per_wave=request.chunks_per_wave,
        )
        if isinstance(plan, Skipped):
            return plan
        on_step("planned")
        row = chunk_plan_row(bronze, plan, **reader_columns(session, instance))
        write_snapshot_facts(table, row, attempt=request.attempt, started_at=started_at)
    waves = _waves_to_read(bronze.reload(), plan, request=request, stop=stop)
    if stop.after is not None and datetime.now(UTC) >= stop.after:
        return Skipped(f"{table.label}: max_seconds have passed; the next run continues ({len(waves)} waves)")
    return waves


def too_little_headroom(
    session: SourceSession, source: LoadableTable, bronze: Bronze, *, stop: StopEarly
) -> str | None:
    """Return why no wave is started now; None when the changes in bronze are far from being purged."""
    coverage = bronze.state.coverage
    if stop.min_headroom_hours is None or coverage is None:
        return None
    hours = headroom_hours(session, source.description.instance, position=coverage.changes)
    if hours is None or hours >= stop.min_headroom_hours:
        return None
    return (
        f"the changes in bronze end {hours:.1f} hours above what CDC still keeps, and this load wants "
        f"{stop.min_headroom_hours:g} hours of headroom, so it begins no further wave: let the changes "
        "operator catch up; the next run continues"
    )


def _stop_early(request: ChunkedRequest, started_at: datetime) -> StopEarly:
    seconds = request.max_seconds
    after = None if seconds is None else started_at + timedelta(seconds=seconds)
    return StopEarly(after, request.min_headroom_hours)


def _open_or_go_on(
    session: SourceSession,
    source: LoadableTable,
    bronze: Bronze,
    *,
    request: ChunkedRequest,
    started_at: datetime,
) -> Opened | ResumeLoad | AlreadyStored:
    run = request.attempt.run
    decision = decide_run(
        bronze.state,
        resnapshot=request.resnapshot,
        snapshot_of_run=bronze.snapshot_of_run(run),
        other_object=is_other_object(bronze.state, source.identity),
    )
    if not isinstance(decision, OpenNew):
        return decision
    for note in source.notes:
        log.info("%s: %s", request.table.label, note)
    if source.keys.key_to_check and source.keys.key is not None:  # before anything is opened for it
        with session.transaction():
            check_key(session, source.description.table, source.keys.key)
    snapshot = record_snapshot(
        session, source, bronze=bronze, wait_seconds=request.wait_seconds, label=request.table.label
    )
    opened = _open(session, source, bronze, request=request, snapshot=snapshot)
    if isinstance(opened, Opened):
        known = {"capture_instance": source.description.instance.name, "driver": session.driver}
        row = opening_row(bronze, snapshot, end_commit_ts=commit_time(session, snapshot), **known)
        write_snapshot_facts(request.table, row, attempt=request.attempt, started_at=started_at)
    return opened


def _open(
    session: SourceSession,
    source: LoadableTable,
    bronze: Bronze,
    *,
    request: ChunkedRequest,
    snapshot: Lsn,
) -> Opened | ResumeLoad | AlreadyStored:
    instance, coverage = source.description.instance, bronze.state.coverage
    gap = is_proven_gap(coverage, low(session, instance))
    opened = open_snapshot(
        bronze,
        source.header(snapshot, commit_time(session, snapshot), attempt=request.attempt),
        resnapshot=request.resnapshot,
        gap_position=coverage.changes if coverage is not None and gap else None,
    )
    if isinstance(opened, Opened):
        log.info(
            "%s: chunked snapshot %s is open%s; changes can be read from there on",
            *(request.table.label, snapshot),
            ", coverage of changes restarts there" if opened.rebased else "",
        )
    return opened


def _waves_to_read(
    bronze: Bronze, plan: StoredPlan, *, request: ChunkedRequest, stop: StopEarly
) -> list[PlannedWave]:
    landed = landed_waves(bronze.table, plan.snapshot, plan.waves)
    write_missing_chunk_facts(request.table, bronze, plan, landed.values(), attempt=request.attempt)
    missing = missing_waves(plan.waves, landed)
    mapped = missing[: request.max_waves] or [plan.waves - 1]
    log.info(
        "%s: snapshot %s, %d chunk(s) in %d wave(s) by %s: %s; bronze holds %d wave(s), this run reads %d",
        *(request.table.label, plan.snapshot, plan.chunks, plan.waves, plan.start.method),
        *(plan.start.reason, len(landed), min(len(missing), len(mapped))),
    )
    more = len(missing) > len(mapped)
    return [PlannedWave(plan.snapshot, wave, plan.waves, more=more, stop=stop) for wave in mapped]
