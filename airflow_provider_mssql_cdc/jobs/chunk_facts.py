"""The facts rows of a chunked snapshot: its opening, its plan, its waves; written again if lost."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from airflow_provider_mssql_cdc.jobs.snapshot_facts import source_of, write_snapshot_facts
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.facts import absent_facts
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.waves import LandedWave, stamps_of
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.chunk_plan import StoredPlan
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.table import MssqlCdcTable

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
