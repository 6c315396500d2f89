"""A chunked snapshot in bronze: open it, commit its waves, abandon it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, reduce

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.lake.add_actions import add_actions
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.delta_table import query, until_committed
from airflow_provider_mssql_cdc.lake.log import EVENT_KEY
from airflow_provider_mssql_cdc.lake.staged_files import remove_unnamed
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import (
    ABANDONED,
    BASE,
    OPEN,
    coverage_transactions,
    horizon_transactions,
    lsn_transactions,
    opened_app_id,
    read_horizon,
    run_app_id,
    wave_app_id,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.model.source_table import SnapshotHeader
from airflow_provider_mssql_cdc.planning.coverage import is_other_object
from airflow_provider_mssql_cdc.planning.snapshots import (
    AddSnapshot,
    AlreadyStored,
    ResumeLoad,
    coverage_after_opening,
    decide_opening,
    refuse_ended,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """S was opened by this call.

    :param rebased: whether existing coverage was moved to begin at S.
    """

    snapshot: Lsn
    rebased: bool


def open_snapshot(
    bronze: Bronze, header: SnapshotHeader, *, resnapshot: bool = False, gap_position: Lsn | None = None
) -> Opened | ResumeLoad | AlreadyStored:
    """Record S in bronze and start or re-base coverage at it; or return the snapshot that is already there.

    Reloads the handle.

    :param gap_position: the position above which changes are proven lost; None without such a proof.
    :raises NotReadyYet: another snapshot was opened concurrently, at or above S.
    :raises Superseded: coverage begins above S, or changes of another table of this name were read above S.
    :raises ForeignTable: bronze was loaded from another table of this name, and this is not a resnapshot.
    """

    identity, snapshot, run = header.identity, header.snapshot, header.run

    def once() -> Opened | ResumeLoad | AlreadyStored:
        state = bronze.state
        if not resnapshot:
            bronze.check_object(identity)
        gap = state.coverage is not None and state.coverage.changes == gap_position
        decision = decide_opening(
            state,
            snapshot,
            resnapshot=resnapshot,
            snapshot_of_run=bronze.snapshot_of_run(run),
            gap=gap,
            other_object=is_other_object(state, identity),
        )
        if not isinstance(decision, AddSnapshot):
            return decision
        bronze.commit(
            [],
            transactions=[
                *_transactions(bronze, snapshot, decision, run=run if resnapshot else None),
                *bronze.object_transactions(identity),
            ],
            event="snapshot_open",
            user_metadata={
                "open": snapshot.text,
                "capture_instance": header.instance,
                "commit_ts": None if header.commit_ts is None else header.commit_ts.isoformat(),
                "run_id": header.run_id,
            },
        )
        return Opened(snapshot, rebased=decision.rebase and state.coverage is not None)

    what = f"opening of snapshot {snapshot} in {bronze.location}"
    outcome = until_committed(once, what=what, reload=bronze.reload)
    bronze.reload()
    return outcome


def _transactions(
    bronze: Bronze, snapshot: Lsn, decision: AddSnapshot, *, run: str | None
) -> Sequence[Transaction]:
    """Return the transactions of a commit; they include an unchanged base, so a concurrent re-base
    conflicts.
    """
    # Two commits that write one app id conflict (Delta protocol, "Transaction Identifiers";
    # delta-io/delta#4442), so writing an unchanged value works as a lock on it.
    transactions = [*lsn_transactions(OPEN, snapshot), Transaction(opened_app_id(snapshot), 1)]
    if run is not None:
        transactions += lsn_transactions(run_app_id(run), snapshot)
    coverage = coverage_after_opening(bronze.state, snapshot, decision=decision)
    if decision.rebase or coverage != bronze.state.coverage:
        return transactions + coverage_transactions(coverage)
    return transactions + lsn_transactions(BASE, coverage.base)


def abandon_unfinished(bronze: Bronze, *, run_id: str, snapshot: Lsn | None = None) -> Lsn | None:
    """Abandon the open chunked snapshot and return its S; None when there is none.

    Coverage does not change. Rows that waves wrote stay until :func:`delete_rows`.

    :param snapshot: abandon this one only; another open snapshot is not affected.
    """

    def once() -> Lsn | None:
        unfinished, coverage = bronze.state.unfinished, bronze.state.coverage
        if unfinished is None or coverage is None or snapshot not in (None, unfinished):
            return None
        # The base is put again, unchanged, as a completion does: of two at once one is decided again.
        bronze.commit(
            [],
            transactions=[*lsn_transactions(ABANDONED, unfinished), *lsn_transactions(BASE, coverage.base)],
            event="snapshot_open",
            user_metadata={"abandoned": unfinished.text, "run_id": run_id},
        )
        return unfinished

    abandoned = until_committed(once, what=f"abandoning in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    return abandoned


ABANDON_EVENT = "abandon"


def delete_rows(bronze: Bronze, snapshot: Lsn) -> int:
    """Delete the rows of an abandoned snapshot and return their number. Waves have their own files.

    VACUUM frees the space after its retention period.
    """

    def once() -> int:
        # Named as ours, so that these rows do not count as taken by another tool (lake/log.py).
        ours = CommitProperties(custom_metadata={EVENT_KEY: ABANDON_EVENT})
        deleted = bronze.table.delete(
            f"_snapshot = '{snapshot.text}' AND _operation = 0", commit_properties=ours
        )
        return int(deleted["num_deleted_rows"] or 0)

    rows = until_committed(once, what=f"rows of {snapshot} in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    log.info("%s: %d rows of snapshot %s deleted", bronze.location, rows, snapshot)
    return rows


@dataclass(frozen=True, slots=True)
class LandedWave:
    """A wave that bronze contains.

    :param rows: number of its rows.
    :param horizon: upper limit of their age; its time is the end of the read.
    """

    wave: int
    rows: int
    horizon: ReadHorizon | None


@dataclass(frozen=True, slots=True)
class WaveStamps:
    """The stamps read from a wave's rows; None for a wave without rows."""

    low: Lsn | None
    high: Lsn | None
    commit_ts: datetime | None


def landed_wave(table: DeltaTable, snapshot: Lsn, wave: int) -> LandedWave | None:
    """Return the wave as of this handle's version; None when it is not in bronze."""
    rows = table.transaction_version(wave_app_id(snapshot, wave))
    return None if rows is None else LandedWave(wave, rows, read_horizon(table, snapshot, wave=wave))


def landed_waves(table: DeltaTable, snapshot: Lsn, waves: int) -> dict[int, LandedWave]:
    """Return all waves of a plan that bronze contains, by number."""
    found = (landed_wave(table, snapshot, wave) for wave in range(waves))
    return {one.wave: one for one in found if one is not None}


def latest_horizon(landed: Iterable[LandedWave]) -> ReadHorizon | None:
    """Return the point that changes must pass so that no row of these waves can be newer."""
    horizons = [one.horizon for one in landed if one.horizon is not None]
    return reduce(ReadHorizon.merged, horizons) if horizons else None


def commit_wave(
    location: TableLocation,
    header: SnapshotHeader,
    files: Sequence[StagedFile],
    *,
    wave: int,
    stamp: Lsn,
    horizon: ReadHorizon,
) -> tuple[LandedWave, bool]:
    """Commit a wave's files unless another attempt did; return whether this attempt committed.

    Bronze is opened after the read. On a conflict it is reloaded and the wave's app id decides; the same
    files are committed again without a new read. A wave without rows is recorded too. Files that became
    unnecessary are removed.

    :raises Superseded: coverage was re-based above S, or S was abandoned.
    :raises IncompletePlan: a staged file is missing, truncated, swapped or of another snapshot.
    :raises SchemaDrift: a staged file, or bronze, has other columns than planned.
    """
    bronze, identity, snapshot = open_existing(location), header.identity, header.snapshot
    rows = sum(file.rows for file in files)
    landed = LandedWave(wave, rows, horizon)

    @cache
    def checked_files() -> list[AddAction]:
        return add_actions(bronze, files, snapshot=snapshot, columns=header.columns)

    def once() -> tuple[LandedWave, bool]:
        bronze.check_identity(identity)
        bronze.check_object(identity)
        if (theirs := landed_wave(bronze.table, snapshot, wave)) is not None:
            return theirs, False
        refuse_ended(bronze.state, snapshot)
        bronze.check_columns(header.columns)
        bronze.commit(
            checked_files(),
            transactions=[
                Transaction(wave_app_id(snapshot, wave), rows),
                *horizon_transactions(snapshot, horizon, wave=wave),
            ],
            event="snapshot_wave",
            user_metadata={
                "open": snapshot.text,
                "wave": wave,
                "lsn": stamp.text,
                "rows": rows,
                "run_id": header.run_id,
            },
        )
        return landed, True

    what = f"wave {wave} of {snapshot} into {location}"
    outcome, added = until_committed(once, what=what, reload=bronze.reload)
    if not added:
        log.info("%s: wave %d of snapshot %s was there already", location, wave, snapshot)
        remove_unnamed(location, [file.path for file in files])
    return outcome, added


def stamps_of(bronze: Bronze, snapshot: Lsn, *, first_chunk: int, last_chunk: int) -> WaveStamps:
    """Return the stamps of the rows of some chunks, to rebuild a missing facts row."""
    statement = (
        'SELECT min("_start_lsn") AS low, max("_start_lsn") AS high, max("_commit_ts") AS t FROM stored '
        f'WHERE "_snapshot" = \'{snapshot.text}\' AND "_operation" = 0 '
        f'AND "_chunk" >= {int(first_chunk)} AND "_chunk" <= {int(last_chunk)}'
    )
    (row,) = query(bronze.table, statement)
    time: datetime | None = row["t"]
    return WaveStamps(
        None if row["low"] is None else Lsn.parse(row["low"]),
        None if row["high"] is None else Lsn.parse(row["high"]),
        None if time is None else time.replace(tzinfo=UTC),
    )
