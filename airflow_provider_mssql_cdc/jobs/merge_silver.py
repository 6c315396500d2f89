"""Merge bronze into silver: skip, wait, merge new changes, or rebuild."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable, StateDamaged
from airflow_provider_mssql_cdc.jobs.merge_facts import write_merge_facts, write_missing_facts
from airflow_provider_mssql_cdc.jobs.source_table import loadable_table
from airflow_provider_mssql_cdc.jobs.task import OnStep, Skipped, Waiting, unwatched
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze
from airflow_provider_mssql_cdc.lake.delta_table import stored_bytes
from airflow_provider_mssql_cdc.lake.log import LogForgotten
from airflow_provider_mssql_cdc.lake.schema import described, refuse_deletion_vectors
from airflow_provider_mssql_cdc.lake.silver.files import current_files
from airflow_provider_mssql_cdc.lake.silver.merge import (
    MergeCommit,
    MergeRequest,
    SilverMoved,
    files_since,
    update_silver,
)
from airflow_provider_mssql_cdc.lake.silver.table import (
    MERGE_EVENT,
    Silver,
    bronze_number,
    create_silver,
    open_silver,
    refuse_foreign,
)
from airflow_provider_mssql_cdc.lake.staged_files import remove_orphans, silver_prefix
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state, read_horizon
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.plan import Attempt, ReadHorizon
from airflow_provider_mssql_cdc.model.state import MergeCounts, SilverPosition
from airflow_provider_mssql_cdc.planning.coverage import CAPTURE_MOVES, Consistency, consistency
from airflow_provider_mssql_cdc.planning.keys import refuse_other_key, refuse_uncertain_key, silver_key
from airflow_provider_mssql_cdc.planning.merge import MergeSince, NoSnapshot, Rebuild, UpToDate, decide_merge
from airflow_provider_mssql_cdc.source.measure import check_key, count_rows
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.task_memory import turn_of

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)

_LOST_AT_MOST = 20


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """Parameters of one merge run.

    :param silver: path or URI of the Delta table with the current state.
    :param wait_consistent: do not merge until changes have passed the snapshot's horizon.
    :param min_changed_share: do not merge while the pending change rows are fewer than this share of
        silver's rows; 0.0 to 1.0.
    :param max_delay_seconds: merge regardless of the share once the oldest pending commit is this old, in
        seconds.
    """

    table: MssqlCdcTable
    silver: str
    attempt: Attempt
    wait_consistent: bool = False
    min_changed_share: float = 0.0
    max_delay_seconds: int = 3600
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def location(self) -> TableLocation:
        return TableLocation(self.silver, self.table.storage_options)


@dataclass(frozen=True, slots=True)
class MergedSilver:
    """Result of a merge run.

    :param version: silver version after the run.
    :param rows: number of rows in silver.
    :param rebuilt: why every row was replaced; None for a merge of changes.
    :param consistency: whether silver equals the source row by row at its position.
    :param horizon: the point that changes must pass for that; None when the snapshot read no row.
    :param silver: canonical path or URI of the table.
    :param committed: whether this Airflow run changed rows of silver, in this try or an earlier one.
    """

    version: int
    rows: int
    position: SilverPosition
    counts: MergeCounts
    rebuilt: str | None
    consistency: Consistency
    horizon: ReadHorizon | None
    silver: str
    committed: bool

    def to_xcom(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "version": self.version,
            "rows": self.rows,
            "bronze_version": self.position.version,
            "snapshot": self.position.snapshot.text,
            "changes": self.position.changes.text,
            "inserted": self.counts.inserted,
            "updated": self.counts.updated,
            "deleted": self.counts.deleted,
            "files_added": self.counts.files_added,
            "files_removed": self.counts.files_removed,
            "rebuilt": self.rebuilt,
            "consistent": self.consistency.passed,
            "consistent_after": None if self.horizon is None else self.horizon.consistent_after(),
            "reason": self.consistency.reason,
        }


def merge_silver(
    order: MergeOrder, *, connect: Connect, bronze: Bronze | None = None, on_step: OnStep = unwatched
) -> Skipped | Waiting | MergedSilver:
    """Bring silver to bronze's current version; the source is queried only when silver is built.

    Idempotent: a second run finds its own position and does nothing. Of two concurrent runs one commits, and
    the other continues from the new position.

    :param bronze: a handle opened shortly before; reloaded unless silver is at its version. None to open it.
    :raises UnsupportedKey: the key does not identify the source's rows.
    :raises ForeignTable: bronze or silver belongs to another source table.
    :raises StateDamaged: another tool removed bronze rows that silver needs.
    :raises CommitConflict: other merges committed first too often.
    """
    bronze = bronze or open_bronze(TableLocation.bronze_of(order.table))
    if bronze is None:
        return _without_snapshot(order, f"there is no bronze table at {order.table.bronze} yet")
    _refuse_wrong_tables(order, bronze)
    for _ in range(_LOST_AT_MOST - 1):
        try:
            return _merge_once(order, bronze, connect=connect, on_step=on_step)
        except SilverMoved as exc:
            log.info("%s: %s", order.table.label, exc)
    return _merge_once(order, bronze, connect=connect, on_step=on_step)


def _refuse_wrong_tables(order: MergeOrder, bronze: Bronze) -> None:
    if order.location == bronze.location:
        raise ConfigurationError(f"{order.table.label}: silver and bronze are one path, {bronze.location}")
    if bronze.identity.conn_id != order.table.mssql_conn_id:
        raise ForeignTable(
            f"{bronze.location} belongs to {described(bronze.identity)}, and this table names connection "
            f"{order.table.mssql_conn_id}"
        )
    refuse_deletion_vectors(bronze.table)


def _without_snapshot(order: MergeOrder, reason: str) -> Skipped | Waiting:
    sentence = f"{order.table.label}: silver is left unchanged: {reason}"
    return Waiting(sentence) if order.wait_consistent else Skipped(sentence)


def _merge_once(
    order: MergeOrder, bronze: Bronze, *, connect: Connect, on_step: OnStep
) -> Skipped | Waiting | MergedSilver:
    silver = open_silver(order.location)
    position = silver.position if silver else None
    if position is None or position.version != bronze.version:
        # After silver was opened: another merge may have taken it past the version of an older handle, and
        # then bronze would look as if it had been restored.
        _refuse_wrong_tables(order, bronze.reload())
    if silver is not None:
        refuse_foreign(silver, bronze)
        write_missing_facts(order, silver)
    past = _consistency(bronze)
    decision = decide_merge(
        position,
        bronze.state,
        bronze=bronze_number(bronze),
        damage=silver.damage if silver else None,
        passed=past is not None and past.passed,
        fold=bronze.fold,
    )
    if isinstance(decision, NoSnapshot):
        return _without_snapshot(order, decision.reason)
    snapshot = bronze.state.snapshot
    assert snapshot is not None
    assert past is not None
    if not isinstance(decision, UpToDate):
        # Checked before a merge and not only before a rebuild: files that another tool removed carried
        # changes that silver may lack.
        bronze.refuse_thinned(snapshot)
    if order.wait_consistent and not past.passed:
        return Waiting(
            f"{order.table.label}: silver is left unchanged: {past.reason}. mssql_cdc_changes reads them up "
            f"to what capture has processed. {CAPTURE_MOVES}"
        )
    if silver is not None and isinstance(decision, MergeSince) and (few := _too_few(order, silver, bronze)):
        return Skipped(f"{order.table.label}: silver is left unchanged: {few}")
    if silver is None or isinstance(decision, Rebuild):
        silver = _with_the_sources_key(order, bronze, silver, connect=connect)
    request = MergeRequest(
        silver,
        bronze,
        snapshot,
        decided_on=position,
        prefix=silver_prefix(bronze.version, order.attempt.run),
        run_id=order.attempt.run_id,
        passed=past.passed,
    )
    # Memory grows with the changed keys and their images, so concurrent merges take turns; a silver that is
    # up to date reads nothing.
    with turn_of(lambda: 0 if isinstance(decision, UpToDate) else stored_bytes(bronze.table)):
        commit = update_silver(request, decision, confirm_empty=lambda: _refuse_to_empty(order, connect))
    on_step("committed")
    merged = _said(order, silver, bronze, commit=commit, past=past)
    on_step("reported")
    # A first try has no leftovers of its own; files of other runs are left to their own retries.
    if order.attempt.try_number > 1:
        remove_orphans(silver, run=order.attempt.run, up_to=commit.position.version)
    return merged


def _too_few(order: MergeOrder, silver: Silver, bronze: Bronze) -> str | None:
    """Return why the pending changes are left to a later merge; None to merge now."""
    if not order.min_changed_share:
        return None
    assert silver.position is not None
    try:
        waiting = files_since(bronze, silver.position.version)
    except LogForgotten:
        return None  # the log no longer says what is pending: silver will be rebuilt
    if waiting.withdrawn or waiting.oldest is None:
        return None  # repairs are not delayed; moving only the position is cheap
    rows = sum(file.rows for file in current_files(silver))
    wanted = math.ceil(order.min_changed_share * rows)
    due = waiting.oldest + timedelta(seconds=order.max_delay_seconds)
    if waiting.rows >= wanted or order.started_at >= due:
        return None
    return (
        f"{waiting.rows:,} change row(s) wait, fewer than the {wanted:,} that min_changed_share="
        f"{order.min_changed_share} asks for at {rows:,} rows. A merge that starts at or after "
        f"{due.isoformat(timespec='seconds')} takes them in any case (max_delay_seconds)"
    )


def _consistency(bronze: Bronze) -> Consistency | None:
    """Return whether changes have passed the horizon of bronze's snapshot; None without a snapshot."""
    snapshot, coverage = bronze.state.snapshot, bronze.state.coverage
    if snapshot is None or coverage is None:
        return None
    horizon = read_horizon(bronze.table, snapshot)
    return consistency(horizon, coverage.changes, stamp=read_changes_state(bronze.table).stamp)


def _with_the_sources_key(
    order: MergeOrder, bronze: Bronze, silver: Silver | None, *, connect: Connect
) -> Silver:
    """Return silver, created if missing, with the key from the source's catalog or the user."""
    with connect() as session:
        source = loadable_table(session, order.table)
        bronze.check_identity(source.identity)
        key = silver_key(source.keys.key, source.columns, label=order.table.label)
        refuse_uncertain_key(
            source.keys,
            source.description.unique_indexes,
            captured=[column.source.name for column in source.columns],
            allow=order.table.allow or (),
            label=order.table.label,
        )
        if source.keys.key is not None and source.keys.key_to_check:
            check_key(session, source.description.table, source.keys.key)
    if silver is None:
        silver = create_silver(order.location, bronze, key=key)
        refuse_foreign(silver, bronze)
    refuse_other_key(silver.key, key, silver=str(silver.location))
    return silver


def _refuse_to_empty(order: MergeOrder, connect: Connect) -> None:
    """Before silver is emptied, check that the source table is empty too.

    :raises StateDamaged: the source table has rows.
    """
    with connect() as session:
        source = loadable_table(session, order.table)
        rows = count_rows(session, source.description.table, (), KeyRange())
    if rows:
        raise StateDamaged(
            f"{order.table.label}: by bronze the table is empty, and the source counts {rows:,} rows: silver "
            f"is left as it is. Look at the newest snapshot in {order.table.bronze}; "
            "mssql_cdc_bootstrap(resnapshot=True) takes a new one"
        )


def _said(
    order: MergeOrder, silver: Silver, bronze: Bronze, *, commit: MergeCommit, past: Consistency
) -> MergedSilver:
    """Log the outcome and write its facts row."""
    merged = MergedSilver(
        version=commit.version,
        rows=commit.rows,
        position=commit.position,
        counts=commit.counts,
        rebuilt=commit.rebuilt,
        consistency=past,
        horizon=read_horizon(bronze.table, commit.position.snapshot),
        silver=silver.location.uri,
        committed=_has_changed_rows(order, silver, commit),
    )
    write_merge_facts(order, silver, merged)
    counts = commit.counts
    log.info(
        "%s: silver has %d rows (%d inserted, %d updated, %d deleted; %d of %d files written again); %s: %s",
        *(order.table.label, commit.rows, counts.inserted, counts.updated, counts.deleted),
        *(counts.files_removed, counts.files_removed + counts.files_kept),
        "it is the source's state" if past.passed else "it is not yet the source's state",
        past.reason,
    )
    return merged


def _has_changed_rows(order: MergeOrder, silver: Silver, commit: MergeCommit) -> bool:
    """Return whether this Airflow run changed rows of silver, now or in an earlier try."""
    if commit.rebuilt or commit.counts.inserted or commit.counts.updated or commit.counts.deleted:
        return True
    return silver.earlier_try_committed(
        order.attempt, events=(MERGE_EVENT,), counted=("changed_keys", "rebuilt")
    )
