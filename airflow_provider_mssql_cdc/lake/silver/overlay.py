"""Images laid over rows: a row whose key has an image gives way to it, and each image is given out once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.arrays import one, several
from airflow_provider_mssql_cdc.lake.parquet import BATCH_ROWS
from airflow_provider_mssql_cdc.lake.silver.keys import KeySet
from airflow_provider_mssql_cdc.lake.silver.latest import POSITION
from airflow_provider_mssql_cdc.planning.merge import GONE

_TRUE, _FALSE = (one(truth, pa.bool_())[0] for truth in (True, False))


class Overlay:
    """The latest images of some keys, on their way into silver.

    A row that is later than its key's image stays: on a chunked snapshot a row may be stamped above the last
    change of its key. Several threads may lay it over rows at once. What was done is counted in rows:
    ``updated``, ``inserted``, ``deleted``.

    :param images: one row for each key, in the order of the keys; columns of bronze.
    :param schema: of the rows that go into silver.
    """

    def __init__(self, keys: KeySet, images: pa.Table, schema: pa.Schema) -> None:
        if images.num_rows != len(keys):
            raise ValueError(f"{len(keys)} keys have {images.num_rows} images")
        self.keys = keys
        self._images = images.select(schema.names).cast(schema).combine_chunks()
        self._lsns = images.column("_start_lsn").combine_chunks()
        gone = several(GONE, pa.int32())
        self._present = pc.invert(pc.is_in(images.column("_operation"), value_set=gone)).combine_chunks()
        self._left = images.column(POSITION).combine_chunks()
        self._lock = threading.Lock()
        self.updated = self.inserted = self.deleted = 0

    def is_outdated(self, rows: pa.RecordBatch) -> bool:
        """Whether some of these rows must give way; keys of which silver has something later are settled.

        :param rows: the key columns and ``_start_lsn`` suffice.
        """
        _, replaced = self._compared(rows)
        return len(replaced) > 0

    def apply(self, rows: pa.RecordBatch) -> pa.Table:
        """The rows as they are to be: those that stay, then the images of those that gave way."""
        stays, replaced = self._compared(rows)
        kept = pa.Table.from_batches([rows.filter(stays)])
        if not len(replaced):
            return kept
        placed = self._take_out(replaced)
        images = placed.filter(pc.take(self._present, placed))
        with self._lock:
            self.updated += len(images)
            self.deleted += len(placed) - len(images)
        return pa.concat_tables([kept, self._images.take(images)])

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The images of keys that no row had, in the order of the key."""
        new = self._left.filter(pc.take(self._present, self._left))
        self._left = self._left.slice(0, 0)
        self.inserted += len(new)
        rows = self._images.take(new)
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.keys.names])
        yield from rows.take(order).combine_chunks().to_batches(BATCH_ROWS)

    def _compared(self, rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Which rows stay, and the positions of those that do not."""
        positions = self.keys.positions(rows)
        later = pc.greater(rows.column("_start_lsn"), pc.take(self._lsns, positions))
        stays = pc.fill_null(later, _TRUE)
        self._take_out(positions.filter(pc.fill_null(later, _FALSE)))
        return stays, positions.filter(pc.invert(stays))

    def _take_out(self, positions: pa.Array) -> pa.Array:
        """Those of these positions whose image is still to be given out; it is not any more."""
        if not len(positions):
            return positions
        with self._lock:
            among = pc.is_in(self._left, value_set=positions)
            taken, self._left = self._left.filter(among), self._left.filter(pc.invert(among))
        return taken
