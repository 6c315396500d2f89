"""Staging: the rows of one read, as Parquet files at their final place, seen by nobody yet."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.parquet import RollingWriter, RowStamp, TableWriter
from airflow_provider_mssql_cdc.lake.staged_files import range_prefix
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlannedRange, StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn

log = logging.getLogger(__name__)

TARGET_BYTES = 256 << 20
ROW_GROUP_BYTES = 12 << 20
"""Arrow bytes that are collected before they are written; two such groups are in memory at once."""


def stage_range(
    bronze: Bronze,
    *,
    planned: PlannedRange,
    stamp: Lsn,
    commit_ts: datetime | None,
    instance: str,
    columns: Sequence[LakeColumn],
    batches: Iterable[pa.RecordBatch],
    attempt: str,
    target_bytes: int = TARGET_BYTES,
) -> tuple[StagedFile, ...]:
    """Write the rows of one key range of a whole snapshot; no rows, no file.

    Nothing is visible to readers. When reading or writing fails, what was written is removed.

    :param stamp: the LSN recorded before the read, S on a whole snapshot.
    :param commit_ts: its commit time (UTC), None where it is no mapped commit.
    :param batches: captured columns only, in the plan's order, each with the planned schema.
    :param attempt: names this attempt and no other; part of the file names.
    :raises SchemaDrift: a batch with other columns or types.
    """
    if stamp < planned.snapshot:
        raise ValueError(f"a stamp is never below its snapshot: {stamp} < {planned.snapshot}")
    return stage_rows(
        bronze,
        prefix=range_prefix(planned, attempt),
        stamp=RowStamp(instance, stamp, commit_ts, snapshot=planned.snapshot),
        columns=columns,
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
    writer = RollingWriter(
        TableStorage(bronze.location),
        prefix=prefix,
        columns=columns,
        stamp=stamp,
        target_bytes=target_bytes,
    )
    return write_batches(writer, _checked(batches, captured_schema(columns), where=str(bronze.location)))


def write_batches(writer: TableWriter, batches: Iterable[pa.RecordBatch]) -> tuple[StagedFile, ...]:
    """Write batches as row groups; what was written is removed when that, or reading, fails.

    Reading goes on in this thread while another one encodes and compresses what was read.
    """
    groups = _row_groups(batches)
    with _removing_on_failure(writer), ThreadPoolExecutor(1, "parquet") as encoder:
        writing: Future[None] | None = None
        for group in groups:
            if writing is not None:
                writing.result()
            writing = encoder.submit(writer.write, group)
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
    """Collect batches up to the size of a row group; a batch that is larger is taken apart."""
    collected: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if collected and size + piece.nbytes > ROW_GROUP_BYTES:
                yield collected
                collected, size = [], 0
            collected.append(piece)
            size += piece.nbytes
    if collected:
        yield collected


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices, which copy nothing, of about the size of a row group at most; empty batches have none."""
    count = max(1, -(-batch.nbytes // ROW_GROUP_BYTES))
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
