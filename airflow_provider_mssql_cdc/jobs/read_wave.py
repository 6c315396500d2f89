"""``chunk``: stamp, read, stage and commit one wave."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import IncompletePlan, PermanentError, ReplicaBehind, SchemaDrift
from airflow_provider_mssql_cdc.jobs.facts import (
    reader_columns,
    retention_columns,
    wave_row,
    write_missing_chunk_facts,
    write_snapshot_facts,
)
from airflow_provider_mssql_cdc.jobs.guards import refuse_lost_changes, refuse_other_history
from airflow_provider_mssql_cdc.jobs.plan_chunks import too_little_headroom
from airflow_provider_mssql_cdc.jobs.read_range import ReadMeter, rows_of_range
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, decide_columns, loadable_table
from airflow_provider_mssql_cdc.jobs.status import progress_of
from airflow_provider_mssql_cdc.jobs.task import OnStep, Skipped, unwatched
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.chunked import LandedWave, commit_wave, landed_wave
from airflow_provider_mssql_cdc.lake.plans import read_plan
from airflow_provider_mssql_cdc.lake.staged_files import chunk_prefix, remove_unnamed, wave_prefix
from airflow_provider_mssql_cdc.lake.staging import RowStamp, stage_rows
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, StoredPlan, WaveOutcome
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, PlanId, ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.planning.snapshots import refuse_ended
from airflow_provider_mssql_cdc.source.watermarks import commit_time, horizon, now
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedWave:
    """Result of reading one wave: staged files, not yet visible to readers.

    :param stamp: the LSN recorded before the first row was read; written on every row.
    :param commit_ts: its commit time (UTC); None when it has no entry in ``cdc.lsn_time_mapping``.
    :param megabytes: Arrow data received from the server.
    """

    stamp: Lsn
    commit_ts: datetime | None
    files: tuple[StagedFile, ...]
    horizon: ReadHorizon
    seconds: float
    megabytes: float


def stage_wave(
    session: SourceSession,
    source: LoadableTable,
    bronze: Bronze,
    *,
    plan: StoredPlan,
    wave: int,
    attempt: Attempt,
    on_step: OnStep,
) -> StagedWave:
    """Stamp, check that changes still continue, then read; all answers come from this one session.

    :raises ReplicaBehind: the server that answers has not reached S.
    :raises RetentionGap: changes above bronze's position have been purged.
    """
    instance, label = source.description.instance, source.description.table.label
    # The stamp is older than every row: a change committed between stamp and read has a higher LSN and is
    # applied again from the changes. The opposite order could lose it.
    stamp = _stamp(session, source, plan)
    refuse_other_history(session, instance, bronze=bronze, label=label)
    refuse_lost_changes(session, instance, state=bronze.state, label=label)
    committed_at = commit_time(session, stamp)
    on_step("stamped")
    began = time.monotonic()
    meter = ReadMeter(f"{label}, wave {wave}", plan.start.chunk_rows * plan.chunk_count_of(wave))
    prefix = wave_prefix(PlanId.new(plan.snapshot, attempt.run), wave)
    files: list[StagedFile] = []
    for chunk in plan.chunks_of(wave):
        described = f"{label}, chunk {chunk.index + 1} of {plan.chunks}"
        with rows_of_range(session, source, chunk.key_range, label=described) as batches:
            files += stage_rows(
                bronze,
                prefix=chunk_prefix(prefix, chunk.index, attempt.label),
                stamp=RowStamp(instance.name, stamp, committed_at, snapshot=plan.snapshot, chunk=chunk.index),
                columns=source.lake_columns,
                batches=meter.watched(batches),
            )
        on_step("read")
    # After the last row: READ COMMITTED releases locks row by row, so a scan may see commits up to its end,
    # and may miss or repeat a row whose key changes (Microsoft Learn, "Transaction locking and row
    # versioning guide", missing and double reads). Changes up to the horizon repair both.
    after = horizon(session, instance)
    on_step("staged")
    return StagedWave(stamp, committed_at, tuple(files), after, time.monotonic() - began, meter.megabytes)


def _stamp(session: SourceSession, source: LoadableTable, plan: StoredPlan) -> Lsn:
    """Return this session's own ``now()``, at or above S."""
    label = source.description.table.label
    if plan.start.split != source.split_hash:
        raise SchemaDrift(
            f"{label}: the stored plan of snapshot {plan.snapshot} was cut on other columns, or on columns "
            "of another type, than the table is cut on now. Open another snapshot: resnapshot=True"
        )
    stamp = now(session, source.description.instance)
    if stamp < plan.snapshot:
        raise ReplicaBehind(
            f"{label}: the server that answers is at {stamp}, behind the snapshot's LSN {plan.snapshot}; "
            "another replica answered when it was opened. Trying again may reach one that has caught up"
        )
    return stamp


def read_wave(
    table: MssqlCdcTable,
    planned: PlannedWave,
    *,
    attempt: Attempt,
    connect: Connect,
    on_step: OnStep = unwatched,
) -> WaveOutcome | Skipped:
    """Read and commit one wave; does nothing when bronze holds the wave, or this snapshot or a later one.

    :raises ReplicaBehind: the server that answers has not reached S.
    :raises RetentionGap: changes above the position were purged before or during the read.
    :raises Superseded: coverage was re-based above S, or S was abandoned.
    """
    bronze, started_at = open_existing(TableLocation.bronze_of(table)), datetime.now(UTC)
    held = None if planned.done else landed_wave(bronze.table, planned.snapshot, planned.wave)
    if held is None and (planned.done or _is_settled(bronze, planned)):
        log.info("%s: bronze holds snapshot %s; wave not read", table.label, bronze.state.snapshot)
        return WaveOutcome.of(planned)
    plan = _stored_plan(table, planned)
    if held is not None:
        log.info("%s: bronze holds wave %d of snapshot %s", table.label, planned.wave, planned.snapshot)
        write_missing_chunk_facts(table, bronze, plan, [held], attempt=attempt)
        return WaveOutcome.of(planned, rows=held.rows)
    refuse_ended(bronze.state, planned.snapshot)
    if planned.stop.after is not None and started_at >= planned.stop.after:
        return Skipped(f"{table.label}: max_seconds of this run have passed; the next run reads this wave")
    with connect() as session:
        source = loadable_table(session, table, snapshot=planned.snapshot)
        bronze.check_identity(source.identity)
        bronze.check_object(source.identity)
        bronze.check_columns(source.lake_columns)
        decide_columns(bronze, source)
        if reason := too_little_headroom(session, source, bronze, stop=planned.stop):
            return Skipped(f"{table.label}: {reason}")
        staged = stage_wave(
            session, source, bronze, plan=plan, wave=planned.wave, attempt=attempt, on_step=on_step
        )
        # On the same session as the read: behind a listener another connection may reach another replica.
        landed, added = _commit(session, source, bronze, staged=staged, planned=planned, attempt=attempt)
        on_step("committed")
        known = _known(session, source, bronze, staged=staged) if added else {}
    row = wave_row(bronze, plan, landed, **known)
    begun = started_at if added else None
    write_snapshot_facts(table, row, attempt=attempt, started_at=begun, wave=planned.wave)
    on_step("reported")
    log.info(
        "%s: wave %d: %d rows, %.1f s; %s",
        *(table.label, planned.wave, landed.rows, staged.seconds, progress_of(bronze, plan)),
    )
    return WaveOutcome.of(planned, rows=landed.rows, added=added)


def _is_settled(bronze: Bronze, planned: PlannedWave) -> bool:
    """Return whether bronze already holds a snapshot that makes this wave obsolete."""
    stored, coverage = bronze.state.snapshot, bronze.state.coverage
    superseded = coverage is not None and planned.snapshot < coverage.base
    return stored is not None and stored >= planned.snapshot and not superseded


def _stored_plan(table: MssqlCdcTable, planned: PlannedWave) -> StoredPlan:
    plan = read_plan(TableLocation.plans_of(table), planned.snapshot)
    if plan is None or not plan.is_finished or plan.waves != planned.waves:
        raise IncompletePlan(
            f"{table.label}: wave {planned.wave} of {planned.waves} of snapshot {planned.snapshot} is not in "
            f"the stored plan ({TableLocation.plans_of(table)}); clear the plan task"
        )
    return plan


def _commit(
    session: SourceSession,
    source: LoadableTable,
    bronze: Bronze,
    *,
    staged: StagedWave,
    planned: PlannedWave,
    attempt: Attempt,
) -> tuple[LandedWave, bool]:
    """Check retention again for bronze's current position, then commit; True if this attempt committed.

    Reloads the handle. Staged files that cannot be committed are removed.
    """
    try:
        instance, label = source.description.instance, source.description.table.label
        refuse_lost_changes(session, instance, state=bronze.reload().state, label=label)
        landed, added = commit_wave(
            bronze.location,
            source.header(planned.snapshot, None, attempt=attempt),
            staged.files,
            wave=planned.wave,
            stamp=staged.stamp,
            horizon=staged.horizon,
        )
    except PermanentError:
        # Only after permanent errors: after a conflict or a lost response the files may be committed.
        remove_unnamed(bronze.location, [file.path for file in staged.files])
        raise
    bronze.reload()
    return landed, added


def _known(
    session: SourceSession, source: LoadableTable, bronze: Bronze, *, staged: StagedWave
) -> dict[str, Any]:
    """Return the facts that only the reading attempt knows."""
    instance, coverage = source.description.instance, bronze.state.coverage
    assert coverage is not None
    return {
        **reader_columns(session, instance),
        **retention_columns(session, instance, position=coverage.changes),
        "min_lsn": staged.stamp,
        "min_commit_ts": staged.commit_ts,
        "max_lsn": staged.stamp,
        "max_commit_ts": staged.commit_ts,
        "end_lsn": staged.stamp,
        "end_commit_ts": staged.commit_ts,
        "read_seconds": staged.seconds,
        "read_mb": staged.megabytes,
    }
