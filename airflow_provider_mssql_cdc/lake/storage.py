"""Location of a Delta table, its files, and rows read from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri, plans_uri
from airflow_provider_mssql_cdc.planning.merge import DELETE
from airflow_provider_mssql_cdc.table import MssqlCdcTable

_UNSAFE_RENAME = "allow_unsafe_rename"
_TRUE = frozenset({"1", "true", "on", "yes", "y", "t"})


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The location of a Delta table; two spellings of one location are equal.

    :param uri: an absolute path, or ``s3://``, ``gs://``, ``az://``, ``abfs://`` or ``abfss://``.
    :param storage_options: as for delta-rs; excluded from repr, comparison and messages.
    :raises ConfigurationError: delta-rs cannot write there, or not safely from concurrent tasks.
    """

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", canonical_uri(self.uri))
        if self.storage_options is not None:
            object.__setattr__(self, "storage_options", MappingProxyType(dict(self.storage_options)))
        _refuse_unsafe_rename(self)

    @classmethod
    def bronze_of(cls, table: MssqlCdcTable) -> TableLocation:
        return cls(table.bronze, table.storage_options)

    @classmethod
    def facts_of(cls, table: MssqlCdcTable) -> TableLocation:
        return cls(table.facts, table.storage_options)

    @classmethod
    def plans_of(cls, table: MssqlCdcTable) -> TableLocation:
        """Return the plans table's location, apart from bronze: bounds are source values."""
        return cls(plans_uri(table.bronze), table.storage_options)

    @property
    def local_path(self) -> Path | None:
        """Return the folder if the table is on a file system."""
        return Path(self.uri) if self.uri.startswith("/") else None

    def options(self) -> dict[str, str] | None:
        """Return a plain dict, as delta-rs requires."""
        return None if self.storage_options is None else dict(self.storage_options)

    def __reduce__(self) -> tuple[type[TableLocation], tuple[str, dict[str, str] | None]]:
        """Pickle by plain values: a mapping proxy cannot be pickled."""
        return (type(self), (self.uri, self.options()))

    def __str__(self) -> str:
        return self.uri


def _refuse_unsafe_rename(location: TableLocation) -> None:
    """Refuse unsafe renames: with concurrent commits the last commit file would overwrite the first."""
    settings: dict[str, str] = dict(location.storage_options or {})
    if location.uri.startswith("s3://"):
        settings.setdefault("AWS_S3_ALLOW_UNSAFE_RENAME", os.environ.get("AWS_S3_ALLOW_UNSAFE_RENAME", ""))
    for key, value in settings.items():
        if key.lower().endswith(_UNSAFE_RENAME) and str(value).strip().lower() in _TRUE:
            raise ConfigurationError(
                f"{key} is on for {location.uri}: two commits at once could overwrite each other and lose "
                "rows. Take it out; S3 has conditional put, which delta-rs uses by default"
            )


class TableStorage:
    """A table's folder on a file system or object store, with the table's own credentials.

    Names are relative to the table's root. Errors are those of the file system (``OSError``).
    """

    def __init__(self, location: TableLocation) -> None:
        self._folder = location.local_path
        if self._folder is not None:
            self._files: pafs.FileSystem = pafs.SubTreeFileSystem(str(self._folder), pafs.LocalFileSystem())
        else:
            self._files = pafs.PyFileSystem(DeltaStorageHandler(location.uri, location.options()))

    def create(self, name: str) -> Any:
        """Open a binary sink for a new file; on an object store only the unique name avoids overwriting."""
        if self._folder is not None:
            return (self._folder / name).open("xb")
        # Without a buffer, Arrow hands its own buffers on, and delta-rs takes bytes alone.
        return self._files.open_output_stream(name, buffer_size=1 << 20)

    def finish(self, sink: Any) -> None:
        """Close a sink so that its bytes survive a crash of this machine.

        An object store responds once it holds the object. A file system does not: without fsync, a power
        failure can leave a file of the right length with zero blocks before a valid footer.
        """
        if self._folder is not None:
            sink.flush()
            os.fsync(sink.fileno())
        sink.close()
        if self._folder is not None:
            _sync_folder(self._folder)

    def size(self, name: str) -> int | None:
        """Return the size in bytes; None when the file does not exist."""
        info = self._files.get_file_info(name)
        return int(info.size) if info.type == pafs.FileType.File else None

    def footer(self, name: str) -> pq.FileMetaData:
        """Return the Parquet footer; ``pyarrow.ArrowInvalid`` if the file has none."""
        with self._files.open_input_file(name) as file:
            return pq.read_metadata(file)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for reading."""
        return self._files.open_input_file(name)

    def names(self, prefix: str, *, before: datetime | None = None) -> list[str]:
        """Return files at the table's root whose names begin with ``prefix``.

        :param before: only those last written before this instant.
        """
        selected = self._files.get_file_info(pafs.FileSelector("", recursive=False))
        names = [
            info.path.rpartition("/")[2]
            for info in selected
            if info.type == pafs.FileType.File and (before is None or info.mtime < before)
        ]
        return sorted(name for name in names if name.startswith(prefix))

    def discard(self, name: str) -> bool:
        """Remove a file; False if it did not exist, even when another process removed it just before."""
        if self.size(name) is None:
            return False
        try:
            self._files.delete_file(name)
        except FileNotFoundError:
            return False
        return True


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the entry of a new file is durable too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


UNREADABLE = (OSError, pa.ArrowInvalid)
"""Exceptions of reading a file that is truncated, corrupt or missing."""


Bounds = Mapping[str, tuple[Any, Any]]
Wanted = Callable[[Bounds], bool]

_UNKNOWN = (None, None)


def may_hold_changes(bounds: Bounds, *, above: Lsn, until: Lsn | None = None) -> bool:
    """Return whether a file or row group of bronze may contain change rows above one LSN, up to another."""
    low, high = bounds.get("_start_lsn", _UNKNOWN)
    _, operation = bounds.get("_operation", _UNKNOWN)
    if high is not None and high <= above.text:
        return False
    if until is not None and low is not None and low > until.text:
        return False
    return operation is None or operation >= DELETE


def may_hold_snapshot(bounds: Bounds, snapshot: Lsn) -> bool:
    """Return whether a file or row group of bronze may contain rows of snapshot S."""
    low, high = bounds.get("_snapshot", _UNKNOWN)
    return low is None or high is None or low <= snapshot.text <= high


BATCH_ROWS = 131_072
BATCH_BYTES = 16 << 20
"""Arrow bytes per batch; exceeded only by a single larger row."""


def parquet_file(opened: pa.NativeFile) -> pq.ParquetFile:
    """Open a file to read rows; every reader of rows uses this function.

    Spark writes timestamps as INT96 by default (spark.sql.parquet.outputTimestampType), which pyarrow reads
    as nanoseconds unless a unit is set: those end in the year 2262, and datetimeoffset in 9999.
    """
    return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")


def file_batches(
    storage: TableStorage, path: str, schema: pa.Schema, *, wanted: Wanted | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of ``schema``, by name and type; NULL for a column added after the file was written.

    Batches are bounded in rows and in bytes.

    :param path: relative to the table's root, decoded.
    :param wanted: called with each row group's bounds of the schema's columns; False skips it.
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
    """Yield batches of about :data:`BATCH_BYTES`, across small row groups.

    The size of a row in memory is known only after some were read: the footer has the encoded size, where a
    dictionary stores a repeated value once.
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
    """Return a row group's rows, and the uncompressed bytes of these columns."""
    chunks = (group.column(index) for index in range(group.num_columns))
    return group.num_rows, sum(
        chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in columns
    )


def _together(groups: Sequence[int], sizes: Mapping[int, tuple[int, int]], *, row_bytes: float) -> list[int]:
    """Return the next row groups that fit into one batch; a single one until the row size is known."""
    run, rows, stored = [groups[0]], *sizes[groups[0]]
    for group in groups[1:] if row_bytes else ():
        rows, stored = rows + sizes[group][0], stored + sizes[group][1]
        if rows > BATCH_ROWS or max(stored, rows * row_bytes) > BATCH_BYTES:
            break
        run.append(group)
    return run


def group_bounds(footer: pq.FileMetaData, names: list[str]) -> Iterator[dict[str, tuple[Any, Any]]]:
    """Return each row group's minimum and maximum of these columns, if the footer has them."""
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
    """Select columns by name, never by index; NULL for a column added after the file was written."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
