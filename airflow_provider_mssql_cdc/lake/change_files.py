"""Change rows as Parquet files: what the server sent and bronze's own columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.constants import repeated
from airflow_provider_mssql_cdc.lake.parquet_files import RollingWriter
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, TIMESTAMP_NTZ
from airflow_provider_mssql_cdc.lake.staging import TARGET_BYTES, write_batches
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.changes import ChangeCounts, CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.planned_column import LakeColumn
from airflow_provider_mssql_cdc.model.staged import StagedFile

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4

_FROM_SERVER = pa.schema(
    [
        pa.field("_start_lsn", pa.string()),
        pa.field("_seqval", pa.string()),
        pa.field("_operation", pa.int32()),
        pa.field("_command_id", pa.int32()),
    ]
)


def change_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """What a statement for change rows returns: four columns of CDC's, then the captured ones."""
    return pa.schema([*_FROM_SERVER, *captured_schema(columns)])


COMMITS_SCHEMA = pa.schema([pa.field("lsn", pa.string()), pa.field("utc_time", TIMESTAMP_NTZ)])


class WindowCommits:
    """The commits of a window in order, each with its commit time in UTC.

    :param batches: by :data:`COMMITS_SCHEMA`.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._table = pa.Table.from_batches(batches, COMMITS_SCHEMA).combine_chunks()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def last(self) -> CommitStamp | None:
        """None when there is no commit."""
        if not len(self):
            return None
        row = self._table.slice(len(self) - 1).to_pylist()[0]
        return CommitStamp(Lsn.parse(row["lsn"]), row["utc_time"].replace(tzinfo=UTC))

    def times_of(self, lsns: pa.ChunkedArray) -> pa.ChunkedArray:
        """The commit time of each LSN; NULL for one that is not among the commits."""
        if not len(self):
            return pa.nulls(len(lsns), TIMESTAMP_NTZ)
        known, times = (self._table.column(name).chunk(0) for name in ("lsn", "utc_time"))
        return pc.take(times, pc.index_in(lsns, value_set=known))


@dataclass(slots=True)
class ChangeStamp:
    """What is written beside the columns of change rows.

    :param batch: number of the commit that will hold the rows.
    """

    instance: str
    commits: WindowCommits
    batch: int
    counts: ChangeCounts = field(default_factory=ChangeCounts)

    def column(self, name: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """One of bronze's own columns for these rows."""
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


_WIDE = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_OWN_TYPES = {"_snapshot": pa.string(), "_chunk": pa.int32()}


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Bronze's schema as its files are written: one width of text and of bytes."""
    return pa.schema([pa.field(each.name, _WIDE.get(each.type, each.type)) for each in schema])


class ChangeWriter(RollingWriter):
    """Writes change rows with every column of bronze; columns that were not read are NULL."""

    def __init__(
        self, storage: TableStorage, *, prefix: str, stamp: ChangeStamp, schema: pa.Schema, target_bytes: int
    ) -> None:
        self._change_stamp = stamp
        super().__init__(storage, prefix=prefix, columns=(), stamp=None, target_bytes=target_bytes)  # type: ignore[arg-type]
        self._schema = plain_schema(schema)

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """One row group."""
        rows = pa.Table.from_batches(batches)
        self._change_stamp.count(rows)
        stored = pa.table([self._column(each, rows) for each in self._schema], schema=self._schema)
        self.write_table(stored, rows.drop_columns(_FROM_SERVER.names))

    def _column(self, wanted: pa.Field, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        if wanted.name in rows.column_names:
            return rows.column(wanted.name)
        if wanted.name in METADATA_NAMES:
            return self._change_stamp.column(wanted.name, rows)
        return pa.nulls(rows.num_rows, wanted.type)


def stage_changes(
    bronze: Bronze,
    *,
    prefix: str,
    stamp: ChangeStamp,
    batches: Iterable[pa.RecordBatch],
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write change rows to files ``<prefix>-0.parquet`` and so on; no rows, no file. ``stamp`` counts them.

    Nobody sees them yet. When reading or writing fails, what was written is removed.
    """
    writer = ChangeWriter(
        TableStorage(bronze.location),
        prefix=prefix,
        stamp=stamp,
        schema=bronze.schema,
        target_bytes=target_bytes,
    )
    return write_batches(writer, batches)


def discard(bronze: Bronze, files: Sequence[StagedFile]) -> None:
    """Remove files that this process staged and that lost.

    One that the table names after all stays: a commit whose answer was lost looks like one that failed.
    """
    named = set(bronze.reload().table.file_uris()) if files else set()
    storage = TableStorage(bronze.location)
    for file in files:
        if not any(uri.endswith(f"/{file.path}") for uri in named):
            storage.discard(file.path)


def holds_all(bronze: Bronze, files: Sequence[StagedFile]) -> bool:
    """Whether the table names every one of these files, and there is one at least."""
    named = {uri.rpartition("/")[2] for uri in bronze.table.file_uris()}
    return bool(files) and {file.path for file in files} <= named
