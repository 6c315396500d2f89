"""``complete`` of a chunked snapshot: check bronze, check the plan, then commit without files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot
from airflow_provider_mssql_cdc.jobs.facts import (
    completion_columns,
    completion_row,
    write_missing_chunk_facts,
    write_snapshot_facts,
)
from airflow_provider_mssql_cdc.jobs.guards import refuse_lost_changes, refuse_other_history
from airflow_provider_mssql_cdc.jobs.source_table import loadable_table
from airflow_provider_mssql_cdc.jobs.status import progress_of
from airflow_provider_mssql_cdc.jobs.task import OnStep, Skipped, unwatched
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.chunked import landed_waves
from airflow_provider_mssql_cdc.lake.commit import SnapshotCommit, commit_completion, held_snapshot
from airflow_provider_mssql_cdc.lake.plans import read_plan
from airflow_provider_mssql_cdc.lake.staged_files import remove_waves_losers
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import StoredPlan, WaveOutcome
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.planning.snapshots import missing_waves, refuse_ended, refuse_missing
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)


def complete_waves(
    table: MssqlCdcTable,
    outcomes: Sequence[WaveOutcome],
    *,
    attempt: Attempt,
    connect: Connect,
    on_step: OnStep = unwatched,
) -> CompletedSnapshot | Skipped:
    """Mark the snapshot complete once bronze holds every wave of its plan and changes continue from it.

    :param outcomes: results of this run's waves: they name the snapshot and say whether waves are left for
        later runs.
    :raises IncompletePlan: waves that this run was to commit are missing; names them.
    :raises Superseded: coverage was re-based above S, or S was abandoned.
    :raises RetentionGap: changes just above the position have been purged.
    """
    bronze, started_at = open_existing(TableLocation.bronze_of(table)), datetime.now(UTC)
    snapshot = _snapshot_of(bronze, outcomes)
    if bronze.state.snapshot is not None and bronze.state.snapshot >= snapshot:
        committed = held_snapshot(bronze)
        log.info("%s: %s", bronze.location, committed.reason)
        facts = completion_row(bronze, committed)
    else:
        refuse_ended(bronze.state, snapshot)
        plan = _stored_plan(table, snapshot)
        if left := _left_to_others(bronze, plan, outcomes):
            return Skipped(f"{table.label}: {left}")
        committed, facts = _commit(table, plan, bronze=bronze, attempt=attempt, connect=connect)
        on_step("committed")
        landed = landed_waves(bronze.reload().table, snapshot, plan.waves)
        write_missing_chunk_facts(table, bronze, plan, landed.values(), attempt=attempt)
    write_snapshot_facts(table, facts, attempt=attempt, started_at=started_at)
    on_step("reported")
    remove_waves_losers(bronze.location, snapshot=snapshot)
    return CompletedSnapshot.of(committed, bronze, attempt=attempt)


def _snapshot_of(bronze: Bronze, outcomes: Sequence[WaveOutcome]) -> Lsn:
    """Return S of this run's waves (the newest if Airflow still passes older ones), else bronze's newest."""
    found = max((outcome.snapshot for outcome in outcomes), default=bronze.state.newest)
    if found is None:
        raise IncompletePlan(f"{bronze.location} holds no snapshot, open or complete; clear the plan task")
    return found


def _stored_plan(table: MssqlCdcTable, snapshot: Lsn) -> StoredPlan:
    plan = read_plan(TableLocation.plans_of(table), snapshot)
    if plan is None or not plan.is_finished:
        raise IncompletePlan(
            f"{table.label}: snapshot {snapshot} has no finished plan ({TableLocation.plans_of(table)}); "
            "clear the plan task"
        )
    return plan


def _left_to_others(bronze: Bronze, plan: StoredPlan, outcomes: Sequence[WaveOutcome]) -> str | None:
    """Return why later runs must load the rest of the plan; None when nothing is missing.

    :raises IncompletePlan: a wave that this run was to commit is missing.
    """
    landed = landed_waves(bronze.table, plan.snapshot, plan.waves)
    missing = missing_waves(plan.waves, landed)
    mine = [outcome for outcome in outcomes if outcome.snapshot == plan.snapshot]
    said = {outcome.wave for outcome in mine}
    if not missing:
        return None
    if any(outcome.more for outcome in mine) and not said & set(missing):
        return f"{progress_of(bronze, plan)}; the next run continues"
    refuse_missing(missing, snapshot=plan.snapshot, waves=plan.waves)
    return None


def _commit(
    table: MssqlCdcTable,
    plan: StoredPlan,
    *,
    bronze: Bronze,
    attempt: Attempt,
    connect: Connect,
) -> tuple[SnapshotCommit, FactsRow]:
    with connect() as session:
        source = loadable_table(session, table, snapshot=plan.snapshot)
        instance = source.description.instance
        bronze.check_object(source.identity)
        refuse_other_history(session, instance, bronze=bronze, label=table.label)
        refuse_lost_changes(session, instance, state=bronze.state, label=table.label)
        header = source.header(plan.snapshot, plan.start.commit_ts, attempt=attempt)
        committed = commit_completion(bronze.location, header, waves=plan.waves)
        known = completion_columns(session, source, committed.snapshot, chunks=plan.chunks, waves=plan.waves)
    return committed, completion_row(bronze, committed, **known)
