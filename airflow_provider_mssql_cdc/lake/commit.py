"""The single commit of a whole snapshot: check bronze, check every file, decide, commit, or retry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from deltalake import Transaction
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.arrow_types import naive_utc
from airflow_provider_mssql_cdc.errors import StateDamaged, Superseded
from airflow_provider_mssql_cdc.lake.add_actions import add_actions
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.chunked import landed_waves, latest_horizon
from airflow_provider_mssql_cdc.lake.delta_table import until_committed
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import SnapshotEvent, stored_snapshot
from airflow_provider_mssql_cdc.lake.transactions import (
    BASE,
    SNAPSHOT,
    coverage_transactions,
    horizon_transactions,
    lsn_transactions,
    read_horizon,
    run_app_id,
    was_opened,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.model.source_table import SnapshotHeader
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.planning.coverage import is_other_object
from airflow_provider_mssql_cdc.planning.snapshots import (
    AddSnapshot,
    AlreadyStored,
    coverage_after,
    decide_completion,
    decide_snapshot_commit,
    missing_waves,
    refuse_missing,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotCommit:
    """The snapshot that bronze contains now, from this commit or another one.

    :param snapshot: its S.
    :param version: the version that completed it; a later one if the log was cleaned up.
    :param rows: rows of this snapshot in bronze.
    :param commit_ts: commit time of S (UTC); None when S has no entry in ``cdc.lsn_time_mapping``.
    :param added: whether this call committed it.
    :param rebased: whether existing coverage was moved to begin at S.
    :param horizon: the point that changes must pass so that no row of it can be newer.
    :param event: the event's name in the facts: the table's first snapshot, or a replacement.
    :param reason: one sentence for the log.
    """

    snapshot: Lsn
    version: int
    rows: int
    commit_ts: datetime | None
    added: bool
    rebased: bool
    horizon: ReadHorizon | None
    event: SnapshotEvent
    reason: str


@dataclass(frozen=True, slots=True)
class _Offer:
    """What to commit if bronze's state allows it."""

    header: SnapshotHeader
    rows: int
    horizon: ReadHorizon | None
    resnapshot: bool = False

    def user_metadata(self) -> dict[str, str | int | None]:
        header = self.header
        time = None if header.commit_ts is None else naive_utc(header.commit_ts).replace(tzinfo=UTC)
        return {
            "snapshot": header.instance,
            "lsn": header.snapshot.text,
            "commit_ts": None if time is None else time.isoformat(),
            "rows": self.rows,
            "run_id": header.run_id,
        }


def commit_snapshot(
    location: TableLocation,
    header: SnapshotHeader,
    files: Sequence[StagedFile],
    *,
    horizon: ReadHorizon | None = None,
    resnapshot: bool = False,
    gap_position: Lsn | None = None,
) -> SnapshotCommit:
    """Complete S in bronze, or return the snapshot that bronze already contains.

    Bronze is checked before any file. Idempotent at any point: nothing is added twice.

    :param horizon: the latest of all reads; stored in bronze for silver.
    :param gap_position: the position just above which changes are proven lost, so that coverage may restart
        at S if bronze is still there; None without such a proof.
    :raises IncompletePlan: a staged file is missing, truncated, swapped or of another snapshot.
    :raises SchemaDrift: a staged file, or bronze, has other columns than planned.
    :raises Superseded: a later snapshot re-based coverage above S, a chunked one was opened at S, or a
        resnapshot was read below a fold.
    :raises ForeignTable: bronze was loaded from another table of this name, and this is not a resnapshot.
    :raises CommitConflict: other commits came first too often.
    """
    bronze, identity, snapshot = open_existing(location), header.identity, header.snapshot
    offer = _Offer(header, sum(file.rows for file in files), horizon, resnapshot)

    @cache
    # Cached over the retries: the files do not change, and each check reads a footer.
    def checked_files() -> list[AddAction]:
        return add_actions(bronze, files, snapshot=snapshot, columns=header.columns)

    def once() -> SnapshotCommit:
        bronze.check_identity(identity)
        other = is_other_object(bronze.state, identity)
        if not resnapshot:
            bronze.check_object(identity)
        elif not other and bronze.snapshot_of_run(header.run) is not None:
            return held_snapshot(bronze)  # one per run: this one's files may be gone already
        coverage = bronze.state.coverage
        gap = coverage is not None and coverage.changes == gap_position
        decision = decide_snapshot_commit(
            bronze.state, snapshot, resnapshot=resnapshot, gap=gap, other_object=other
        )
        if isinstance(decision, AlreadyStored):
            if resnapshot:
                refuse_folded(bronze, snapshot, run=header.run)
            return held_snapshot(bronze)
        _refuse_shared_lsn(bronze, snapshot)
        bronze.check_columns(header.columns)
        return _added(bronze, offer, decision=decision, files=checked_files)

    outcome = until_committed(once, what=f"snapshot {snapshot} into {location}", reload=bronze.reload)
    log.info("%s: %s", location, outcome.reason)
    return outcome


def refuse_folded(bronze: Bronze, snapshot: Lsn, *, run: str) -> None:
    """Refuse a resnapshot that was read before bronze's own rows were folded at or above its S.

    :param run: eight hex digits that identify the Airflow run; one that completed its resnapshot is answered.
    :raises Superseded: the fold's snapshot was not read from the source, so it is no answer.
    """
    fold = bronze.fold
    if fold is not None and snapshot <= fold.at and bronze.snapshot_of_run(run) is None:
        raise Superseded(
            f"{bronze.location} was folded at {fold.at}, and this resnapshot was read at {snapshot}: changes "
            "in between are not in bronze any more. Nothing of it is committed; start a new run with "
            "resnapshot=True"
        )


def _refuse_shared_lsn(bronze: Bronze, snapshot: Lsn) -> None:
    """Refuse an S that a chunked snapshot also recorded, as on a quiet database: S separates their rows.

    :raises Superseded: a chunked snapshot was opened at S, so its waves may have rows of the same keys.
    """
    if was_opened(bronze.table, snapshot) or bronze.state.open == snapshot:
        raise Superseded(
            f"a chunked snapshot was opened at {snapshot} while this one was read: rows of both would carry "
            "the same LSN, and keys would occur twice. Nothing of this one is committed; start a new "
            'run, which continues the chunked one (mode="chunked") or records a later LSN'
        )


def commit_completion(location: TableLocation, header: SnapshotHeader, *, waves: int) -> SnapshotCommit:
    """Complete a chunked S whose waves are all in bronze: a commit without files.

    Returns the snapshot that bronze contains if that is S or a later one.

    :param waves: of the stored plan.
    :raises IncompletePlan: waves are missing; names them.
    :raises Superseded: coverage was re-based above S, or S was abandoned.
    """
    bronze, identity, snapshot = open_existing(location), header.identity, header.snapshot

    def once() -> SnapshotCommit:
        bronze.check_identity(identity)
        bronze.check_object(identity)
        decision = decide_completion(bronze.state, snapshot)
        if isinstance(decision, AlreadyStored):
            return held_snapshot(bronze)
        landed = landed_waves(bronze.table, snapshot, waves)
        refuse_missing(missing_waves(waves, landed), snapshot=snapshot, waves=waves)
        rows = sum(wave.rows for wave in landed.values())
        offer = _Offer(header, rows, latest_horizon(landed.values()))
        return _added(bronze, offer, decision=decision, files=list)

    outcome = until_committed(once, what=f"completing {snapshot} in {location}", reload=bronze.reload)
    log.info("%s: %s", location, outcome.reason)
    return outcome


def _added(
    bronze: Bronze,
    offer: _Offer,
    *,
    decision: AddSnapshot,
    files: Callable[[], list[AddAction]],
) -> SnapshotCommit:
    before, header = bronze.state, offer.header
    event: SnapshotEvent = "bootstrap" if before.snapshot is None else "resnapshot"
    version = bronze.commit(
        files(),
        transactions=[
            *_transactions(before, offer, decision=decision),
            *bronze.object_transactions(header.identity),
        ],
        event=event,
        user_metadata=offer.user_metadata(),
    )
    rebased = decision.rebase and before.coverage is not None
    return SnapshotCommit(
        snapshot=header.snapshot,
        version=version,
        rows=offer.rows,
        commit_ts=header.commit_ts,
        added=True,
        rebased=rebased,
        horizon=offer.horizon,
        event=event,
        reason=f"snapshot {header.snapshot} is complete with {offer.rows} rows in version {version}"
        + (", coverage of changes begins again there" if rebased else ""),
    )


def _transactions(before: BronzeState, offer: _Offer, *, decision: AddSnapshot) -> list[Transaction]:
    """Return the state that this commit sets.

    Unchanged coverage writes its base again: a concurrent re-base, which could leave this snapshot below
    coverage, then conflicts; a concurrent extension of changes does not. Restarted coverage writes both
    ends, so a window of the previous table conflicts.
    """
    snapshot = offer.header.snapshot
    # Two commits that write one app id conflict (Delta protocol, quoted in delta-io/delta#4442).
    transactions = lsn_transactions(SNAPSHOT, snapshot)
    if offer.horizon is not None:
        transactions += horizon_transactions(snapshot, offer.horizon)
    if offer.resnapshot:
        transactions += lsn_transactions(run_app_id(offer.header.run), snapshot)
    coverage = coverage_after(before, snapshot, decision=decision)
    if decision.rebase or coverage != before.coverage:
        return transactions + coverage_transactions(coverage)
    return transactions + lsn_transactions(BASE, coverage.base)


def held_snapshot(bronze: Bronze) -> SnapshotCommit:
    """Return the complete snapshot in bronze, described from bronze alone.

    :raises StateDamaged: there is none; check :attr:`~.bronze.Bronze.state` first.
    """
    snapshot = bronze.state.snapshot
    if snapshot is None:
        raise StateDamaged(f"{bronze.location} holds no complete snapshot; clear the plan task")
    known = stored_snapshot(bronze, snapshot)
    return SnapshotCommit(
        snapshot=snapshot,
        version=known.version,
        rows=known.rows,
        commit_ts=known.commit_ts,
        added=False,
        rebased=False,
        horizon=read_horizon(bronze.table, snapshot),
        event=known.event,
        reason=f"bronze holds snapshot {snapshot} already ({known.rows} rows); nothing was added",
    )
