"""One window of changes: check its columns, read it and stage it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from airflow_provider_mssql_cdc.errors import PermissionDenied, SourceObjectMissing, StatementFailed
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRun, RecordedColumns, WindowRows
from airflow_provider_mssql_cdc.jobs.facts import write_change_facts
from airflow_provider_mssql_cdc.jobs.guards import refuse_gap
from airflow_provider_mssql_cdc.jobs.read_range import ReadMeter
from airflow_provider_mssql_cdc.lake.bronze import add_columns, column_drift
from airflow_provider_mssql_cdc.lake.changes import (
    COMMITS_SCHEMA,
    ChangeStamp,
    WindowCommits,
    change_schema,
    stage_changes,
)
from airflow_provider_mssql_cdc.lake.staged_files import discard
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, Window
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.columns import SchemaDecision, decide_schema
from airflow_provider_mssql_cdc.source.instances import lsn_of
from airflow_provider_mssql_cdc.source.watermarks import repeated_hour, zone_of
from airflow_provider_mssql_cdc.tsql import cdc
from airflow_provider_mssql_cdc.tsql.cdc import change_rows


def agree_on_columns(run: ChangesRun, instance: CaptureInstance) -> RecordedColumns:
    """Return the columns to read from this instance; bronze has all of them afterwards.

    :raises SchemaDrift: values would be lost, or replaced by NULL, without the user's permission.
    """
    columns = run.source.recorded(instance)
    if instance.identity in run.judged:
        return _known_to_bronze(run, columns)
    history = _history(run, instance)
    decision = decide_schema(
        column_drift(run.bronze, columns.lake_columns),
        instance=instance.name,
        source_columns=run.source.description.columns,
        recorded=columns.recorded,
        accept_nulls=run.request.accept_nulls,
    )
    if decision.uncaptured:
        run.note(
            f"column(s) {', '.join(decision.uncaptured)} of the source table are not recorded by capture "
            f"instance {instance.name}, so bronze does not have them; a second capture instance would record "
            "them",
            # Left out when CDC was enabled, deliberately, where no DDL came after it.
            level=logging.WARNING if history else logging.INFO,
        )
    _record(run, instance, decision, history)
    if decision.add:
        add_columns(run.bronze, decision.add)
    run.judged.add(instance.identity)
    return _known_to_bronze(run, columns)


def _known_to_bronze(run: ChangesRun, columns: RecordedColumns) -> RecordedColumns:
    """Drop columns that are gone from the source and were never in bronze: only NULL can follow."""
    names = set(run.bronze.schema.names)
    known = tuple(column for column in columns.columns if column.lake.name in names)
    return RecordedColumns(known, columns.recorded, columns.has_command_id)


def _record(
    run: ChangesRun, instance: CaptureInstance, decision: SchemaDecision, history: list[dict[str, Any]]
) -> None:
    """Write one ``schema_change`` row per DDL statement, and one for columns added with permission."""
    for change in history:
        lsn = lsn_of(change["ddl_lsn"])
        if lsn is not None:
            detail = {"ddl": change["ddl_command"], "ddl_time": str(change["ddl_time"])}
            _write(run, instance, at=lsn, detail=detail)
    if decision.add:
        added = [column.source_name for column in decision.add]
        _write(run, instance, at=run.position, detail={"added": added, "new_columns": "null"})


def _write(run: ChangesRun, instance: CaptureInstance, *, at: Lsn, detail: dict[str, Any]) -> None:
    row = FactsRow(
        event="schema_change",
        target=run.bronze.location.uri,
        capture_instance=instance.name,
        min_lsn=at,
        detail=detail,
    )
    identifier = facts_identifier(row.target, "schema_change", at)
    write_change_facts(run, row, identifier=f"{identifier}.added" if "added" in detail else identifier)


def _history(run: ChangesRun, instance: CaptureInstance) -> list[dict[str, Any]]:
    try:
        return run.session.rows(cdc.ddl_history(instance.name), doing="asking for DDL history")
    except (PermissionDenied, SourceObjectMissing, StatementFailed):
        return []


_NO_LIMIT = 2**31 - 1


def read_window(
    run: ChangesRun, window: Window, instance: CaptureInstance, *, batch: int, limit: int | None, prefix: str
) -> WindowRows:
    """Read and stage a window's changes, limited to ``limit`` commits; then check that none was purged.

    The bound, the rows and the low watermark after them come from one session. Cleanup raises the low
    watermark before it deletes rows, so if the window is retained after the read it was complete during it.

    :raises RetentionGap: cleanup overtook the read; nothing is kept.
    """
    columns = agree_on_columns(run, instance)
    commits = _commits(run, window, limit)
    last = commits.last
    if last is not None and limit is not None and len(commits) >= limit:
        window = Window(window.after, last.lsn)
    stamp = ChangeStamp(instance.name, commits, batch)
    meter = ReadMeter(f"{run.table.label}: changes in {window}")
    statement = change_rows(
        instance.name,
        columns.columns,
        after=window.after,
        until=window.until,
        has_command_id=columns.has_command_id,
    )
    rows = run.session.read(
        statement, change_schema(columns.lake_columns), table=f"changes of {instance.name}"
    )
    # The check follows the read: cleanup first sets the instance's start_lsn, then deletes (Microsoft Learn,
    # "sys.sp_cdc_cleanup_change_table"). A check before the read alone would miss rows purged during it.
    files = stage_changes(run.bronze, prefix=prefix, stamp=stamp, batches=meter.watched(rows))
    try:
        refuse_gap(run, run.source.still_there(instance), position=window.after)
    except BaseException:
        discard(run.bronze, files)
        raise
    return WindowRows(
        window=window,
        instance=instance,
        files=files,
        counts=stamp.counts,
        until=last if last is not None and last.lsn == window.until else None,
        batch=batch,
        read_seconds=meter.seconds,
        read_mb=meter.megabytes,
    )


def _commits(run: ChangesRun, window: Window, limit: int | None) -> WindowCommits:
    """Return the first ``limit`` commits of a window in order; none if the mapping is not readable."""
    statement = cdc.window_commits(window, limit=limit or _NO_LIMIT, zone=zone_of(run.session))
    hour_of = partial(repeated_hour, run.session)
    try:
        read = run.session.read(statement, COMMITS_SCHEMA, table="cdc.lsn_time_mapping")
        return WindowCommits(read, hour_of=hour_of)
    except PermissionDenied as exc:
        run.note(f"commit times stay NULL and the window is not cut: {exc}")
        return WindowCommits([], hour_of=hour_of)
