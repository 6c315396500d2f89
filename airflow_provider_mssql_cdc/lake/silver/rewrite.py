"""Files of silver written again with images in the place of the rows that give way, several at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import pairwise

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.parquet_reads import file_batches
from airflow_provider_mssql_cdc.lake.silver.files import SilverFile, discard, stage
from airflow_provider_mssql_cdc.lake.silver.overlay import Overlay
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.staged import StagedFile

_MOST_LANES = 4

Lane = Future[tuple[StagedFile, ...]]


class _Stopped(Exception):
    """Another lane has failed, or the task is being ended."""


def write_again(
    silver: Silver, files: Sequence[SilverFile], overlay: Overlay, *, prefix: str
) -> tuple[StagedFile, ...]:
    """Stage the rows of these files as they are to be, then those of keys that silver did not have.

    Neighbours in the order of the key stay together. Memory grows with the number of lanes, which the
    processors limit. When a lane fails, what all of them staged is removed.

    :param files: in the order of the key.
    """
    stop = threading.Event()
    lanes: list[Lane] = []
    shares = _shares(files)
    with ThreadPoolExecutor(len(shares), "silver") as pool:
        try:
            for number, share in enumerate(shares):
                rows = _rows(silver, share, overlay, stop=stop)
                if number == len(shares) - 1:
                    rows = _then_the_rest(rows, overlay, others=tuple(lanes))
                lanes.append(pool.submit(stage, silver, f"{prefix}-{number}", rows))
            wait(lanes, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # lanes that are done do not notice
    return _outcome(silver, lanes)


def _shares(files: Sequence[SilverFile]) -> list[Sequence[SilverFile]]:
    """Neighbouring files, in as many shares of about the same number as there are lanes; at least one."""
    count = max(1, min(_MOST_LANES, os.cpu_count() or 1, len(files)))
    ends = [len(files) * number // count for number in range(count + 1)]
    return [files[start:end] for start, end in pairwise(ends)]


def _rows(
    silver: Silver, files: Sequence[SilverFile], overlay: Overlay, *, stop: threading.Event
) -> Iterator[pa.RecordBatch]:
    storage, schema = TableStorage(silver.location), silver.schema
    for file in files:
        for batch in file_batches(storage, file.path, schema):
            if stop.is_set():
                raise _Stopped
            yield from overlay.apply(batch).to_batches()


def _then_the_rest(
    rows: Iterator[pa.RecordBatch], overlay: Overlay, *, others: Sequence[Lane]
) -> Iterator[pa.RecordBatch]:
    """Which keys silver does not have is known when every other lane has been through its files."""
    yield from rows
    wait(others)
    yield from overlay.rest()


def _outcome(silver: Silver, lanes: Sequence[Lane]) -> tuple[StagedFile, ...]:
    failures = [failure for lane in lanes if (failure := lane.exception()) is not None]
    if not failures:
        return tuple(file for lane in lanes for file in lane.result())
    for lane in lanes:
        if lane.exception() is None:
            discard(silver, lane.result())
    raise next((failure for failure in failures if not isinstance(failure, _Stopped)), failures[0])
