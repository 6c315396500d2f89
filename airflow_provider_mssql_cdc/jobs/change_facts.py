"""Facts rows of changes: extensions and repairs, gaps, schema changes, and the switch to another instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.jobs.changes_run import ChangesRun
from airflow_provider_mssql_cdc.jobs.snapshot_facts import write_signed
from airflow_provider_mssql_cdc.lake.facts import has_facts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import counts_of_batch, newest_change_commit
from airflow_provider_mssql_cdc.model.facts import Event, FactsRow, facts_identifier
from airflow_provider_mssql_cdc.source.watermarks import commit_time, retention_status

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.changes_run import WindowRows


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
