"""Progress of capture, and of a table's load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.jobs.change_source import ChangeSource
from airflow_provider_mssql_cdc.jobs.guards import headroom_hours
from airflow_provider_mssql_cdc.jobs.source_table import loadable_table
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze
from airflow_provider_mssql_cdc.lake.chunked import landed_waves
from airflow_provider_mssql_cdc.lake.plans import read_plan
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import stored_snapshot
from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.model.chunks import Progress, StoredPlan
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.coverage import is_usable
from airflow_provider_mssql_cdc.planning.snapshots import WaveEnd, load_rate
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.instances import choose_instance, visible_instances
from airflow_provider_mssql_cdc.source.watermarks import (
    capture_trouble,
    commits_before,
    entry_past,
    how_far,
    now,
)
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession


@dataclass(frozen=True, slots=True)
class CaptureAnswer:
    """Result of one poll of capture.

    :param passed: the LSN by which capture has passed the target; None until then.
    :param reason: progress of capture, or what is wrong with it.
    """

    passed: Lsn | None
    reason: str


def look_at_capture(
    session: SourceSession,
    target: CaptureTarget,
    *,
    capture_instance: str,
    source: tuple[str, str] | None = None,
) -> CaptureAnswer:
    """Poll capture once, on one session.

    :raises SourceObjectMissing: the capture instance does not exist.
    :raises PermissionDenied: it is not visible to this login; names the GRANTs.
    """
    passed = _passed(session, target, capture_instance=capture_instance, source=source)
    if passed is not None:
        return CaptureAnswer(passed, f"capture has passed {target} at {passed}")
    return CaptureAnswer(None, f"capture has not passed {target}: {how_far(session)}")


def _passed(
    session: SourceSession, target: CaptureTarget, *, capture_instance: str, source: tuple[str, str] | None
) -> Lsn | None:
    if target.time is not None:
        return commits_before(session, target.time)[1]
    if target.horizon is not None:
        return entry_past(session, target.horizon)
    instance = choose_instance(visible_instances(session, source), capture_instance)
    if instance is None:
        instance = describe(session, capture_instance=capture_instance, source=source).instance
    reached = now(session, instance)
    assert target.lsn is not None
    return reached if reached >= target.lsn else None


def status(table: MssqlCdcTable, *, connect: Connect | None = None) -> Progress:
    """Return the state of a table's load; read-only.

    :param connect: to query the server for headroom, whether the changes still continue, and whether capture
        works.
    :raises ForeignTable: the server was queried and bronze belongs to another source table.
    """
    bronze = open_bronze(TableLocation.bronze_of(table))
    if bronze is None:
        return Progress(state="none", note="there is no bronze table yet: run mssql_cdc_bootstrap")
    coverage = bronze.state.coverage
    progress = replace(
        _of_bronze(table, bronze),
        complete_snapshot=bronze.state.snapshot,
        position=None if coverage is None else coverage.changes,
    )
    if connect is None or coverage is None:
        return progress
    with connect() as session:
        source = loadable_table(session, table)
        bronze.check_identity(source.identity)
        hours = headroom_hours(session, source.description.instance, position=coverage.changes)
        notes = [progress.note, _lost_changes(session, table, coverage.changes)]
        if trouble := capture_trouble(session):
            notes.append(trouble.sentence)
    return replace(progress, headroom_hours=hours, note="; ".join(filter(None, notes)) or None)


def _lost_changes(session: SourceSession, table: MssqlCdcTable, position: Lsn) -> str | None:
    """Return a sentence when no capture instance of the table continues from the position."""
    source = ChangeSource(session, table)
    configured = source.available()
    if any(available.continues(position) for available in (configured, *source.other_instances())):
        return None
    return (
        f"changes above {position} have been purged (the lowest one that is kept is at {configured.low}): "
        "the way on is a new snapshot, mssql_cdc_bootstrap(resnapshot=True)"
    )


def _of_bronze(table: MssqlCdcTable, bronze: Bronze) -> Progress:
    state = bronze.state
    if state.unfinished is None:
        return _of_complete(bronze)
    plan = read_plan(TableLocation.plans_of(table), state.unfinished)
    if plan is None or not plan.is_finished:
        chunks = 0 if plan is None else plan.chunks
        progress = Progress(state="planning", snapshot=state.unfinished, chunks=chunks)
    else:
        progress = progress_of(bronze, plan)
    if is_usable(state, state.unfinished):
        return progress
    note = f"snapshot {state.unfinished} was superseded: changes begin above it. Run resnapshot=True"
    return replace(progress, note=note)


def _of_complete(bronze: Bronze) -> Progress:
    state = bronze.state
    if state.snapshot is None:
        begun = "a load was abandoned" if state.abandoned else "no snapshot was begun"
        return Progress(state="none", note=f"{begun}: run mssql_cdc_bootstrap")
    rows = stored_snapshot(bronze, state.snapshot).rows
    note = None if is_usable(state, state.snapshot) else "changes begin above it: run resnapshot=True"
    return Progress(state="complete", snapshot=state.snapshot, rows=rows, note=note)


def progress_of(bronze: Bronze, plan: StoredPlan) -> Progress:
    """Return the progress of a finished plan's waves, as of this handle's version."""
    landed = landed_waves(bronze.table, plan.snapshot, plan.waves)
    chunks_done = sum(plan.chunk_count_of(wave) for wave in landed)
    rate = load_rate(
        [
            WaveEnd(one.horizon.time, one.rows, plan.chunk_count_of(one.wave))
            for one in landed.values()
            if one.horizon is not None
        ]
    )
    missing = plan.chunks - chunks_done
    return Progress(
        state="loading" if missing else "loaded",
        snapshot=plan.snapshot,
        waves_done=len(landed),
        waves=plan.waves,
        chunks_done=chunks_done,
        chunks=plan.chunks,
        rows=sum(one.rows for one in landed.values()),
        rows_per_second=None if rate is None else rate.rows_per_second,
        expected_end=rate.end(since=datetime.now(UTC), chunks=missing) if rate and missing else None,
    )
