"""Of many change rows those that decide a key, in memory that grows with the keys, not with the rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.arrays import one, several
from airflow_provider_mssql_cdc.planning.merge import ADDS, ORDER

POSITION = "__$position"
"""Number of a row's key in its :class:`~.keys.KeySet`; no source column can have this name."""

IMAGES_BYTES = 128 << 20
"""Images up to this size are kept; of larger ones only their place in the order, and they are read again."""

_ROWS_COLLECTED = 131_072
_BYTES_COLLECTED = 64 << 20


class LatestRows:
    """Rows go in by batches; what is kept of each :data:`POSITION` is its last row, and where that one
    removes an image also the row that added one last in the same commit.

    An add of an earlier commit is not needed: after a commit that only removes, the key is gone.
    """

    def __init__(self, schema: pa.Schema, *, images_bytes: int = IMAGES_BYTES) -> None:
        self._kept = schema.append(pa.field(POSITION, pa.int32())).empty_table()
        self._images_bytes = images_bytes
        self._new: list[pa.Table] = []
        self._new_rows = self._new_bytes = 0
        self.has_images = True

    @property
    def columns(self) -> Sequence[str]:
        """Those that are still kept, without :data:`POSITION`."""
        return [name for name in self._kept.column_names if name != POSITION]

    def add(self, rows: pa.Table, positions: pa.Array | pa.ChunkedArray) -> None:
        rows = rows.select(self.columns)
        self._new.append(rows.append_column(POSITION, positions.cast(pa.int32())))
        self._new_rows += rows.num_rows
        self._new_bytes += rows.nbytes
        many = self._new_rows >= max(_ROWS_COLLECTED, self._kept.num_rows)
        if many or self._new_bytes >= max(_BYTES_COLLECTED, self._kept.nbytes):
            self._reduce()

    def table(self) -> pa.Table:
        """In the order of the positions; of one position the row that adds first."""
        self._reduce()
        return self._kept

    def _reduce(self) -> None:
        if not self._new:
            return
        rows = pa.concat_tables([self._kept, *self._new])
        deciding = _deciding(rows)
        if self.has_images and rows.nbytes > self._images_bytes and self._grew_too_large(rows, deciding):
            self.has_images = False
            rows = rows.select([*ORDER, POSITION])
        self._kept = rows.take(deciding).combine_chunks()
        self._new, self._new_rows, self._new_bytes = [], 0, 0

    def _grew_too_large(self, rows: pa.Table, deciding: pa.Array) -> bool:
        """By the average row: what is taken is not copied to find out."""
        return bool(rows.nbytes / rows.num_rows * len(deciding) > self._images_bytes)


def _deciding(rows: pa.Table) -> pa.Array:
    """Indices of each position's last row, after the last add of the same commit where that row removes."""
    indices = sorted_indices(rows, [POSITION])
    positions, operations = (
        rows.column(name).take(indices).combine_chunks() for name in (POSITION, "_operation")
    )
    last = group_ends([positions])
    adds = pc.is_in(operations, value_set=several(ADDS, pa.int32()))
    removed = last.filter(pc.invert(adds.take(last)))
    if not len(removed):
        return indices.take(last)
    among = pc.and_(adds, pc.is_in(positions, value_set=positions.take(removed)))
    added = pc.indices_nonzero(among).cast(pa.int64())
    if len(added):
        added = added.take(group_ends([positions.take(added)]))
        lsns = rows.column("_start_lsn").take(indices).combine_chunks()
        its_last = removed.take(pc.index_in(positions.take(added), value_set=positions.take(removed)))
        added = added.filter(pc.equal(lsns.take(added), lsns.take(its_last)))
    both = pa.concat_arrays([last, added])
    return indices.take(both.take(pc.sort_indices(both)))


def sorted_indices(rows: pa.Table, groups: Sequence[str]) -> pa.Array:
    """Indices of the rows by these columns, then in the order of changes, NULLs first."""
    names = [*groups, *(name for name in ORDER if name not in groups)]
    ordered = pa.table([_without_nulls(rows.column(name), name) for name in names], names=names)
    return pc.sort_indices(ordered, sort_keys=[(name, "ascending") for name in names]).cast(pa.int64())


def _without_nulls(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A command id is never below 1 and a sequence is never empty: what stands for NULL comes first."""
    lowest = {"_command_id": one(-1, pa.int32())[0], "_seqval": one("", pa.string())[0]}
    return pc.fill_null(column, lowest[name]) if name in lowest else column


def group_ends(columns: Sequence[pa.Array]) -> pa.Array:
    """Of sorted rows the index of the last one of each group of equal values; there is at least one row."""
    count = len(columns[0])
    changes = None
    for column in columns:
        differs = pc.not_equal(column.slice(0, count - 1), column.slice(1))
        changes = differs if changes is None else pc.or_(changes, differs)
    ends = pc.indices_nonzero(changes).cast(pa.int64())
    return pa.concat_arrays([ends, one(count - 1, pa.int64())])
