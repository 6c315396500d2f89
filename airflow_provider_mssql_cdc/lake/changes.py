"""Windows of changes: staged, and committed at the position they were read from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction

from airflow_provider_mssql_cdc.arrow_types import captured_schema, lsn_texts, repeated, several
from airflow_provider_mssql_cdc.errors import CommitConflict
from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import until_committed
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, TIMESTAMP_NTZ, plain_schema
from airflow_provider_mssql_cdc.lake.staging import TARGET_BYTES, stage
from airflow_provider_mssql_cdc.lake.transactions import (
    BATCH,
    CHANGES,
    coverage_transactions,
    instance_transactions,
    lsn_transactions,
    read_changes_state,
    stamp_transactions,
)
from airflow_provider_mssql_cdc.model.capture import (
    ChangeCounts,
    CommitStamp,
    InstanceMark,
    RepeatedHour,
    Window,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.coverage import extended, started_at

log = logging.getLogger(__name__)

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4

_FROM_SERVER = pa.schema(
    [
        pa.field("_start_lsn", pa.binary()),
        pa.field("_seqval", pa.binary()),
        pa.field("_operation", pa.int32()),
        pa.field("_command_id", pa.int32()),
    ]
)


def change_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Return the schema of a change query: four CDC columns, then the captured columns."""
    return pa.schema([*_FROM_SERVER, *captured_schema(columns)])


COMMITS_SCHEMA = pa.schema(
    [pa.field("lsn", pa.string()), pa.field("utc_time", TIMESTAMP_NTZ), pa.field("near_change", pa.int32())]
)

_NEAR = several([1], pa.int32())[0]


class WindowCommits:
    """The commits of a window in order, each with its commit time in UTC.

    :param batches: with :data:`COMMITS_SCHEMA`; times in a repeated hour as of its first pass.
    :param hour_of: returns the repeated hour for an instant shortly before a clock change.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], *, hour_of: Callable[[datetime], RepeatedHour]
    ) -> None:
        self._table = pa.Table.from_batches(batches, COMMITS_SCHEMA).combine_chunks()
        while near := pc.min(self._times().filter(self._near())).as_py():
            self._settle(hour_of(near.replace(tzinfo=UTC)))

    def _near(self) -> pa.ChunkedArray:
        return pc.equal(self._table.column("near_change"), _NEAR)

    def _times(self) -> pa.ChunkedArray:
        return self._table.column("utc_time")

    def _settle(self, hour: RepeatedHour) -> None:
        """Correct the times of the second pass; commits up to the clock change are not checked again."""
        first, change = (
            pa.scalar(at.replace(tzinfo=None), TIMESTAMP_NTZ) for at in (hour.first, hour.change)
        )
        times, before = self._times(), pc.less(self._times(), change)
        if hour.second is not None:
            is_second = pc.greater_equal(self._table.column("lsn"), hour.second.text)
            moved = pc.and_(pc.and_(self._near(), is_second), pc.and_(before, pc.greater_equal(times, first)))
            times = pc.if_else(moved, pc.add(times, pc.subtract(change, first)), times)
        near = pc.if_else(before, 0, self._table.column("near_change"))
        columns = [self._table.column("lsn"), times.cast(TIMESTAMP_NTZ), near.cast(pa.int32())]
        self._table = pa.table(columns, schema=COMMITS_SCHEMA).combine_chunks()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def last(self) -> CommitStamp | None:
        """Return the last commit; None when there is none."""
        if not len(self):
            return None
        row = self._table.slice(len(self) - 1).to_pylist()[0]
        return CommitStamp(Lsn.parse(row["lsn"]), row["utc_time"].replace(tzinfo=UTC))

    def times_of(self, lsns: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the commit time of each LSN; NULL for an LSN that is not among the commits."""
        if not len(self):
            return pa.nulls(len(lsns), TIMESTAMP_NTZ)
        known, times = (self._table.column(name).chunk(0) for name in ("lsn", "utc_time"))
        return pc.take(times, pc.index_in(lsns, value_set=known))


@dataclass(slots=True)
class ChangeStamp:
    """Technical columns written with change rows.

    :param batch: number of the commit that will contain the rows.
    """

    instance: str
    commits: WindowCommits
    batch: int
    counts: ChangeCounts = field(default_factory=ChangeCounts)

    def column(self, name: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Return one of bronze's technical columns for these rows."""
        if name == "_capture_instance":
            return repeated(self.instance, pa.string(), length=rows.num_rows).dictionary_decode()
        if name == "_commit_ts":
            return self.commits.times_of(rows.column("_start_lsn"))
        if name == "_batch_id":
            return repeated(self.batch, pa.int64(), length=rows.num_rows)
        return pa.nulls(rows.num_rows, _OWN_TYPES[name])

    def count(self, rows: pa.Table) -> None:
        """Add these rows to :attr:`counts`."""
        counted = pc.value_counts(rows.column("_operation")).to_pylist()
        operations = {entry["values"]: entry["counts"] for entry in counted}
        ends = pc.min_max(rows.column("_start_lsn")).as_py()
        self.counts = self.counts.plus(
            ChangeCounts(
                rows=rows.num_rows,
                deletes=operations.get(DELETE, 0),
                inserts=operations.get(INSERT, 0),
                updates=operations.get(AFTER, 0),
                min_lsn=Lsn.parse(ends["min"]),
                max_lsn=Lsn.parse(ends["max"]),
            )
        )


_OWN_TYPES = {"_snapshot": pa.string(), "_chunk": pa.int32()}


class ChangeRows:
    """Extend change rows to all columns of bronze, NULL if not read. ``stamp`` counts the rows."""

    def __init__(self, stamp: ChangeStamp, schema: pa.Schema) -> None:
        self.schema, self._stamp = plain_schema(schema), stamp

    def stored(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        rows = _with_lsn_texts(pa.Table.from_batches(batches))
        self._stamp.count(rows)
        whole = pa.table([self._column(each, rows) for each in self.schema], schema=self.schema)
        return whole, rows.drop_columns(_FROM_SERVER.names)

    def _column(self, wanted: pa.Field, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        if wanted.name in rows.column_names:
            return rows.column(wanted.name)
        if wanted.name in METADATA_NAMES:
            return self._stamp.column(wanted.name, rows)
        return pa.nulls(rows.num_rows, wanted.type)


def _with_lsn_texts(rows: pa.Table) -> pa.Table:
    for name in ("_start_lsn", "_seqval"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, lsn_texts(rows.column(name)))
    return rows


def stage_changes(
    bronze: Bronze,
    *,
    prefix: str,
    stamp: ChangeStamp,
    batches: Iterable[pa.RecordBatch],
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write change rows to files ``<prefix>-0.parquet`` and so on; ``stamp`` counts them. No rows, no file.

    The files are not visible to readers. If reading or writing fails, they are removed.
    """
    rows = ChangeRows(stamp, bronze.schema)
    return stage(bronze.location, rows, batches, prefix=prefix, target_bytes=target_bytes)


def holds_all(bronze: Bronze, files: Sequence[StagedFile]) -> bool:
    """Return whether the table names every one of these files, and there is at least one."""
    named = {uri.rpartition("/")[2] for uri in bronze.table.file_uris()}
    return bool(files) and {file.path for file in files} <= named


class PositionMoved(CommitConflict):
    """Another run extended, repaired or re-based the changes; nothing was written."""


def begin_coverage(
    bronze: Bronze, position: Lsn, *, identity: SourceIdentity, stamp: CommitStamp | None, run_id: str
) -> bool:
    """Start changes at a position without a snapshot below it; False when coverage exists already."""

    def once() -> bool:
        if bronze.state.coverage is not None:
            return False
        transactions = [
            *coverage_transactions(started_at(position)),
            *stamp_transactions(stamp),
            *bronze.object_transactions(identity),
        ]
        started = {"start": position.text, "run_id": run_id}
        bronze.commit([], transactions=transactions, event="changes", user_metadata=started)
        return True

    begun = until_committed(once, what=f"start of changes in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    return begun


@dataclass(frozen=True, slots=True)
class StagedWindow:
    """The staged changes of a window, ready to commit.

    :param files: empty for a window without changes.
    :param batch: commit number that the rows carry; the commit must get this number.
    :param user_metadata: recorded in the log by the commit.
    """

    window: Window
    files: Sequence[StagedFile]
    batch: int
    user_metadata: Mapping[str, Any] = field(default_factory=dict)


def commit_window(
    bronze: Bronze,
    staged: StagedWindow,
    *,
    identity: SourceIdentity,
    stamp: CommitStamp | None,
    instance: InstanceMark,
) -> int:
    """Append a window's rows and move the position to its end in one commit; return the new version.

    Reloads the handle before each retry and at the end.

    :raises ForeignTable: bronze holds rows of another table of this name.
    :raises PositionMoved: the position is no longer the window's start, or the batch number is taken.
    :raises IncompletePlan: a staged file is missing or was modified.
    """

    window, files, batch = staged.window, staged.files, staged.batch

    def once() -> int:
        if holds_all(bronze, files):
            return bronze.version  # an earlier try was committed and its answer lost
        bronze.check_object(identity)
        transactions = [
            *_moved(bronze, window),
            *_batch_transactions(bronze, batch),
            *stamp_transactions(stamp),
            *instance_transactions(instance),
            *bronze.object_transactions(identity),
        ]
        return bronze.commit(
            actions_just_staged(bronze, files),
            transactions=transactions,
            event="changes",
            user_metadata=staged.user_metadata,
        )

    try:
        return until_committed(once, what=f"changes {window} into {bronze.location}", reload=bronze.reload)
    finally:
        bronze.reload()


def _moved(bronze: Bronze, window: Window) -> list[Transaction]:
    coverage = bronze.state.coverage
    if coverage is None:
        raise PositionMoved(f"{bronze.location} has no coverage any more; it was replaced by another table")
    try:
        until = extended(coverage, after=window.after, until=window.until).changes
    except CommitConflict as exc:
        raise PositionMoved(str(exc)) from exc
    return lsn_transactions(CHANGES, until)


def _batch_transactions(bronze: Bronze, batch: int) -> list[Transaction]:
    newest = read_changes_state(bronze.table).batch
    if newest + 1 != batch:
        raise PositionMoved(
            f"{bronze.location}: batch {batch} was written by another run, and this one's rows carry "
            "its number; they are read again under the next one"
        )
    return [Transaction(BATCH, batch)]


def repair_transactions(bronze: Bronze, *, batch: int, position: Lsn) -> list[Transaction]:
    """Return the unchanged position and the repair's batch number.

    Extensions and repairs write the same app ids, so that of two concurrent ones one fails and decides
    again.

    :raises PositionMoved: the position changed, or the batch number is taken.
    """
    coverage = bronze.state.coverage
    if coverage is None or coverage.changes < position:
        raise PositionMoved(f"{bronze.location}: the position is below {position} now")
    # Two commits that write one app id conflict (Delta protocol, quoted in delta-io/delta#4442), with an
    # unchanged value too.
    return [*lsn_transactions(CHANGES, coverage.changes), *_batch_transactions(bronze, batch)]
