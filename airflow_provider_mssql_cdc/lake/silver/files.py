"""Silver's files: find outdated ones and stage their replacements."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.delta_table import StoredFile, stored_files
from airflow_provider_mssql_cdc.lake.silver.images import KeyUpdates
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.staged_files import discard
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableStorage, file_batches
from airflow_provider_mssql_cdc.model.plan import StagedFile

TARGET_BYTES = 32 << 20
"""Smaller than bronze's, because a merge rewrites whole files."""


def current_files(silver: Silver) -> list[StoredFile]:
    """Return all files of the handle's version; row counts from the footer if the log lacks them."""
    storage = TableStorage(silver.location)
    return [
        file if file.records is not None else replace(file, records=storage.footer(file.path).num_rows)
        for file in stored_files(silver.table, silver.key)
    ]


def outdated_files(silver: Silver, updates: KeyUpdates) -> list[StoredFile]:
    """Return files with a row that an image replaces, ordered by their first key column.

    Candidates are narrowed by the log's statistics, by row group statistics, and then by key columns, up to
    the first matching row.
    """
    storage, keys = TableStorage(silver.location), updates.keys
    compared = pa.schema([silver.schema.field(name) for name in keys.names])
    outdated = []
    for file in current_files(silver):
        if keys.may_be_within(file.bounds):
            batches = file_batches(storage, file.path, compared, wanted=keys.may_be_within)
            if any(updates.is_outdated(batch) for batch in batches):
                outdated.append(file)
    return in_key_order(outdated, keys.names[0])


def in_key_order(files: list[StoredFile], first: str) -> list[StoredFile]:
    """Return the files by their smallest value of the first key column; those without bounds last."""
    known = [file for file in files if first in file.bounds]
    others = [file for file in files if first not in file.bounds]
    return [*sorted(known, key=lambda file: file.bounds[first][0]), *others]


def stage_rows(silver: Silver, prefix: str, rows: Iterable[pa.RecordBatch]) -> tuple[StagedFile, ...]:
    """Write rows to files ``<prefix>-0.parquet`` and so on; no file without rows. Not visible to readers."""
    return stage(silver.location, WholeRows(silver.schema), rows, prefix=prefix, target_bytes=TARGET_BYTES)


_MOST_LANES = 4

Lane = Future[tuple[StagedFile, ...]]


class _Stopped(Exception):
    """Another lane failed, or the task is being terminated."""


def write_again(
    silver: Silver, files: Sequence[StoredFile], updates: KeyUpdates, *, prefix: str
) -> tuple[StagedFile, ...]:
    """Stage the updated rows of these files, then the rows of new keys.

    Files that are adjacent in key order stay together. Memory grows with the number of lanes, which is
    limited by the processors. If a lane fails, the files of all lanes are removed.

    :param files: in key order.
    """
    stop = threading.Event()
    lanes: list[Lane] = []
    shares = _shares(files)
    with ThreadPoolExecutor(len(shares), "silver") as pool:
        try:
            for number, share in enumerate(shares):
                rows = _rows(silver, share, updates, stop=stop)
                if number == len(shares) - 1:
                    rows = _then_the_rest(rows, updates, others=tuple(lanes))
                lanes.append(pool.submit(stage_rows, silver, f"{prefix}-{number}", rows))
            wait(lanes, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # lanes that are done do not notice
    return _outcome(silver, lanes)


def _shares(files: Sequence[StoredFile]) -> list[Sequence[StoredFile]]:
    """Split adjacent files into at least one and at most as many shares as lanes, of about equal size."""
    count = max(1, min(_MOST_LANES, os.cpu_count() or 1, len(files)))
    ends = [len(files) * number // count for number in range(count + 1)]
    return [files[start:end] for start, end in pairwise(ends)]


def _rows(
    silver: Silver, files: Sequence[StoredFile], updates: KeyUpdates, *, stop: threading.Event
) -> Iterator[pa.RecordBatch]:
    storage, schema = TableStorage(silver.location), silver.schema
    for file in files:
        for batch in file_batches(storage, file.path, schema):
            if stop.is_set():
                raise _Stopped
            yield from updates.apply(batch).to_batches()


def _then_the_rest(
    rows: Iterator[pa.RecordBatch], updates: KeyUpdates, *, others: Sequence[Lane]
) -> Iterator[pa.RecordBatch]:
    """Stage new keys last: they are known only after every other lane has processed its files."""
    yield from rows
    wait(others)
    yield from updates.rest()


def _outcome(silver: Silver, lanes: Sequence[Lane]) -> tuple[StagedFile, ...]:
    failures = [failure for lane in lanes if (failure := lane.exception()) is not None]
    if not failures:
        return tuple(file for lane in lanes for file in lane.result())
    for lane in lanes:
        if lane.exception() is None:
            discard(silver, lane.result())
    raise next((failure for failure in failures if not isinstance(failure, _Stopped)), failures[0])
