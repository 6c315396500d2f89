"""The commits of changes: a window is appended, or a position moved, by compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import CommitConflict
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.change_files import holds_all
from airflow_provider_mssql_cdc.lake.retries import until_committed
from airflow_provider_mssql_cdc.lake.staged_files import actions_just_staged
from airflow_provider_mssql_cdc.lake.transactions import (
    CHANGES,
    coverage_transactions,
    lsn_transactions,
    read_lsn,
)
from airflow_provider_mssql_cdc.model.changes import ChangesState, CommitStamp, InstanceMark, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import StagedFile
from airflow_provider_mssql_cdc.planning.coverage import extended, started_at

log = logging.getLogger(__name__)

BATCH = "mssql_cdc#batch"
"""Number of the newest commit of changes; rows carry it as ``_batch_id``."""

STAMP = "mssql_cdc#stamp"
"""An LSN at or below the position with its commit time: ``.hi``, ``.lo``, and ``.time`` in µs since 1970."""

INSTANCE = "mssql_cdc#instance"
"""The change table that was read last: ``.table``, its object id, and ``.made`` in µs since 1970."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class PositionMoved(CommitConflict):
    """Another run has extended, repaired or re-based the changes meanwhile; nothing was written."""


def read_changes_state(table: DeltaTable) -> ChangesState:
    """What is remembered beside coverage, as this handle sees it."""
    lsn, time = read_lsn(table, STAMP), table.transaction_version(f"{STAMP}.time")
    number, made = (table.transaction_version(f"{INSTANCE}.{part}") for part in ("table", "made"))
    return ChangesState(
        batch=table.transaction_version(BATCH) or 0,
        stamp=None if lsn is None or time is None else CommitStamp(lsn, _EPOCH + time * _MICROSECOND),
        instance=None
        if number is None or made is None
        else InstanceMark(number, (_EPOCH + made * _MICROSECOND).replace(tzinfo=None)),
    )


def begin_coverage(bronze: Bronze, position: Lsn, *, stamp: CommitStamp | None, run_id: str) -> bool:
    """Let changes begin at a position, without a snapshot below it; False when coverage is there already."""

    def once() -> bool:
        if bronze.state.coverage is not None:
            return False
        transactions = coverage_transactions(started_at(position)) + _stamp_transactions(stamp)
        started = {"start": position.text, "run_id": run_id}
        bronze.commit([], transactions=transactions, event="changes", user_metadata=started)
        return True

    begun = until_committed(once, what=f"start of changes in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    return begun


def commit_window(
    bronze: Bronze,
    window: Window,
    files: Sequence[StagedFile],
    *,
    batch: int,
    stamp: CommitStamp | None,
    instance: InstanceMark,
    user_metadata: Mapping[str, Any],
) -> int:
    """Append a window's rows and move the position to its end in one commit; the version it became.

    Reloads the handle, before each further try and at the end.

    :param batch: the number that the rows carry.
    :raises PositionMoved: the position is not the window's start any more, or the number is taken.
    :raises IncompletePlan: a staged file is not there or not as it was written.
    """

    def once() -> int:
        if holds_all(bronze, files):
            return bronze.version  # an earlier try was committed and its answer lost
        transactions = [
            *_moved(bronze, window),
            *_batch_transactions(bronze, batch),
            *_stamp_transactions(stamp),
            *instance_transactions(instance),
        ]
        staged = actions_just_staged(bronze, files)
        return bronze.commit(staged, transactions=transactions, event="changes", user_metadata=user_metadata)

    try:
        return until_committed(once, what=f"changes {window} into {bronze.location}", reload=bronze.reload)
    finally:
        bronze.reload()


def _moved(bronze: Bronze, window: Window) -> list[Transaction]:
    coverage = bronze.state.coverage
    if coverage is None:
        raise PositionMoved(f"{bronze.location} has no coverage any more; another table is in its place")
    try:
        until = extended(coverage, after=window.after, until=window.until).changes
    except CommitConflict as exc:
        raise PositionMoved(str(exc)) from exc
    return lsn_transactions(CHANGES, until)


def _batch_transactions(bronze: Bronze, batch: int) -> list[Transaction]:
    newest = read_changes_state(bronze.table).batch
    if newest + 1 != batch:
        raise PositionMoved(
            f"{bronze.location}: batch {batch} was written by another run meanwhile, this one's rows carry "
            "its number; they are read again under the next one"
        )
    return [Transaction(BATCH, batch)]


def repair_transactions(bronze: Bronze, *, batch: int, position: Lsn) -> list[Transaction]:
    """The position, put again unchanged, and the repair's number.

    Extensions and repairs so carry the same app ids: of two at once one fails and decides anew.

    :raises PositionMoved: the position is another one, or the number is taken.
    """
    coverage = bronze.state.coverage
    if coverage is None or coverage.changes < position:
        raise PositionMoved(f"{bronze.location}: the position is below {position} now")
    return [*lsn_transactions(CHANGES, coverage.changes), *_batch_transactions(bronze, batch)]


def instance_transactions(instance: InstanceMark) -> list[Transaction]:
    made = (instance.create_date.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return [
        Transaction(f"{INSTANCE}.table", instance.change_table_id & 0xFFFFFFFF),
        Transaction(f"{INSTANCE}.made", made),
    ]


def _stamp_transactions(stamp: CommitStamp | None) -> list[Transaction]:
    if stamp is None:
        return []
    time = (stamp.time - _EPOCH) // _MICROSECOND
    return [*lsn_transactions(STAMP, stamp.lsn), Transaction(f"{STAMP}.time", time)]
