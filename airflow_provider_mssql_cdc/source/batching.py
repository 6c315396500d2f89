"""How many rows a fetch asks for, and how small batches become large ones: both bounded in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from airflow_provider_mssql_cdc.source.reader import BATCH_BYTES

_FIRST_FETCH = 1024
_LARGE_OBJECT_ROWS = 8


class FetchSize:
    """Rows to ask for next, so that a fetch holds some MB whatever the rows are like.

    It follows the widest rows seen so far and grows fourfold at most, so that wide rows after narrow ones
    cost one large fetch, not a full batch of them. With (max) columns, where a value may have 2 GB, a fetch
    is eight rows at most: a call costs about 40 µs, and eight values of 16 MB fit into memory.

    :param large_objects: the result has a (max) column.
    """

    def __init__(self, batch_rows: int, *, large_objects: bool) -> None:
        self._most = min(batch_rows, _LARGE_OBJECT_ROWS) if large_objects else batch_rows
        self._widest = 1.0
        self.rows = min(1 if large_objects else _FIRST_FETCH, self._most)

    def saw(self, batch: pa.RecordBatch) -> None:
        """Learn from a fetch."""
        if batch.num_rows:
            self._widest = max(self._widest, batch.nbytes / batch.num_rows)
            room = int(BATCH_BYTES // self._widest)
            self.rows = max(1, min(self.rows * 4, self._most, room))


def assembled(batches: Iterable[pa.RecordBatch], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches up to ``batch_rows`` rows or :data:`BATCH_BYTES`; large ones pass as they are."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > batch_rows or size + batch.nbytes > BATCH_BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
