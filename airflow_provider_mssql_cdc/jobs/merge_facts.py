"""Facts rows of merges."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.jobs.facts import write_signed
from airflow_provider_mssql_cdc.lake.facts import has_facts
from airflow_provider_mssql_cdc.lake.log import EVENT_KEY
from airflow_provider_mssql_cdc.lake.silver.table import MERGE_EVENT, Silver
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder


_COMMITS_SEARCHED = 20


def write_merge_facts(order: MergeOrder, silver: Silver, merged: MergedSilver) -> None:
    """Write one row per commit that changed rows or rebuilt silver; none when only the position moved."""
    counts, position = merged.counts, merged.position
    if not (counts.files_added or counts.files_removed or merged.rebuilt):
        return
    row = FactsRow(
        event="merge",
        target=silver.location.uri,
        snapshot=position.snapshot,
        rows=merged.rows,
        deletes=counts.deleted,
        inserts=counts.inserted,
        updates=counts.updated,
        end_lsn=position.changes,
        consistent_after=None if merged.horizon is None else merged.horizon.consistent_after(),
        started_at=order.started_at,
        duration_ms=round((datetime.now(UTC) - order.started_at).total_seconds() * 1000),
        detail={
            "bronze_version": position.version,
            "silver_version": merged.version,
            "rebuilt": merged.rebuilt,
            "consistent": merged.consistency.passed,
            "reason": merged.consistency.reason,
            "changed_keys": counts.changed_keys,
            "files_added": counts.files_added,
            "files_removed": counts.files_removed,
            "files_kept": counts.files_kept,
            "bytes_added": counts.bytes_added,
        },
    )
    _write(order, silver, row, version=position.version)


def write_missing_facts(order: MergeOrder, silver: Silver) -> None:
    """Write the row of silver's newest merge if the run that committed it did not."""
    said = _newest_merge(silver)
    if said is None or not (said["files_added"] or said["files_removed"] or said["rebuilt"]):
        return
    snapshot, version = Lsn.parse(said["snapshot"]), int(said["bronze_version"])
    identifier = facts_identifier(silver.location.uri, "merge", snapshot, version)
    if has_facts(TableLocation.facts_of(order.table), identifier):
        return
    row = FactsRow(
        event="merge",
        target=silver.location.uri,
        snapshot=snapshot,
        rows=said["rows"],
        deletes=said["deleted"],
        inserts=said["inserted"],
        updates=said["updated"],
        end_lsn=Lsn.parse(said["changes"]),
        detail={
            **{name: said[name] for name in ("bronze_version", "rebuilt", "changed_keys")},
            "again": True,
        },
    )
    _write(order, silver, row, version=version)


def _newest_merge(silver: Silver) -> dict[str, Any] | None:
    """Return what the newest merge commit recorded about itself; None when the log no longer has it."""
    for commit in silver.table.history(_COMMITS_SEARCHED):
        if commit.get(EVENT_KEY) == MERGE_EVENT:
            said: dict[str, Any] = json.loads(commit["userMetadata"])
            return said
    return None


def _write(order: MergeOrder, silver: Silver, row: FactsRow, *, version: int) -> None:
    assert row.snapshot is not None
    identifier = facts_identifier(row.target, row.event, row.snapshot, version)
    told = replace(row, source=silver.identity.label)
    write_signed(order.table, told, attempt=order.attempt, identifier=identifier, started_at=None)
