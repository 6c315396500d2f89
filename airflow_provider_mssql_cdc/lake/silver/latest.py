"""Of many change rows the latest one of each key, in memory that grows with the keys, not with the rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.arrays import one
from airflow_provider_mssql_cdc.planning.merge import ORDER

POSITION = "__$position"
"""Number of a row's key in its :class:`~.keys.KeySet`; no source column can have this name."""

_ROWS_COLLECTED = 131_072
_BYTES_COLLECTED = 64 << 20


class LatestRows:
    """Rows go in by batches; what is kept is one row per :data:`POSITION`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._kept = schema.append(pa.field(POSITION, pa.int32())).empty_table()
        self._new: list[pa.Table] = []
        self._new_rows = self._new_bytes = 0

    def add(self, rows: pa.Table, positions: pa.Array | pa.ChunkedArray) -> None:
        self._new.append(rows.append_column(POSITION, positions.cast(pa.int32())))
        self._new_rows += rows.num_rows
        self._new_bytes += rows.nbytes
        many = self._new_rows >= max(_ROWS_COLLECTED, self._kept.num_rows)
        if many or self._new_bytes >= max(_BYTES_COLLECTED, self._kept.nbytes):
            self._reduce()

    def table(self) -> pa.Table:
        """One row per position, in the order of the positions."""
        self._reduce()
        return self._kept

    def _reduce(self) -> None:
        if self._new:
            rows = pa.concat_tables([self._kept, *self._new])
            self._kept = rows.take(_last_of_each(rows)).combine_chunks()
            self._new, self._new_rows, self._new_bytes = [], 0, 0


def _last_of_each(rows: pa.Table) -> pa.Array:
    """Indices of the latest row of each position."""
    ordered = pa.table([rows.column(POSITION), *_order_columns(rows)], names=[POSITION, *ORDER])
    keys = [(name, "ascending") for name in ordered.column_names]
    indices = pc.sort_indices(ordered, sort_keys=keys)
    positions = rows.column(POSITION).take(indices).combine_chunks()
    count = len(positions)
    changes = pc.not_equal(positions.slice(0, count - 1), positions.slice(1))
    ends = pc.indices_nonzero(changes).cast(pa.int64())
    return indices.take(pa.concat_arrays([ends, one(count - 1, pa.int64())]))


def _order_columns(rows: pa.Table) -> list[pa.ChunkedArray]:
    """NULLs first: a command id is never below 1 and a sequence is never empty."""
    lowest = {"_command_id": one(-1, pa.int32())[0], "_seqval": one("", pa.string())[0]}
    return [
        pc.fill_null(rows.column(name), lowest[name]) if name in lowest else rows.column(name)
        for name in ORDER
    ]
