"""Images laid over rows: a row whose key has changed gives way to it, and each image is given out once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.arrays import one
from airflow_provider_mssql_cdc.lake.parquet import BATCH_ROWS
from airflow_provider_mssql_cdc.lake.silver.images import KeyImages
from airflow_provider_mssql_cdc.planning.merge import Presence

_GONE, _THERE = (one(each, pa.int32())[0] for each in (Presence.GONE, Presence.THERE))


class Overlay:
    """The state of some keys, on its way into silver.

    The rows that it is laid over tell whether a key was there before the changes, which is what a key is
    whose commits leave it as it was. Several threads may lay it over rows at once. What was done is counted
    in rows: ``updated``, ``inserted``, ``deleted``.
    """

    def __init__(self, images: KeyImages) -> None:
        self.keys = images.keys
        self._images = images
        self._left = pc.indices_nonzero(pc.is_valid(images.presence)).cast(pa.int32())
        self._waiting: list[pa.Array] = []
        self._lock = threading.Lock()
        self.updated = self.inserted = self.deleted = 0

    def is_outdated(self, rows: pa.RecordBatch) -> bool:
        """Whether some of these rows must give way.

        :param rows: the key columns suffice.
        """
        return bool(self.keys.positions(rows).null_count < rows.num_rows)

    def apply(self, rows: pa.RecordBatch) -> pa.Table:
        """The rows as they are to be: those that stay, then the images of those that gave way.

        Images that are not in memory come with :meth:`rest`.
        """
        positions = self.keys.positions(rows)
        kept = pa.Table.from_batches([rows.filter(pc.is_null(positions))])
        if positions.null_count == rows.num_rows:
            return kept
        placed = self._take_out(positions.filter(pc.is_valid(positions)))
        shown = placed.filter(pc.not_equal(pc.take(self._images.presence, placed), _GONE))
        with self._lock:
            self.updated += len(shown)
            self.deleted += len(placed) - len(shown)
            if not self._images.are_held:
                self._waiting.append(shown)
                return kept
        return pa.concat_tables([kept, self._images.held(shown)])

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The images of keys that no row had, in the order of the key; and those that are not in memory."""
        new = self._left.filter(pc.equal(pc.take(self._images.presence, self._left), _THERE))
        self._left = self._left.slice(0, 0)
        self.inserted += len(new)
        if not self._images.are_held:
            yield from self._images.read_again(pa.concat_arrays([*self._waiting, new]))
            return
        rows = self._images.held(new)
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in self.keys.names])
        yield from rows.take(order).combine_chunks().to_batches(BATCH_ROWS)

    def _take_out(self, positions: pa.Array) -> pa.Array:
        """Those of these positions whose image is still to be given out; it is not any more."""
        with self._lock:
            among = pc.is_in(self._left, value_set=positions)
            taken, self._left = self._left.filter(among), self._left.filter(pc.invert(among))
        return taken
