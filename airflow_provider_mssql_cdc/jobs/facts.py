"""Facts rows of snapshots and changes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
from airflow_provider_mssql_cdc.model.chunks import StoredPlan
from airflow_provider_mssql_cdc.model.facts import Event, FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.planning.snapshots import CompletePlan
from airflow_provider_mssql_cdc.source.watermarks import commit_time, retention_status
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.change_source import WindowRows
    from airflow_provider_mssql_cdc.planning.ranges import RangePlan
    from airflow_provider_mssql_cdc.source.session import SourceSession


def write_signed(
    table: MssqlCdcTable, row: FactsRow, *, attempt: Attempt, identifier: str, started_at: datetime | None
) -> bool:
    """Write the row with the attempt's name on it; False when a row of this identifier was there.

    :param started_at: of the work that the row tells of, which ends now; None leaves what the row says:
        the work was another attempt's, or is timed by whoever made the row.
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
    """The table's ``facts_url`` with this task's names in it; None where the table has none.

    ``target`` is spelled as the column of the facts is.
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


def snapshot_facts(
    committed: SnapshotCommit,
    *,
    bronze: Bronze,
    source: LoadableTable | None = None,
    session: SourceSession | None = None,
    plan: CompletePlan | None = None,
    lowest: Lsn | None = None,
) -> FactsRow:
    """What is known of a finished snapshot; without a session only what bronze itself still tells.

    :param lowest: the low watermark, where this session has just asked for it.
    """
    row = FactsRow(
        event=committed.event,
        target=bronze.location.uri,
        source=source_of(bronze),
        snapshot=committed.snapshot,
        rows=committed.rows,
        deletes=0,
        inserts=0,
        updates=0,
        min_lsn=committed.snapshot,
        min_commit_ts=committed.commit_ts,
        max_lsn=committed.snapshot,
        max_commit_ts=committed.commit_ts,
        end_lsn=committed.snapshot,
        end_commit_ts=committed.commit_ts,
        consistent_after=committed.horizon.consistent_after() if committed.horizon else None,
    )
    if source is None or session is None or plan is None:
        return row
    detail = {**keys_of(source), "plan": plan.plan.text, "ranges": len(plan.ranges), "files": len(plan.files)}
    return with_server(row, source, session=session, detail=detail, lowest=lowest)


def with_server(
    row: FactsRow,
    source: LoadableTable,
    *,
    session: SourceSession,
    detail: Mapping[str, Any],
    lowest: Lsn | None = None,
) -> FactsRow:
    """The row with what the server tells of the snapshot now: retention, lag, who read."""
    assert row.snapshot is not None
    instance = source.description.instance
    retention = retention_status(session, instance, position=row.snapshot, lowest=lowest)
    return replace(
        row,
        capture_instance=instance.name,
        isolation=session.isolation or "read committed",
        driver=session.driver,
        retention_watermark_ts=retention.watermark_ts,
        retention_headroom_hours=retention.headroom_hours,
        source_max_commit_ts=retention.newest_commit_ts,
        capture_lag_seconds=retention.capture_lag_seconds,
        detail=detail,
    )


def plan_facts(
    bronze: Bronze, snapshot: Lsn, *, source: LoadableTable, session: SourceSession, ranges: RangePlan
) -> FactsRow:
    """What was planned: how the table is cut, and on what."""
    instance = source.description.instance
    return FactsRow(
        event="snapshot_plan",
        target=bronze.location.uri,
        source=source_of(bronze),
        capture_instance=instance.name,
        snapshot=snapshot,
        isolation=session.isolation or "read committed",
        driver=session.driver,
        detail={
            **keys_of(source),
            "ranges": len(ranges.ranges),
            "method": ranges.method,
            "reason": ranges.reason,
            "notes": list(source.notes),
        },
    )


def write_snapshot_facts(
    table: MssqlCdcTable,
    row: FactsRow,
    *,
    attempt: Attempt,
    started_at: datetime | None,
    wave: int | None = None,
) -> bool:
    """Write the row of a snapshot, or of one of its waves, unless it is there; False when it was.

    :param started_at: None where the work itself was another attempt's: how long it took is not known.
    """
    assert row.snapshot is not None
    identifier = facts_identifier(row.target, row.event, row.snapshot, wave)
    return write_signed(table, row, attempt=attempt, identifier=identifier, started_at=started_at)


def source_of(bronze: Bronze) -> str:
    """The source table, for people: connection, database, schema and table."""
    return bronze.identity.label


def keys_of(source: LoadableTable) -> dict[str, Any]:
    """What was chosen; names of columns, never a key value."""
    return {
        "key": [column.name for column in source.keys.key or ()],
        "split_by": [column.name for column in source.split_columns],
    }


log = logging.getLogger(__name__)


def opening_facts(bronze: Bronze, snapshot: Lsn, **known: Any) -> FactsRow:
    """S was opened; what the first attempt alone knew is in ``known``."""
    return FactsRow(
        event="snapshot_open",
        target=bronze.location.uri,
        source=source_of(bronze),
        snapshot=snapshot,
        min_lsn=snapshot,
        max_lsn=snapshot,
        end_lsn=snapshot,
        **known,
    )


def chunk_plan_facts(bronze: Bronze, plan: StoredPlan, **known: Any) -> FactsRow:
    """How the table is cut: chunks and waves, by which method and why."""
    start = plan.start
    return FactsRow(
        event="snapshot_plan",
        target=bronze.location.uri,
        source=source_of(bronze),
        snapshot=plan.snapshot,
        detail={
            "chunks": plan.chunks,
            "waves": plan.waves,
            "chunks_per_wave": plan.chunks_per_wave,
            "chunk_rows": start.chunk_rows,
            "rows_estimated": start.rows_estimated,
            "method": start.method,
            "reason": start.reason,
        },
        **known,
    )


def wave_facts(bronze: Bronze, plan: StoredPlan, landed: LandedWave, **known: Any) -> FactsRow:
    """A wave that bronze holds; without ``known`` what bronze itself still tells."""
    chunks = [chunk.index for chunk in plan.chunks_of(landed.wave)]
    row = FactsRow(
        event="snapshot_wave",
        target=bronze.location.uri,
        source=source_of(bronze),
        snapshot=plan.snapshot,
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
    )
    if known:
        return replace(row, **known)
    stamps = stamps_of(bronze, plan.snapshot, first_chunk=chunks[0], last_chunk=chunks[-1])
    return replace(
        row, min_lsn=stamps.low, max_lsn=stamps.high, end_lsn=stamps.high, end_commit_ts=stamps.commit_ts
    )


def write_missing_chunk_facts(
    table: MssqlCdcTable,
    bronze: Bronze,
    plan: StoredPlan,
    landed: Iterable[LandedWave],
    *,
    attempt: Attempt,
) -> int:
    """Write again, from bronze and the plan, rows whose writer did not live to; how many."""
    target, snapshot = bronze.location.uri, plan.snapshot
    waves = {facts_identifier(target, "snapshot_wave", snapshot, wave.wave): wave for wave in landed}
    rows = {
        facts_identifier(target, "snapshot_open", snapshot): lambda: opening_facts(bronze, snapshot),
        facts_identifier(target, "snapshot_plan", snapshot): lambda: chunk_plan_facts(bronze, plan),
    }
    absent = absent_facts(TableLocation.facts_of(table), [*rows, *waves])
    for identifier in absent:
        wave = waves.get(identifier)
        row = rows[identifier]() if wave is None else wave_facts(bronze, plan, wave)
        number = None if wave is None else wave.wave
        write_snapshot_facts(table, row, attempt=attempt, started_at=None, wave=number)
    if absent:
        log.info("%s: %d facts row(s) of snapshot %s were missing", table.label, len(absent), snapshot)
    return len(absent)


def write_change_facts(run: ChangesRun, row: FactsRow, *, identifier: str) -> bool:
    """Write a row, signed by who writes it and with what all of them share; False when it was there."""
    told = replace(
        row,
        source=run.bronze.identity.label,
        driver=run.session.driver,
        isolation=run.session.isolation or "read committed",
    )
    return write_signed(
        run.table, told, attempt=run.request.attempt, identifier=identifier, started_at=run.started_at
    )


def write_window_facts(
    run: ChangesRun, rows: WindowRows, *, event: Event, replaced: int | None = None
) -> None:
    """The row of one commit of changes."""
    retention = retention_status(run.session, run.source.instance, position=run.position)
    ends = {lsn: commit_time(run.session, lsn) for lsn in (rows.counts.min_lsn, rows.counts.max_lsn) if lsn}
    row = FactsRow(
        event=event,
        target=run.bronze.location.uri,
        capture_instance=rows.instance.name,
        batch_id=rows.batch,
        rows=rows.counts.rows,
        deletes=rows.counts.deletes,
        inserts=rows.counts.inserts,
        updates=rows.counts.updates,
        min_lsn=rows.counts.min_lsn,
        min_commit_ts=ends.get(rows.counts.min_lsn) if rows.counts.min_lsn else None,
        max_lsn=rows.counts.max_lsn,
        max_commit_ts=ends.get(rows.counts.max_lsn) if rows.counts.max_lsn else None,
        end_lsn=rows.window.until,
        end_commit_ts=rows.until.time if rows.until else None,
        read_seconds=rows.read_seconds,
        read_mb=rows.read_mb,
        retention_watermark_ts=retention.watermark_ts,
        retention_headroom_hours=retention.headroom_hours,
        source_max_commit_ts=retention.newest_commit_ts,
        capture_lag_seconds=retention.capture_lag_seconds,
        detail={
            "after": rows.window.after.text,
            "notes": list(run.notes),
            **({} if replaced is None else {"replaced": replaced}),
        },
    )
    identifier = facts_identifier(row.target, event, rows.window.until, rows.batch)
    write_change_facts(run, row, identifier=identifier)


def write_missing_facts(run: ChangesRun) -> bool:
    """Write the row of the newest commit of changes again, when the run that committed it did not live to."""
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
        rows=counts.rows,
        deletes=counts.deletes,
        inserts=counts.inserts,
        updates=counts.updates,
        min_lsn=counts.min_lsn,
        max_lsn=counts.max_lsn,
        end_lsn=until,
        end_commit_ts=commit_time(run.session, until),
        detail={"after": commit.window.after.text, "again": True},
    )
    return write_change_facts(run, row, identifier=identifier)
