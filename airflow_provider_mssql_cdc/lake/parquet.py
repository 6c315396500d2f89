"""Parquet files of a table, written and read; what each row is stamped with."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.arrow_types import arrow_type
from airflow_provider_mssql_cdc.lake.arrays import repeated
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, bronze_schema, is_large
from airflow_provider_mssql_cdc.lake.staged_files import numbered
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn

SNAPSHOT_ROW = 0
"""``_operation`` of a snapshot row; 1 to 4 are SQL Server's."""


@dataclass(slots=True)
class RowStamp:
    """What is written beside the captured columns of every row of a snapshot read.

    :param start_lsn: the LSN recorded before the read.
    :param commit_ts: its commit time; None where it is no mapped commit.
    :param snapshot: S.
    :param chunk: number of the chunk, None on a whole snapshot.
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
        """One of bronze's own columns, ``length`` rows of it; a slice of an array that is kept."""
        known = self._arrays.get(name)
        if known is None or len(known) < length:
            known = self._arrays[name] = self._repeated(name, length)
        return known.slice(0, length)

    def _repeated(self, name: str, length: int) -> pa.Array:
        value = self._values().get(name)
        return repeated(value, self.stored_type(name) if value is None else _TYPES[name], length=length)

    @staticmethod
    def stored_type(name: str) -> pa.DataType:
        """The Arrow type that :meth:`column` has: texts are dictionaries of one word."""
        return _ONE_WORD if pa.types.is_string(_TYPES[name]) else _TYPES[name]


_TYPES = {name: bronze_schema(()).field(name).type for name in METADATA_NAMES}
_ONE_WORD = pa.dictionary(pa.int8(), pa.string())


log = logging.getLogger(__name__)

FILE_KEY = b"mssql_cdc.file"
"""In a footer: the file's own name, so that one file put in another's place is noticed."""

_SAMPLE_ROWS = 4096
_DISTINCT_SHARE = 0.3


class TableWriter:
    """Writes row groups to ``<prefix>-0.parquet``, ``-1`` and so on; a file never has no rows.

    Not for two threads at once.

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

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """One row group."""
        rows = pa.Table.from_batches(batches, self._schema)
        self.write_table(rows, rows)

    def write_table(self, table: pa.Table, captured: pa.Table) -> None:
        """One row group as it is to be stored; ``captured`` tells which columns repeat themselves."""
        if self._repeating is None:
            own = [name for name in METADATA_NAMES if name in table.column_names]
            repeating = _repeating_columns(captured)
            self._repeating = [*own, *(name for name in repeating if name not in own)]
        if self._open is None:
            self._open = self._next_file()
        self._open.write(table)
        if self._open.position >= self._target_bytes:
            self._finish()

    def close(self) -> tuple[StagedFile, ...]:
        """Finish the last file; sizes and row counts are those of the finished files."""
        if self._open is not None:
            self._finish()
        return tuple(self._files)

    def abandon(self) -> None:
        """Remove what was written, as far as that works; ``complete`` removes the rest."""
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


class RollingWriter(TableWriter):
    """Writes captured columns with bronze's own ones beside them."""

    def __init__(
        self,
        storage: TableStorage,
        *,
        prefix: str,
        columns: Sequence[LakeColumn],
        stamp: RowStamp,
        target_bytes: int,
    ) -> None:
        super().__init__(storage, prefix=prefix, schema=staged_schema(columns), target_bytes=target_bytes)
        self._stamp = stamp
        self._names = bronze_schema(columns).names

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """One row group."""
        captured = pa.Table.from_batches(batches)
        own = {name: self._stamp.column(name, captured.num_rows) for name in METADATA_NAMES}
        arrays = [own[name] if name in own else captured.column(name) for name in self._names]
        self.write_table(pa.table(arrays, schema=self._schema), captured)


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
        """Rows in the closed file."""
        self._writer.close()
        storage.finish(self._sink)
        return int(self._footers[0].num_rows)

    def discard(self) -> None:
        """Close without a word about it: the writer would otherwise do so when it is collected."""
        for part in (self._writer, self._sink):
            with contextlib.suppress(OSError, ValueError, pa.ArrowException):
                part.close()


def staged_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Bronze's schema as it is handed to the Parquet writer."""
    captured = {column.name: arrow_type(column.data_type) for column in columns}
    return pa.schema(
        [
            each.with_type(captured[each.name] if each.name in captured else RowStamp.stored_type(each.name))
            for each in bronze_schema(columns)
        ]
    )


def _repeating_columns(captured: pa.Table) -> list[str]:
    """Columns that a dictionary pays for, judged by the first rows: hashing what is distinct is dear."""
    sample = captured.slice(0, _SAMPLE_ROWS)
    return [
        name
        for name in captured.column_names
        if not pa.types.is_boolean(sample.schema.field(name).type)
        and pc.count_distinct(sample.column(name)).as_py() <= _DISTINCT_SHARE * sample.num_rows
    ]


Bounds = Mapping[str, tuple[Any, Any]]
Wanted = Callable[[Bounds], bool]

BATCH_ROWS = 131_072
BATCH_BYTES = 16 << 20
"""Of Arrow; a batch is larger only where a single row is."""


def parquet_file(opened: pa.NativeFile) -> pq.ParquetFile:
    """A file to read rows from; every reader of rows opens it here.

    Spark writes timestamps as INT96 by default (spark.sql.parquet.outputTimestampType), which pyarrow reads
    as nanoseconds unless a unit is named: those end in the year 2262, and datetimeoffset in 9999.
    """
    return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")


def file_batches(
    storage: TableStorage, path: str, schema: pa.Schema, *, wanted: Wanted | None = None
) -> Iterator[pa.RecordBatch]:
    """The columns of ``schema``, by name, with its types; one that the file is older than is NULL.

    Batches are bounded in rows and in bytes.

    :param path: relative to the table's root, decoded.
    :param wanted: asked for each row group, by the bounds of the schema's columns.
    """
    with storage.open(path) as opened:
        file = parquet_file(opened)
        groups = [
            index
            for index, bounds in enumerate(group_bounds(file.metadata, schema.names))
            if wanted is None or wanted(bounds)
        ]
        present = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in _bounded(file, groups, present):
            yield shaped(batch, schema)


def _bounded(file: pq.ParquetFile, groups: Sequence[int], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batches of about :data:`BATCH_BYTES`, across row groups where these are small.

    What a row takes in memory is known once some have been read: a footer tells the size in the file, where a
    dictionary holds a value that repeats itself once.
    """
    sizes = {group: _size(file.metadata.row_group(group), columns) for group in groups}
    waiting, row_bytes = list(groups), 0.0
    while waiting:
        run = _together(waiting, sizes, row_bytes=row_bytes)
        del waiting[: len(run)]
        stored = sum(sizes[group][1] for group in run) / max(1, sum(sizes[group][0] for group in run))
        rows = max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(stored, row_bytes, 1))))
        for batch in file.iter_batches(rows, row_groups=run, columns=columns):
            if batch.num_rows:
                row_bytes = max(row_bytes, batch.nbytes / batch.num_rows)
            yield batch


def _size(group: pq.RowGroupMetaData, columns: Sequence[str]) -> tuple[int, int]:
    """Rows of a row group, and bytes of these columns before compression."""
    chunks = (group.column(index) for index in range(group.num_columns))
    return group.num_rows, sum(
        chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns
    )


def _together(groups: Sequence[int], sizes: Mapping[int, tuple[int, int]], *, row_bytes: float) -> list[int]:
    """The next row groups that fit into one batch; one alone as long as the size of a row is not known."""
    run, rows, stored = [groups[0]], *sizes[groups[0]]
    for group in groups[1:] if row_bytes else ():
        rows, stored = rows + sizes[group][0], stored + sizes[group][1]
        if rows > BATCH_ROWS or max(stored, rows * row_bytes) > BATCH_BYTES:
            break
        run.append(group)
    return run


def group_bounds(footer: pq.FileMetaData, names: list[str]) -> Iterator[dict[str, tuple[Any, Any]]]:
    """For each row group the smallest and largest value of these columns, where the footer tells them."""
    positions = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        bounds = {}
        for name in names:
            told = group.column(positions[name]).statistics if name in positions else None
            if told is not None and told.has_min_max:
                bounds[name] = (told.min, told.max)
        yield bounds


def shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns by name, never by place; one that the file is older than is NULL."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
