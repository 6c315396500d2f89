"""Rows read from a table's Parquet files, and which files and row groups may hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import DELETE

Bounds = Mapping[str, tuple[Any, Any]]
Wanted = Callable[[Bounds], bool]

_UNKNOWN = (None, None)


def may_hold_changes(bounds: Bounds, *, above: Lsn, until: Lsn | None = None) -> bool:
    """Whether a file or a row group of bronze may hold change rows above an LSN and at or below another."""
    low, high = bounds.get("_start_lsn", _UNKNOWN)
    _, operation = bounds.get("_operation", _UNKNOWN)
    if high is not None and high <= above.text:
        return False
    if until is not None and low is not None and low > until.text:
        return False
    return operation is None or operation >= DELETE


def may_hold_snapshot(bounds: Bounds, snapshot: Lsn) -> bool:
    """Whether a file or a row group of bronze may hold rows of snapshot S."""
    low, high = bounds.get("_snapshot", _UNKNOWN)
    return low is None or high is None or low <= snapshot.text <= high


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
