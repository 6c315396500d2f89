"""The facts rows of a snapshot: what was planned, and what was finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.jobs.signed_facts import write_signed
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.commit import SnapshotCommit
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.planning.completeness import CompletePlan
from airflow_provider_mssql_cdc.source.watermarks import retention_status
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.model.lsn import Lsn
    from airflow_provider_mssql_cdc.planning.ranges import RangePlan
    from airflow_provider_mssql_cdc.source.session import SourceSession


def snapshot_facts(
    committed: SnapshotCommit,
    *,
    bronze: Bronze,
    source: LoadableTable | None = None,
    session: SourceSession | None = None,
    plan: CompletePlan | None = None,
) -> FactsRow:
    """What is known of a finished snapshot; without a session only what bronze itself still tells."""
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
    return with_server(row, source, session=session, detail=detail)


def with_server(
    row: FactsRow, source: LoadableTable, *, session: SourceSession, detail: Mapping[str, Any]
) -> FactsRow:
    """The row with what the server tells of the snapshot now: retention, lag, who read."""
    assert row.snapshot is not None
    instance = source.description.instance
    retention = retention_status(session, instance, position=row.snapshot)
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
