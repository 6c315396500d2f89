"""``complete`` of a whole snapshot: check bronze, check the ranges, commit once, write facts, clean up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.jobs.facts import completion_columns, completion_row, write_snapshot_facts
from airflow_provider_mssql_cdc.jobs.guards import (
    refuse_other_history,
    refuse_snapshot_ahead,
    refuse_unretained,
)
from airflow_provider_mssql_cdc.jobs.source_table import decide_columns, loadable_table
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.commit import (
    SnapshotCommit,
    commit_snapshot,
    held_snapshot,
    refuse_folded,
)
from airflow_provider_mssql_cdc.lake.staged_files import remove_losers
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, ReadHorizon, StagedRange
from airflow_provider_mssql_cdc.planning.coverage import is_proven_gap, refuse_object_of_plan
from airflow_provider_mssql_cdc.planning.snapshots import CompletePlan, choose_plan
from airflow_provider_mssql_cdc.source.watermarks import standing
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompletedSnapshot:
    """Result of ``complete``: the point from which changes continue.

    :param snapshot: S; changes continue above it.
    :param commit_ts: S's commit time in UTC; None when S has no entry in ``cdc.lsn_time_mapping``.
    :param version: a version of bronze that contains the snapshot.
    :param horizon: the point that changes must pass before the rebuilt state equals the source.
    :param bronze: canonical path or URI of the bronze table.
    :param committed: whether this Airflow run completed it, in this try or an earlier one.
    """

    snapshot: Lsn
    commit_ts: datetime | None
    rows: int
    version: int
    horizon: ReadHorizon | None
    bronze: str
    committed: bool

    @classmethod
    def of(cls, committed: SnapshotCommit, bronze: Bronze, *, attempt: Attempt) -> CompletedSnapshot:
        """Build the result from a commit, or from a snapshot that was already complete."""
        return cls(
            snapshot=committed.snapshot,
            commit_ts=committed.commit_ts,
            rows=committed.rows,
            version=committed.version,
            horizon=committed.horizon,
            bronze=bronze.location.uri,
            committed=committed.added
            or bronze.earlier_try_committed(
                attempt, events=("bootstrap", "resnapshot"), counted=("snapshot",)
            ),
        )

    def to_xcom(self) -> dict[str, Any]:
        """Return JSON types; times are ISO 8601 in UTC."""
        return {
            "lsn": self.snapshot.text,
            "commit_ts": None if self.commit_ts is None else self.commit_ts.isoformat(),
            "rows": self.rows,
            "version": self.version,
            "consistent_after": None if self.horizon is None else self.horizon.consistent_after(),
        }


def complete_snapshot(
    table: MssqlCdcTable,
    outcomes: Sequence[StagedRange],
    *,
    attempt: Attempt,
    connect: Connect,
) -> CompletedSnapshot:
    """Commit all ranges of one plan at once, or return the snapshot that bronze already contains.

    Idempotent: bronze is checked before the ranges, so a task cleared days later returns the committed
    snapshot even when the results of the ranges are gone.

    :raises IncompletePlan: a range or a staged file is missing.
    :raises RetentionGap: changes just above S have been purged, so nothing may be committed.
    """
    bronze = open_existing(TableLocation.bronze_of(table))
    started_at = datetime.now(UTC)
    if _is_settled(bronze, outcomes):
        committed = held_snapshot(bronze)
        log.info("%s: %s", bronze.location, committed.reason)
        facts = completion_row(bronze, committed)
    else:
        committed, facts = _commit(
            table, choose_plan(outcomes), bronze=bronze, attempt=attempt, connect=connect
        )
    write_snapshot_facts(table, facts, attempt=attempt, started_at=started_at)
    remove_losers(bronze.location, run=attempt.run)
    return CompletedSnapshot.of(committed, bronze, attempt=attempt)


def _is_settled(bronze: Bronze, outcomes: Sequence[StagedRange]) -> bool:
    """Return whether bronze's snapshot is already the result, regardless of the ranges.

    :raises Superseded: a resnapshot was read below the LSN at which bronze was folded since.
    """
    stored = bronze.state.snapshot
    if stored is not None:
        newer = [outcome for outcome in outcomes if outcome.resnapshot and outcome.snapshot > stored]
        for outcome in () if newer else outcomes:
            if outcome.resnapshot:
                refuse_folded(bronze, outcome.snapshot, run=outcome.plan.run)
        return not newer
    if any(outcome.done for outcome in outcomes):
        raise IncompletePlan(
            f"the plan found a complete snapshot in {bronze.location}, and there is none now: the table was "
            "replaced in the meantime. Clear the plan task"
        )
    return False


def _commit(
    table: MssqlCdcTable,
    plan: CompletePlan,
    *,
    bronze: Bronze,
    attempt: Attempt,
    connect: Connect,
) -> tuple[SnapshotCommit, FactsRow]:
    """Check retention on its own session, then commit."""
    for other in plan.ignored:
        log.info("%s: results of the older plan %s are ignored", table.label, other)
    with connect() as session:
        source = loadable_table(session, table, snapshot=plan.snapshot)
        instance = source.description.instance
        if not plan.resnapshot:
            # A resnapshot may load a table that was dropped and recreated; any other snapshot must not mix
            # the two.
            bronze.check_object(source.identity)
        refuse_object_of_plan((each.source_object for each in plan.ranges), source.identity)
        refuse_other_history(session, instance, bronze=bronze, label=table.label)
        found = standing(session, instance, plan.snapshot)
        refuse_snapshot_ahead(session, found.reached, snapshot=plan.snapshot, label=table.label)
        decide_columns(bronze, source)
        refuse_unretained(found.low, position=plan.snapshot, label=table.label)
        coverage = bronze.state.coverage
        committed = commit_snapshot(
            bronze.location,
            source.header(plan.snapshot, found.committed_at, attempt=attempt),
            plan.files,
            horizon=plan.horizon,
            resnapshot=plan.resnapshot,
            gap_position=coverage.changes if coverage and is_proven_gap(coverage, found.low) else None,
        )
        detail = {"plan": plan.plan.text, "ranges": len(plan.ranges), "files": len(plan.files)}
        known = completion_columns(session, source, committed.snapshot, lowest=found.low, **detail)
    return committed, completion_row(bronze, committed, **known)
