"""``plan``: preflight, then S, then the key's ends, then the ranges. The guarantee depends on this order."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.jobs.facts import keys_of, reader_columns, snapshot_row, write_snapshot_facts
from airflow_provider_mssql_cdc.jobs.guards import refuse_other_history
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, decide_columns, loadable_table
from airflow_provider_mssql_cdc.lake.bronze import (
    Bronze,
    add_columns,
    open_bronze,
    open_or_create,
    problems_with,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, PlanId, PlannedRange
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.coverage import CAPTURE_MOVES, is_other_object
from airflow_provider_mssql_cdc.source.measure import cut_ranges
from airflow_provider_mssql_cdc.source.watermarks import now
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.planning.ranges import RangePlan
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


def bronze_for_snapshot(
    session: SourceSession, location: TableLocation, source: LoadableTable, *, resnapshot: bool
) -> Bronze:
    """Open or create the source table's bronze with every planned column.

    A resnapshot provides a value for every row, so it may add columns that the source gained, with NULL in
    the existing rows: asking for it is the user's decision. Any other snapshot fails on new columns.

    :raises ForeignTable: bronze belongs to another source table; or, unless this is a resnapshot, it was
        loaded from another table of this name.
    :raises SchemaDrift: a column is missing or has another type, or the capture instance does not record a
        column that has values in the source.
    :raises StateDamaged: its content was read from another history than the server's.
    """
    bronze = open_bronze(location)
    if bronze is not None:
        bronze.check_identity(source.identity)
        if not resnapshot:
            bronze.check_object(source.identity)
        label = source.description.table.label
        refuse_other_history(session, source.description.instance, bronze=bronze, label=label)
    decision = decide_columns(bronze, source)
    if resnapshot and bronze is not None and decision.add:
        add_columns(bronze, decision.add)
    return open_or_create(location, source.identity, source.lake_columns)


_POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Parameters of ``plan``.

    :param max_ranges: maximum number of ranges; Airflow's own limit applies too.
    :param wait_seconds: how long a resnapshot waits for capture to pass every S that bronze knows.
    :param max_seeks: maximum number of ranges found by seeks; None for no limit.
    """

    table: MssqlCdcTable
    attempt: Attempt
    max_ranges: int
    rows_per_range: int
    resnapshot: bool = False
    wait_seconds: float = 600
    max_seeks: int | None = None


def plan_snapshot(request: PlanRequest, *, connect: Connect) -> list[PlannedRange]:
    """Cut the table into ranges under one S, or return the snapshot that bronze already contains.

    :raises PreflightFailed: lists every problem; nothing has been written.
    :raises NotReadyYet: a resnapshot's S would not be above the stored one.
    :raises TooManySeeks: the key needs more than ``max_seeks`` seeks.
    """
    table, started_at = request.table, datetime.now(UTC)
    with connect() as session:
        location = TableLocation.bronze_of(table)
        source = loadable_table(session, table, also=partial(problems_with, location))
        bronze = bronze_for_snapshot(session, location, source, resnapshot=request.resnapshot)
        stored = _stored_snapshot(bronze, request, source.identity)
        if stored is not None:
            log.info("%s: bronze holds snapshot %s; nothing is read", table.label, stored)
            plan = PlanId.new(stored, request.attempt.run)
            return [PlannedRange(plan, 0, 1, done=True, resnapshot=request.resnapshot)]
        for note in source.notes:
            log.info("%s: %s", table.label, note)
        snapshot = record_snapshot(
            session, source, bronze=bronze, wait_seconds=request.wait_seconds, label=table.label
        )
        with session.transaction():
            ranges = cut_ranges(
                session,
                source.description.table,
                source.keys,
                rows_per_range=request.rows_per_range,
                max_ranges=request.max_ranges,
                max_seeks=request.max_seeks,
            )
        facts = _plan_row(bronze, snapshot, source=source, session=session, ranges=ranges)
    _log_plan(request, snapshot, ranges)
    write_snapshot_facts(table, facts, attempt=request.attempt, started_at=started_at)
    return _items(request, snapshot, source=source, ranges=ranges)


def _stored_snapshot(bronze: Bronze, request: PlanRequest, identity: SourceIdentity) -> Lsn | None:
    """Return the snapshot to reuse: any, or for a resnapshot only one that this run took."""
    if request.resnapshot:
        other = is_other_object(bronze.state, identity)
        return None if other else bronze.snapshot_of_run(request.attempt.run)
    return bronze.state.snapshot


def record_snapshot(
    session: SourceSession, source: LoadableTable, *, bronze: Bronze, wait_seconds: float, label: str
) -> Lsn:
    """Record S before the first row is read; strictly above every S that bronze knows.

    S is also above every LSN whose rows another tool removed.

    :param wait_seconds: how long to wait for capture to pass those LSNs.
    :raises NotReadyYet: capture did not pass them in time.
    """
    deadline, told = time.monotonic() + wait_seconds, False
    while True:
        # On a quiet database max_lsn does not move, and two snapshots with one LSN could not be told apart
        # in bronze; so a resnapshot waits for capture to write its next entry (Microsoft Learn,
        # "cdc.lsn_time_mapping": entries are also logged without changes).
        snapshot = now(session, source.description.instance)
        newest = bronze.newest
        if newest is None or snapshot > newest:
            return snapshot
        if time.monotonic() >= deadline:
            raise NotReadyYet(
                f"{label}: capture is still at {snapshot}, bronze holds snapshot {newest}, and "
                f"a resnapshot needs a later LSN. {CAPTURE_MOVES}"
            )
        if not told:
            log.info(
                "%s: bronze holds snapshot %s; waiting up to %g s for capture to pass it",
                label,
                newest,
                wait_seconds,
            )
            told = True
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _items(
    request: PlanRequest, snapshot: Lsn, *, source: LoadableTable, ranges: RangePlan
) -> list[PlannedRange]:
    plan = PlanId.new(snapshot, request.attempt.run)
    return [
        PlannedRange(
            plan=plan,
            index=index,
            count=len(ranges.ranges),
            key_range=key_range,
            split=source.split_hash,
            resnapshot=request.resnapshot,
            source_object=source.identity.object_id,
        )
        for index, key_range in enumerate(ranges.ranges)
    ]


def _plan_row(
    bronze: Bronze, snapshot: Lsn, *, source: LoadableTable, session: SourceSession, ranges: RangePlan
) -> FactsRow:
    detail = {
        **keys_of(source),
        "ranges": len(ranges.ranges),
        "method": ranges.method,
        "reason": ranges.reason,
        "notes": list(source.notes),
    }
    read_by = reader_columns(session, source.description.instance)
    return snapshot_row(bronze, "snapshot_plan", snapshot, detail=detail, **read_by)


def _log_plan(request: PlanRequest, snapshot: Lsn, ranges: RangePlan) -> None:
    log.info(
        "%s: snapshot %s, %d range(s) by %s: %s",
        request.table.label,
        snapshot,
        len(ranges.ranges),
        ranges.method,
        ranges.reason,
    )
