"""Staging: write rows to Parquet files in the table's folder, not yet visible to readers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.arrow_types import arrow_type, captured_schema, repeated
from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, bronze_schema, is_large
from airflow_provider_mssql_cdc.lake.staged_files import numbered, range_prefix
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlannedRange, StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn, SnapshotHeader
from airflow_provider_mssql_cdc.planning.merge import SNAPSHOT_ROW
from airflow_provider_mssql_cdc.task_memory import share_of

log = logging.getLogger(__name__)

TARGET_BYTES = 256 << 20
ROW_GROUP_BYTES = 12 << 20
"""Arrow bytes per row group; two row groups are in memory at once."""


def stage_range(
    bronze: Bronze,
    header: SnapshotHeader,
    planned: PlannedRange,
    batches: Iterable[pa.RecordBatch],
    *,
    attempt: str,
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write the rows of one key range of a whole snapshot, stamped with S; no file without rows.

    The files are not visible to readers. If reading or writing fails, they are removed.

    :param batches: only captured columns, in the plan's order, each with the planned schema.
    :param attempt: unique name of this attempt; part of the file names.
    :raises SchemaDrift: a batch has other columns or types.
    """
    if planned.snapshot != header.snapshot:
        raise ValueError(f"a range is read for its own snapshot, {planned.snapshot}, got {header.snapshot}")
    return stage_rows(
        bronze,
        prefix=range_prefix(planned, attempt),
        stamp=RowStamp(header.instance, header.snapshot, header.commit_ts, snapshot=planned.snapshot),
        columns=header.columns,
        batches=batches,
        target_bytes=target_bytes,
    )


def stage_rows(
    bronze: Bronze,
    *,
    prefix: str,
    stamp: RowStamp,
    columns: Sequence[LakeColumn],
    batches: Iterable[pa.RecordBatch],
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write ``batches`` with ``stamp`` on every row to files ``<prefix>-0.parquet`` and so on."""
    checked = _checked(batches, captured_schema(columns), where=str(bronze.location))
    return stage(
        bronze.location, SnapshotRows(columns, stamp), checked, prefix=prefix, target_bytes=target_bytes
    )


def stage(
    location: TableLocation,
    shape: RowShape,
    batches: Iterable[pa.RecordBatch],
    *,
    prefix: str,
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write batches as row groups to files ``<prefix>-0.parquet`` and so on; no file without rows.

    The files are not visible to readers, and are removed if reading or writing fails. This thread reads
    while another one encodes and compresses.
    """
    writer = TableWriter(
        TableStorage(location), prefix=prefix, schema=shape.schema, target_bytes=target_bytes
    )

    def write(group: list[pa.RecordBatch]) -> None:
        writer.write(*shape.stored(group))

    with _removing_on_failure(writer), ThreadPoolExecutor(1, "parquet") as encoder:
        writing: Future[None] | None = None
        for group in _row_groups(batches):
            # Waiting here bounds memory: one row group is encoded while the next one is read.
            if writing is not None:
                writing.result()
            writing = encoder.submit(write, group)
        if writing is not None:
            writing.result()
        return writer.close()


def _checked(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, where: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.schema.equals(schema):
            raise SchemaDrift(
                f"{where}: rows were read with other columns than planned: "
                f"{_difference(batch.schema, schema)}. "
                "The source table may have changed since it was planned; clear the plan task"
            )
        yield batch


def _difference(read: pa.Schema, planned: pa.Schema) -> str:
    differing = [f"{field.name} {field.type}" for field in read if field not in list(planned)]
    missing = [f"{field.name} {field.type}" for field in planned if field not in list(read)]
    return f"read {differing or 'the same in another order'}, planned {missing or 'the same'}"


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Collect batches up to the size of a row group; split larger ones."""
    collected: list[pa.RecordBatch] = []
    size, most_bytes = 0, share_of(ROW_GROUP_BYTES)
    for batch in batches:
        for piece in _pieces(batch, most_bytes):
            if collected and size + piece.nbytes > most_bytes:
                yield collected
                collected, size = [], 0
            collected.append(piece)
            size += piece.nbytes
    if collected:
        yield collected


def _pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield zero-copy slices of at most about a row group; empty batches yield none."""
    count = max(1, -(-batch.nbytes // most_bytes))
    rows = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


@contextlib.contextmanager
def _removing_on_failure(writer: TableWriter) -> Iterator[None]:
    try:
        yield
    except BaseException:  # a task that is killed by a signal leaves through here too
        writer.abandon()
        raise


@dataclass(slots=True)
class RowStamp:
    """Technical columns written with every row of a snapshot.

    :param start_lsn: the LSN recorded before the read.
    :param commit_ts: its commit time; None when it has no entry in ``cdc.lsn_time_mapping``.
    :param snapshot: S.
    :param chunk: number of the chunk; None on a whole snapshot.
    """

    instance: str
    start_lsn: Lsn
    commit_ts: datetime | None
    snapshot: Lsn
    chunk: int | None = None
    _arrays: dict[str, pa.Array] = field(default_factory=dict, repr=False)

    def _values(self) -> dict[str, Any]:
        return {
            "_capture_instance": self.instance,
            "_start_lsn": self.start_lsn.text,
            "_operation": SNAPSHOT_ROW,
            "_commit_ts": self.commit_ts,
            "_snapshot": self.snapshot.text,
            "_chunk": self.chunk,
        }

    def column(self, name: str, length: int) -> pa.Array:
        """Return ``length`` rows of one technical column, as a slice of a cached array."""
        known = self._arrays.get(name)
        if known is None or len(known) < length:
            known = self._arrays[name] = self._repeated(name, length)
        return known.slice(0, length)

    def _repeated(self, name: str, length: int) -> pa.Array:
        value = self._values().get(name)
        return repeated(value, self.stored_type(name) if value is None else _TYPES[name], length=length)

    @staticmethod
    def stored_type(name: str) -> pa.DataType:
        """Return the Arrow type of :meth:`column`: strings are dictionaries with one entry."""
        return _ONE_WORD if pa.types.is_string(_TYPES[name]) else _TYPES[name]


_TYPES = {name: bronze_schema(()).field(name).type for name in METADATA_NAMES}
_ONE_WORD = pa.dictionary(pa.int8(), pa.string())


FILE_KEY = b"mssql_cdc.file"
"""Footer key of the file's own name, which detects swapped files."""

_DISTINCT = "_seqval"
"""The one of bronze's own columns that a dictionary makes larger: two change rows share a value at most."""

_SAMPLE_ROWS = 4096
_DISTINCT_SHARE = 0.3


class TableWriter:
    """Write row groups to ``<prefix>-0.parquet``, ``-1`` and so on; never an empty file. Not thread-safe.

    :param schema: of the rows as they are stored.
    """

    def __init__(self, storage: TableStorage, *, prefix: str, schema: pa.Schema, target_bytes: int) -> None:
        self._storage = storage
        self._prefix = prefix
        self._target_bytes = target_bytes
        self._schema = schema
        self._repeating: list[str] | None = None
        self._files: list[StagedFile] = []
        self._open: _OpenFile | None = None
        self._created: list[str] = []

    def write(self, table: pa.Table, captured: pa.Table) -> None:
        """Write one row group; ``captured`` shows which columns have repeated values."""
        if self._repeating is None:
            own = [name for name in METADATA_NAMES if name in table.column_names and name != _DISTINCT]
            repeating = _repeating_columns(captured)
            self._repeating = [*own, *(name for name in repeating if name not in own)]
        if self._open is None:
            self._open = self._next_file()
        self._open.write(table)
        if self._open.position >= self._target_bytes:
            self._finish()

    def close(self) -> tuple[StagedFile, ...]:
        """Finish the last file; return sizes and row counts of all files."""
        if self._open is not None:
            self._finish()
        return tuple(self._files)

    def abandon(self) -> None:
        """Remove the written files; ``complete`` removes those that cannot be removed now."""
        if self._open is not None:
            self._open.discard()
        for name in self._created:
            with contextlib.suppress(OSError):
                self._storage.discard(name)

    def _next_file(self) -> _OpenFile:
        name = numbered(self._prefix, len(self._created))
        sink = self._storage.create(name)
        self._created.append(name)
        return _OpenFile(name, sink, schema=self._schema, repeating=self._repeating or [])

    def _finish(self) -> None:
        file, self._open = self._open, None
        assert file is not None
        rows = file.finish(self._storage)
        size = self._storage.size(file.name)
        if size is None:
            raise FileNotFoundError(f"{file.name} is gone right after it was written")
        self._files.append(StagedFile(file.name, size, rows))
        log.debug("staged %s: %d rows, %d bytes", file.name, rows, size)


class RowShape(Protocol):
    """Convert rows as read to rows as a table's files store them."""

    @property
    def schema(self) -> pa.Schema: ...

    def stored(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        """Return the rows with :attr:`schema`, and those of their columns that may repeat values."""
        ...


@dataclass(frozen=True, slots=True)
class WholeRows:
    """Rows that already have all columns."""

    schema: pa.Schema

    def stored(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        rows = pa.Table.from_batches(batches, self.schema)
        return rows, rows


class SnapshotRows:
    """Captured columns, extended by bronze's technical columns."""

    def __init__(self, columns: Sequence[LakeColumn], stamp: RowStamp) -> None:
        self.schema, self._stamp = _staged_schema(columns), stamp

    def stored(self, batches: list[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
        captured = pa.Table.from_batches(batches)
        own = {name: self._stamp.column(name, captured.num_rows) for name in METADATA_NAMES}
        arrays = [own[name] if name in own else captured.column(name) for name in self.schema.names]
        return pa.table(arrays, schema=self.schema), captured


class _OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, name: str, sink: Any, *, schema: pa.Schema, repeating: list[str]) -> None:
        self.name = name
        self._sink = sink
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            use_dictionary=repeating,
            store_schema=False,  # the dictionary types are a way of writing, not the table's types
            store_decimal_as_integer=True,
            # Of a large object the writer would hold the smallest and the largest value in memory, twice,
            # and leave them out of the footer in the end (parquet-cpp, max_statistics_size: 4 KiB).
            write_statistics=[each.name for each in schema if not is_large(each)],
            metadata_collector=self._footers,
        )
        self._writer.add_key_value_metadata({FILE_KEY: name.encode()})

    @property
    def position(self) -> int:
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def finish(self, storage: TableStorage) -> int:
        """Close the file and return its row count."""
        self._writer.close()
        storage.finish(self._sink)
        return int(self._footers[0].num_rows)

    def discard(self) -> None:
        """Close, ignoring errors: otherwise the writer reports them when it is garbage-collected."""
        for part in (self._writer, self._sink):
            with contextlib.suppress(OSError, ValueError, pa.ArrowException):
                part.close()


def _staged_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Return bronze's schema for the Parquet writer."""
    captured = {column.name: arrow_type(column.data_type) for column in columns}
    return pa.schema(
        [
            each.with_type(captured[each.name] if each.name in captured else RowStamp.stored_type(each.name))
            for each in bronze_schema(columns)
        ]
    )


def _repeating_columns(captured: pa.Table) -> list[str]:
    """Return columns worth a dictionary, judged by the first rows: hashing distinct values is expensive."""
    sample = captured.slice(0, _SAMPLE_ROWS)
    return [
        name
        for name in captured.column_names
        if not pa.types.is_boolean(sample.schema.field(name).type)
        and pc.count_distinct(sample.column(name)).as_py() <= _DISTINCT_SHARE * sample.num_rows
    ]
