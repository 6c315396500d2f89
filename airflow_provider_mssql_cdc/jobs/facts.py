"""Facts rows of snapshots and changes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mssql_cdc.jobs.change_source import ChangesRun
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.chunked import LandedWave, stamps_of
from airflow_provider_mssql_cdc.lake.commit import SnapshotCommit
from airflow_provider_mssql_cdc.lake.facts import absent_facts, has_facts, write_facts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import counts_of_batch, newest_change_commit
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, ChangeCounts
from airflow_provider_mssql_cdc.model.chunks import StoredPlan
from airflow_provider_mssql_cdc.model.facts import Event, FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.source.watermarks import commit_time, retention_status
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.change_source import WindowRows
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


def write_signed(
    table: MssqlCdcTable, row: FactsRow, *, attempt: Attempt, identifier: str, started_at: datetime | None
) -> bool:
    """Write the row with the attempt's identity; False when a row with this identifier exists.

    :param started_at: start of the work, which ends now; None keeps the row's own times, because another
        attempt did the work or the caller measured it.
    """
    signed = replace(
        row,
        dag_id=attempt.dag_id,
        run_id=attempt.run_id,
        task_id=attempt.task_id,
        map_index=attempt.map_index,
        try_number=attempt.try_number,
    )
    if started_at is not None:
        elapsed = datetime.now(UTC) - started_at
        signed = replace(signed, started_at=started_at, duration_ms=round(elapsed.total_seconds() * 1000))
    return write_facts(TableLocation.facts_of(table), signed, identifier=identifier)


def facts_url(table: MssqlCdcTable, attempt: Attempt) -> str | None:
    """Return the table's ``facts_url`` with this task's names filled in; None when the table has none.

    ``target`` is spelled as in the facts column.
    """
    if table.facts_url is None:
        return None
    names = {
        "facts": canonical_uri(table.facts),
        "target": canonical_uri(table.bronze),
        "dag_id": attempt.dag_id,
        "run_id": attempt.run_id,
        "task_id": attempt.task_id,
        "map_index": str(attempt.map_index),
    }
    return table.facts_url.format_map({name: quote(value, safe="") for name, value in names.items()})


def snapshot_row(bronze: Bronze, event: Event, snapshot: Lsn, **columns: Any) -> FactsRow:
    """Build a row of one snapshot of one bronze table."""
    return FactsRow(
        event=event, target=bronze.location.uri, source=bronze.identity.label, snapshot=snapshot, **columns
    )


def reader_columns(session: SourceSession, instance: CaptureInstance) -> dict[str, Any]:
    """Return the columns that describe the session: capture instance, isolation level and driver."""
    return {
        "capture_instance": instance.name,
        "isolation": session.isolation or "read committed",
        "driver": session.driver,
    }


def retention_columns(
    session: SourceSession, instance: CaptureInstance, *, position: Lsn, lowest: Lsn | None = None
) -> dict[str, Any]:
    """Return the columns for retention and capture lag, queried now.

    :param lowest: the low watermark, if this session has just queried it.
    """
    retention = retention_status(session, instance, position=position, lowest=lowest)
    return {
        "retention_watermark_ts": retention.watermark_ts,
        "retention_headroom_hours": retention.headroom_hours,
        "source_max_commit_ts": retention.newest_commit_ts,
        "capture_lag_seconds": retention.capture_lag_seconds,
    }


def completion_row(bronze: Bronze, committed: SnapshotCommit, **columns: Any) -> FactsRow:
    """Build the row of a complete snapshot; without ``columns``, from bronze alone."""
    snapshot, commit_ts, horizon = committed.snapshot, committed.commit_ts, committed.horizon
    return snapshot_row(
        bronze,
        committed.event,
        snapshot,
        rows=committed.rows,
        deletes=0,
        inserts=0,
        updates=0,
        min_lsn=snapshot,
        min_commit_ts=commit_ts,
        max_lsn=snapshot,
        max_commit_ts=commit_ts,
        end_lsn=snapshot,
        end_commit_ts=commit_ts,
        consistent_after=horizon.consistent_after() if horizon else None,
        **columns,
    )


def completion_columns(
    session: SourceSession, source: LoadableTable, snapshot: Lsn, *, lowest: Lsn | None = None, **detail: Any
) -> dict[str, Any]:
    """Return the values that only the completing attempt knows; bronze does not store them.

    :param lowest: the low watermark, if this session has just queried it.
    :param detail: further entries of ``detail``, next to the key columns.
    """
    instance = source.description.instance
    return {
        **reader_columns(session, instance),
        **retention_columns(session, instance, position=snapshot, lowest=lowest),
        "detail": {**keys_of(source), **detail},
    }


def write_snapshot_facts(
    table: MssqlCdcTable,
    row: FactsRow,
    *,
    attempt: Attempt,
    started_at: datetime | None,
    wave: int | None = None,
) -> bool:
    """Write the row of a snapshot or of one wave; False when it exists already.

    :param started_at: None when another attempt did the work, so its duration is not known.
    """
    assert row.snapshot is not None
    identifier = facts_identifier(row.target, row.event, row.snapshot, wave)
    return write_signed(table, row, attempt=attempt, identifier=identifier, started_at=started_at)


def keys_of(source: LoadableTable) -> dict[str, Any]:
    """Return the names of the key columns and split columns; never a key value."""
    return {
        "key": [column.name for column in source.keys.key or ()],
        "split_by": [column.name for column in source.split_columns],
    }


def opening_row(bronze: Bronze, snapshot: Lsn, **columns: Any) -> FactsRow:
    """Build the row of an opened snapshot; only the first attempt knows ``columns``."""
    return snapshot_row(
        bronze, "snapshot_open", snapshot, min_lsn=snapshot, max_lsn=snapshot, end_lsn=snapshot, **columns
    )


def chunk_plan_row(bronze: Bronze, plan: StoredPlan, **columns: Any) -> FactsRow:
    """Build the row of a stored plan: its chunks, waves, method and reason."""
    start = plan.start
    detail = {
        "chunks": plan.chunks,
        "waves": plan.waves,
        "chunks_per_wave": plan.chunks_per_wave,
        "chunk_rows": start.chunk_rows,
        "rows_estimated": start.rows_estimated,
        "method": start.method,
        "reason": start.reason,
    }
    return snapshot_row(bronze, "snapshot_plan", plan.snapshot, detail=detail, **columns)


def wave_row(bronze: Bronze, plan: StoredPlan, landed: LandedWave, **columns: Any) -> FactsRow:
    """Build the row of a committed wave; without ``columns``, from bronze alone."""
    chunks = [chunk.index for chunk in plan.chunks_of(landed.wave)]
    if not columns:
        stamps = stamps_of(bronze, plan.snapshot, first_chunk=chunks[0], last_chunk=chunks[-1])
        columns = {
            "min_lsn": stamps.low,
            "max_lsn": stamps.high,
            "end_lsn": stamps.high,
            "end_commit_ts": stamps.commit_ts,
        }
    return snapshot_row(
        bronze,
        "snapshot_wave",
        plan.snapshot,
        rows=landed.rows,
        deletes=0,
        inserts=0,
        updates=0,
        consistent_after=None if landed.horizon is None else landed.horizon.consistent_after(),
        detail={
            "wave": landed.wave,
            "waves": plan.waves,
            "first_chunk": chunks[0],
            "chunks": len(chunks),
            "chunks_total": plan.chunks,
        },
        **columns,
    )


def write_missing_chunk_facts(
    table: MssqlCdcTable,
    bronze: Bronze,
    plan: StoredPlan,
    landed: Iterable[LandedWave],
    *,
    attempt: Attempt,
) -> int:
    """Write rows that an interrupted attempt left out, rebuilt from bronze and the plan; return how many."""
    target, snapshot = bronze.location.uri, plan.snapshot
    waves = {facts_identifier(target, "snapshot_wave", snapshot, wave.wave): wave for wave in landed}
    rows = {
        facts_identifier(target, "snapshot_open", snapshot): lambda: opening_row(bronze, snapshot),
        facts_identifier(target, "snapshot_plan", snapshot): lambda: chunk_plan_row(bronze, plan),
    }
    absent = absent_facts(TableLocation.facts_of(table), [*rows, *waves])
    for identifier in absent:
        wave = waves.get(identifier)
        row = rows[identifier]() if wave is None else wave_row(bronze, plan, wave)
        number = None if wave is None else wave.wave
        write_snapshot_facts(table, row, attempt=attempt, started_at=None, wave=number)
    if absent:
        log.info("%s: %d facts row(s) of snapshot %s were missing", table.label, len(absent), snapshot)
    return len(absent)


def write_change_facts(run: ChangesRun, row: FactsRow, *, identifier: str) -> bool:
    """Add the attempt and the common columns, and write the row; False when it exists already."""
    told = replace(
        row,
        source=run.bronze.identity.label,
        driver=run.session.driver,
        isolation=run.session.isolation or "read committed",
    )
    return write_signed(
        run.table, told, attempt=run.request.attempt, identifier=identifier, started_at=run.started_at
    )


def count_columns(counts: ChangeCounts) -> dict[str, Any]:
    """Return the change counts by facts column; the fields have the columns' names."""
    return {each.name: getattr(counts, each.name) for each in fields(counts)}


def write_window_facts(
    run: ChangesRun, rows: WindowRows, *, event: Event, replaced: int | None = None
) -> None:
    """Write the row of one commit of changes."""
    ends = {lsn: commit_time(run.session, lsn) for lsn in (rows.counts.min_lsn, rows.counts.max_lsn) if lsn}
    row = FactsRow(
        event=event,
        target=run.bronze.location.uri,
        capture_instance=rows.instance.name,
        batch_id=rows.batch,
        **count_columns(rows.counts),
        min_commit_ts=ends.get(rows.counts.min_lsn) if rows.counts.min_lsn else None,
        max_commit_ts=ends.get(rows.counts.max_lsn) if rows.counts.max_lsn else None,
        end_lsn=rows.window.until,
        end_commit_ts=rows.until.time if rows.until else None,
        read_seconds=rows.read_seconds,
        read_mb=rows.read_mb,
        **retention_columns(run.session, run.source.instance, position=run.position),
        detail={
            "after": rows.window.after.text,
            "notes": list(run.notes),
            **({} if replaced is None else {"replaced": replaced}),
        },
    )
    identifier = facts_identifier(row.target, event, rows.window.until, rows.batch)
    write_change_facts(run, row, identifier=identifier)


def write_missing_facts(run: ChangesRun) -> bool:
    """Write the row of the newest commit of changes if the run that committed it did not."""
    batch = run.state.batch
    commit = newest_change_commit(run.bronze, batch) if batch else None
    if commit is None:
        return False
    target, until = run.bronze.location.uri, commit.window.until
    identifier = facts_identifier(target, commit.event, until, batch)
    if has_facts(TableLocation.facts_of(run.table), identifier):
        return False
    counts = counts_of_batch(run.bronze, batch)
    row = FactsRow(
        event=commit.event,
        target=target,
        capture_instance=commit.instance,
        batch_id=batch,
        **count_columns(counts),
        end_lsn=until,
        end_commit_ts=commit_time(run.session, until),
        detail={"after": commit.window.after.text, "again": True},
    )
    return write_change_facts(run, row, identifier=identifier)
