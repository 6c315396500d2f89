"""Fold: bronze's own state at an LSN becomes its snapshot, and the rows below it leave the table.

The new snapshot is what a rebuild of silver at that LSN would be, by the same code. It takes out the rows of
the older snapshot and the changes at or below the LSN, in the same commit. Nothing is read from the source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import (
    StoredFile,
    query,
    remove_actions,
    stored_files,
    until_committed,
)
from airflow_provider_mssql_cdc.lake.log import FOLD_EVENT
from airflow_provider_mssql_cdc.lake.schema import (
    METADATA_NAMES,
    plain_schema,
    refuse_append_only,
    refuse_deletion_vectors,
)
from airflow_provider_mssql_cdc.lake.silver.images import KeyImages, KeyUpdates, updated_rows
from airflow_provider_mssql_cdc.lake.silver.rows import changed_files, named_keys
from airflow_provider_mssql_cdc.lake.silver.snapshot import find_doubled, snapshot_rows
from airflow_provider_mssql_cdc.lake.silver.table import silver_schema
from airflow_provider_mssql_cdc.lake.staged_files import discarding_on_failure, rewrite_prefix
from airflow_provider_mssql_cdc.lake.staging import TARGET_BYTES, RowStamp, WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableStorage, file_batches
from airflow_provider_mssql_cdc.lake.transactions import BASE, SNAPSHOT, fold_transactions, lsn_transactions
from airflow_provider_mssql_cdc.model.capture import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.state import Fold, SilverPosition
from airflow_provider_mssql_cdc.planning.merge import DELETE

log = logging.getLogger(__name__)

_FIRST_COLUMNS = ("_start_lsn", "_operation")


class CannotFold(Exception):
    """Bronze cannot be folded now, for the reason given; nothing was committed."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold did.

    :param rows: rows of the new snapshot.
    :param changes: change rows that left the table.
    :param version: version of bronze after it.
    """

    fold: Fold
    rows: int
    changes: int
    version: int
    instance: str


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """What is to be folded.

    :param at: F with its commit time: a change in bronze has this LSN.
    :param key: key columns of silver.
    :param silver: position of the silver that has merged what the fold takes out.
    :param take_up_to: changes at or below this LSN leave the table; those up to F stay as history.
    """

    bronze: Bronze
    at: CommitStamp
    key: Sequence[str]
    silver: SilverPosition
    take_up_to: Lsn
    run_id: str


def newest_change(bronze: Bronze, *, before: datetime, until: Lsn) -> CommitStamp | None:
    """Return the newest commit of a change in bronze before an instant and up to an LSN; None without one."""
    found = query(
        bronze.table,
        'SELECT "_start_lsn" AS lsn, "_commit_ts" AS t FROM stored WHERE "_operation" >= 1 '
        f"AND \"_start_lsn\" <= '{until.text}' AND \"_commit_ts\" < TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}' "
        'ORDER BY "_start_lsn" DESC LIMIT 1',
    )
    return CommitStamp(Lsn.parse(found[0]["lsn"]), _utc(found[0]["t"])) if found else None


def changes_up_to(bronze: Bronze, lsn: Lsn) -> int:
    """Count the change rows at or below an LSN."""
    where = f'"_operation" >= 1 AND "_start_lsn" <= \'{lsn.text}\''
    return int(query(bronze.table, f"SELECT count(*) AS n FROM stored WHERE {where}")[0]["n"])


def fold(request: FoldRequest) -> Folded:
    """Write the state at F as a snapshot and take out what it replaces, in one commit.

    Commits of others are no hindrance while they only add files: the same files are committed on the newest
    version. Reloads the handle.

    :raises CannotFold: bronze changed meanwhile, or holds a row at or below F that silver has not merged.
    :raises StateDamaged: a key stands in several rows of the snapshot, or rows were removed by another tool.
    """
    bronze = request.bronze
    refuse_deletion_vectors(bronze.table)
    refuse_append_only(bronze.table)
    older = bronze.state.snapshot
    assert older is not None
    bronze.refuse_thinned(older)
    taken = _taken_out(request)
    prefix = rewrite_prefix(FOLD_EVENT, bronze.version)
    instance = _instance_of(bronze)
    state = _stage_state(request, older, instance=instance, prefix=f"{prefix}-s")
    with discarding_on_failure(bronze, state):
        left = _Left()
        kept = _stage_kept(request, taken, left, prefix=f"{prefix}-k")
        with discarding_on_failure(bronze, kept):
            version = _commit(request, older, taken, [*state, *kept])
    record = Fold(request.at.lsn, older, request.silver.version)
    rows = sum(file.rows for file in state)
    return Folded(record, rows, left.changes, version, instance)


def _commit(
    request: FoldRequest, older: Lsn, taken: Sequence[StoredFile], staged: Sequence[StagedFile]
) -> int:
    bronze, at = request.bronze, request.at.lsn
    coverage = bronze.state.coverage
    known = {file.logged for file in stored_files(bronze.table)}
    told = {"lsn": at.text, "older": older.text, "run_id": request.run_id}

    def once() -> int:
        state = bronze.state
        if state.snapshot != older or state.unfinished is not None:
            raise CannotFold("another snapshot was opened or completed meanwhile")
        if coverage is None or state.coverage is None or state.coverage.base != coverage.base:
            raise CannotFold("coverage of changes began again meanwhile")
        bronze.refuse_thinned(older)
        files = stored_files(bronze.table, _FIRST_COLUMNS)
        there = {file.logged for file in files}
        if not {file.logged for file in taken} <= there:
            raise CannotFold("another commit took out files that the fold has read")
        _refuse_unmerged(request, [file for file in files if file.logged not in known])
        actions: list[AddAction | RemoveAction] = [
            *remove_actions(taken),
            *actions_just_staged(bronze, staged),
        ]
        # The base is written also when it stays: an open, a completion and a re-basing then conflict.
        transactions = [
            *lsn_transactions(SNAPSHOT, at),
            *lsn_transactions(BASE, at),
            *fold_transactions(Fold(at, older, request.silver.version)),
        ]
        return bronze.commit(
            actions, transactions=transactions, event=FOLD_EVENT, user_metadata=told, overtaken=False
        )

    try:
        return until_committed(once, what=f"fold of {bronze.location}", reload=bronze.reload)
    finally:
        bronze.reload()


def _taken_out(request: FoldRequest) -> list[StoredFile]:
    """Return the files with rows that leave the table: of snapshots, and of changes up to the LSN.

    :raises CannotFold: one of them came after the version that silver has merged.
    """
    bronze, merged = request.bronze, _files_at(request.bronze, request.silver.version)
    files = stored_files(bronze.table, _FIRST_COLUMNS)
    _refuse_unmerged(request, [file for file in files if file.logged not in merged])
    return [file for file in files if file.logged in merged and _may_hold(file, up_to=request.take_up_to)]


def _files_at(bronze: Bronze, version: int) -> set[str]:
    if version == bronze.version:
        return {file.logged for file in stored_files(bronze.table)}
    try:
        table = DeltaTable(bronze.location.uri, version=version, storage_options=bronze.location.options())
    except DeltaError as exc:
        raise CannotFold(
            f"bronze's log no longer has version {version}, which silver has merged; run the merge first"
        ) from exc
    return {file.logged for file in stored_files(table)}


def _refuse_unmerged(request: FoldRequest, newer: Sequence[StoredFile]) -> None:
    """Refuse while a file that silver has not merged holds a row that the fold replaces.

    :raises CannotFold: names the file.
    """
    storage = TableStorage(request.bronze.location)
    for file in newer:
        if _may_hold(file, up_to=request.at.lsn) and _holds(storage, file, up_to=request.at.lsn):
            raise CannotFold(
                f"{file.path} came into bronze after version {request.silver.version}, which silver has "
                f"merged, and holds rows at or below {request.at.lsn}; run the merge first"
            )


def _may_hold(file: StoredFile, *, up_to: Lsn) -> bool:
    """Return whether a file may hold snapshot rows, or changes up to this LSN, by its statistics."""
    lowest_operation = file.bounds.get("_operation", (0, None))[0]
    lowest = file.bounds.get("_start_lsn", ("", None))[0]
    return bool(lowest_operation < DELETE or lowest <= up_to.text)


def _holds(storage: TableStorage, file: StoredFile, *, up_to: Lsn) -> bool:
    read = pa.schema([("_start_lsn", pa.string()), ("_operation", pa.int32())])
    return any(
        pc.any(pc.invert(_stays(batch, up_to))).as_py() for batch in file_batches(storage, file.path, read)
    )


def _stays(batch: pa.RecordBatch, above: Lsn) -> pa.Array:
    """Return which rows are changes above the LSN."""
    changes = pc.greater_equal(batch.column("_operation"), DELETE)
    return pc.fill_null(pc.and_(changes, pc.greater(batch.column("_start_lsn"), above.text)), False)


def _stage_state(request: FoldRequest, older: Lsn, *, instance: str, prefix: str) -> tuple[StagedFile, ...]:
    """Stage the rows of the snapshot with the changes up to F, stamped F."""
    bronze, at = request.bronze, request.at
    schema = plain_schema(silver_schema(bronze.schema, request.key))
    files = changed_files(bronze, older)
    named = named_keys(bronze, files, key=request.key, above=older, until=at.lsn)
    updates = None
    if named is not None:
        updates = KeyUpdates(KeyImages(bronze, named, schema=schema, until=at.lsn))
    doubled = find_doubled(bronze, older, key=request.key, but=None if named is None else named.keys)
    if len(doubled):
        raise StateDamaged(
            f"{bronze.location}: {len(doubled):,} key(s) stand in several rows of snapshot {older}: it "
            "cannot be folded. mssql_cdc_bootstrap(resnapshot=True) takes a new snapshot"
        )
    rows = snapshot_rows(bronze, older, schema=schema, key=request.key)
    stamp = RowStamp(instance, at.lsn, at.time.replace(tzinfo=None), snapshot=at.lsn)
    return stage(
        bronze.location,
        _Stamped(bronze, stamp),
        updated_rows(rows, updates),
        prefix=prefix,
        target_bytes=TARGET_BYTES,
    )


class _Stamped:
    """Rows of silver's shape as rows of a snapshot: all of bronze's columns, its own ones from the stamp."""

    def __init__(self, bronze: Bronze, stamp: RowStamp) -> None:
        self._stamp = stamp
        self.schema = pa.schema(
            [
                each.with_type(RowStamp.stored_type(each.name)) if each.name in METADATA_NAMES else each
                for each in plain_schema(bronze.schema)
            ]
        )

    def stored(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        rows = pa.Table.from_batches(batches)
        captured = rows.select([name for name in self.schema.names if name not in METADATA_NAMES])
        arrays = [
            self._stamp.column(name, rows.num_rows) if name in METADATA_NAMES else captured.column(name)
            for name in self.schema.names
        ]
        return pa.table(arrays, schema=self.schema), captured


@dataclass(slots=True)
class _Left:
    """Count the change rows that leave the table."""

    changes: int = 0


def _stage_kept(
    request: FoldRequest, taken: Sequence[StoredFile], left: _Left, *, prefix: str
) -> tuple[StagedFile, ...]:
    """Stage the changes of these files that stay in the table, and count those that leave it."""
    storage, schema = TableStorage(request.bronze.location), plain_schema(request.bronze.schema)

    def rows() -> Iterator[pa.RecordBatch]:
        for file in taken:
            if file.bounds.get("_operation") == (0, 0):
                continue  # snapshot rows alone: none stays
            for batch in file_batches(storage, file.path, schema):
                stays = _stays(batch, request.take_up_to)
                changes = pc.greater_equal(batch.column("_operation"), DELETE)
                left.changes += pc.sum(pc.and_not(changes, stays)).as_py() or 0
                kept = batch.filter(stays)
                if kept.num_rows:
                    yield kept

    return stage(request.bronze.location, WholeRows(schema), rows(), prefix=prefix, target_bytes=TARGET_BYTES)


def _instance_of(bronze: Bronze) -> str:
    """Return the capture instance that bronze's newest rows were read by."""
    found = query(
        bronze.table, 'SELECT "_capture_instance" AS i FROM stored ORDER BY "_start_lsn" DESC LIMIT 1'
    )
    return str(found[0]["i"])


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC)
