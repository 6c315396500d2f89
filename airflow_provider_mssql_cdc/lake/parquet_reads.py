"""Rows of a Delta table's files as a schema wants them; row groups are left out by what the footer says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.lake.storage import TableStorage

Bounds = Mapping[str, tuple[Any, Any]]
Wanted = Callable[[Bounds], bool]

BATCH_ROWS = 131_072


def file_batches(
    storage: TableStorage, path: str, schema: pa.Schema, *, wanted: Wanted | None = None
) -> Iterator[pa.RecordBatch]:
    """The columns of ``schema``, by name, with its types; one that the file is older than is NULL.

    :param path: relative to the table's root, decoded.
    :param wanted: asked for each row group, by the bounds of the schema's columns.
    """
    with storage.open(path) as opened:
        file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        groups = [
            index
            for index, bounds in enumerate(group_bounds(file.metadata, schema.names))
            if wanted is None or wanted(bounds)
        ]
        present = [name for name in schema.names if name in file.schema_arrow.names]
        if groups:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=present):
                yield shaped(batch, schema)


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
