"""The final state and image of each changed key, and their application to rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import one, several
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.log import LogForgotten
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, is_large
from airflow_provider_mssql_cdc.lake.silver.commits import decide
from airflow_provider_mssql_cdc.lake.silver.rows import (
    IMAGES_BYTES,
    POSITION,
    KeySet,
    LatestRows,
    NamedKeys,
    change_row_schema,
    change_rows,
    changed_files,
    group_ends,
)
from airflow_provider_mssql_cdc.lake.storage import BATCH_ROWS
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import ADDS, ORDER, Presence

_INT32, _INT64 = pa.int32(), pa.int64()


class KeyImages:
    """State of some keys, from all of bronze's change rows at or above the smallest LSN that names one.

    :param presence: a :class:`Presence` for each key, in the order of the keys.
    :param are_held: whether the images are in memory; if not, use :meth:`read_again`.
    """

    def __init__(
        self,
        bronze: Bronze,
        named: NamedKeys,
        *,
        schema: pa.Schema,
        until: Lsn | None = None,
        images_bytes: int = IMAGES_BYTES,
    ) -> None:
        """Read bronze.

        :param schema: of the rows that go into silver.
        :param until: the state is that at this LSN; None for the newest.
        :param images_bytes: maximum size of images kept in memory.
        :raises LogForgotten: a key has no such row, or was named by a removed row and has only commits that
            do not change it.
        """
        self.keys, self._bronze, self._schema = named.keys, bronze, schema
        self._above, self._until = named.lowest.decremented(), None if until is None else until.text
        self._files = changed_files(bronze, self._above)
        rows = self._deciding_rows(images_bytes)
        self.presence, self._at = self._decided(rows)
        self._refuse_unfounded(named.withdrawn)
        self.are_held = set(schema.names) <= set(rows.column_names)
        self._rows = rows.select(schema.names).cast(schema) if self.are_held else rows.select(ORDER)

    def held(self, positions: pa.Array) -> pa.Table:
        """Return the images of keys that exist, or may exist, by position."""
        return self._rows.take(pc.take(self._at, positions))

    def read_again(self, positions: pa.Array) -> Iterator[pa.RecordBatch]:
        """Yield the images from bronze, in its order, one file at a time."""
        if not len(positions):
            return
        wanted = KeySet(self.keys.keys.take(positions))
        given: set[int] = set()  # a row that is in bronze twice is one
        places = self._rows.take(pc.take(self._at, positions))
        for rows in self._changes([*wanted.names, *self._schema.names]):
            found = wanted.positions(rows)
            among = pc.is_valid(found)
            rows, found = rows.filter(among), found.filter(among)
            there = _equal_places(rows, places.take(found))
            rows, found = rows.filter(there), found.filter(there)
            new = []
            for at, position in enumerate(found.to_pylist()):
                if position not in given:
                    new.append(at)
                    given.add(position)
            images = rows.take(several(new, _INT64)).select(self._schema.names)
            yield from images.cast(self._schema).to_batches()

    def _changes(
        self, columns: Sequence[str], until: str | None = None, *, files: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        files = self._files if files is None else files
        until = self._until if until is None else until  # a later pass reads further down
        return change_rows(self._bronze, files, columns=columns, above=self._above, until=until)

    def _deciding_rows(self, images_bytes: int) -> pa.Table:
        wanted = [*self.keys.names, *(name for name in self._schema.names if name not in self.keys.names)]
        latest = LatestRows(change_row_schema(self._bronze, wanted), images_bytes=images_bytes)
        for path in self._files:
            columns = [*self.keys.names, *latest.columns]
            for rows in self._changes(columns, files=[path]):
                positions = self.keys.positions(rows)
                among = pc.is_valid(positions)
                latest.add(rows.filter(among), positions.filter(among))
        return latest.table()

    def _decided(self, rows: pa.Table) -> tuple[pa.Array, pa.Array]:
        """Return each key's presence, and the index of its newest add (NULL without one)."""
        positions = rows.column(POSITION).combine_chunks()
        ends = group_ends([positions]) if len(positions) else positions.cast(_INT64)
        if len(ends) < len(self.keys):
            raise LogForgotten("change rows that came since have been taken out again")
        before = pa.concat_arrays([one(-1, _INT64), ends.slice(0, len(ends) - 1)])
        contested = pc.equal(pc.subtract(ends, before), one(2, _INT64)[0])
        operations = rows.column("_operation").combine_chunks().take(ends)
        adds = pc.is_in(operations, value_set=several(ADDS, _INT32))
        there, gone = (one(each, _INT32)[0] for each in (Presence.THERE, Presence.GONE))
        presence = pc.if_else(adds, there, gone)
        if pc.any(contested).as_py():
            found = self._contest(KeySet(self.keys.keys.filter(contested)))
            presence = pc.replace_with_mask(presence, contested, several(found, _INT32))
        added = pc.if_else(contested, pc.subtract(ends, one(1, _INT64)[0]), ends)
        return presence, pc.if_else(pc.or_(adds, contested), added, one(None, _INT64)[0])

    def _contest(self, keys: KeySet) -> list[Presence]:
        compared = [
            field.name
            for field in self._bronze.schema
            if not (field.name in METADATA_NAMES or field.name in keys.names or is_large(field))
        ]
        return decide(keys, self._changes, compared=compared)

    def _refuse_unfounded(self, withdrawn: KeySet | None) -> None:
        if withdrawn is None:
            return
        open_ = pc.equal(self.presence, one(Presence.AS_BEFORE, _INT32)[0])
        if pc.any(pc.is_valid(withdrawn.positions(self.keys.keys.filter(open_)))).as_py():
            raise LogForgotten("change rows that silver was kept by have been taken out")


def _equal_places(rows: pa.Table, places: pa.Table) -> pa.ChunkedArray:
    """Return whether each row is at this place in the order of changes."""
    equal = None
    for name in ORDER:
        one_side, other = rows.column(name), places.column(name)
        both_null = pc.and_(pc.is_null(one_side), pc.is_null(other))
        alike = pc.coalesce(pc.equal(one_side, other), both_null)
        equal = alike if equal is None else pc.and_(equal, alike)
    return equal


_GONE, _THERE = (one(each, pa.int32())[0] for each in (Presence.GONE, Presence.THERE))


class KeyUpdates:
    """The changed keys with their state, to apply to rows of silver.

    The rows show whether a key existed before the changes: a key that its commits do not change keeps that
    state. Thread-safe. Counts rows in ``updated``, ``inserted`` and ``deleted``.
    """

    def __init__(self, images: KeyImages) -> None:
        self.keys = images.keys
        self._images = images
        self._left = pc.indices_nonzero(pc.is_valid(images.presence)).cast(pa.int32())
        self._waiting: list[pa.Array] = []
        self._lock = threading.Lock()
        self.updated = self.inserted = self.deleted = 0

    def is_outdated(self, rows: pa.RecordBatch) -> bool:
        """Return whether some of these rows must be replaced or removed.

        :param rows: only the key columns are needed.
        """
        return bool(self.keys.positions(rows).null_count < rows.num_rows)

    def apply(self, rows: pa.RecordBatch) -> pa.Table:
        """Return the updated rows: unchanged rows, then the images that replace others.

        Images that are not in memory are returned by :meth:`rest`.
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
        """Return the images of keys without a row, in key order, and those not in memory."""
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
        """Return the positions whose image has not been returned yet, and mark them as returned."""
        with self._lock:
            among = pc.is_in(self._left, value_set=positions)
            taken, self._left = self._left.filter(among), self._left.filter(pc.invert(among))
        return taken


def updated_rows(rows: Iterator[pa.RecordBatch], updates: KeyUpdates | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows with the updates applied, then the rows of new keys.

    :param updates: None when no key changed.
    """
    if updates is None:
        yield from rows
        return
    for batch in rows:
        yield from updates.apply(batch).to_batches()
    yield from updates.rest()
