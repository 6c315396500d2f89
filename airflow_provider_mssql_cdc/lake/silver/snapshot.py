"""Snapshot rows from which silver is built, and keys that occur in several of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.arrow_types import one, several, texts
from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import stored_files
from airflow_provider_mssql_cdc.lake.schema import plain_schema
from airflow_provider_mssql_cdc.lake.silver.rows import KeySet, is_comparable, plain
from airflow_provider_mssql_cdc.lake.storage import (
    Bounds,
    TableStorage,
    Wanted,
    file_batches,
    may_hold_snapshot,
    parquet_file,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import SNAPSHOT_ROW


def _anything(bounds: Bounds) -> bool:
    return True


def snapshot_rows(
    bronze: Bronze, snapshot: Lsn, *, schema: pa.Schema, key: Sequence[str], within: Wanted = _anything
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of snapshot S with the columns of ``schema``.

    :param within: called with each row group's column bounds; False skips it. None reads all.
    :raises StateDamaged: a key column is NULL in one of them.
    """
    storage = TableStorage(bronze.location)
    read = schema.append(pa.field("_snapshot", pa.string())).append(pa.field("_operation", pa.int32()))
    wanted_snapshot, wanted_operation = one(snapshot.text, pa.string())[0], one(SNAPSHOT_ROW, pa.int32())[0]

    def wanted(bounds: Bounds) -> bool:
        return may_hold_snapshot(bounds, snapshot) and within(bounds)

    for path in snapshot_files(bronze, snapshot):
        for batch in file_batches(storage, path, read, wanted=wanted):
            of_snapshot = pc.equal(batch.column("_snapshot"), wanted_snapshot)
            loaded = pc.equal(batch.column("_operation"), wanted_operation)
            rows = batch.filter(pc.and_kleene(of_snapshot, loaded))
            _refuse_nulls_in_snapshot(rows, key, where=str(bronze.location))
            yield rows.select(schema.names)


def snapshot_files(bronze: Bronze, snapshot: Lsn) -> list[str]:
    """Return files of this version that may contain rows of snapshot S, by their statistics."""
    return [
        file.path
        for file in stored_files(bronze.table, ("_snapshot",))
        if may_hold_snapshot(file.bounds, snapshot) and not file.is_empty_in("_snapshot")
    ]


def _refuse_nulls_in_snapshot(rows: pa.RecordBatch, key: Sequence[str], *, where: str) -> None:
    if empty := [name for name in key if rows.column(name).null_count]:
        raise StateDamaged(
            f"{where}: key column(s) {', '.join(empty)} are NULL in rows of the snapshot, so these identify "
            "no row: name NOT NULL columns with key=, and another silver path"
        )


ROWS_AT_ONCE = 1_000_000
_FILES_SAMPLED, _VALUES_EACH = 64, 1000

Range = tuple["pa.Scalar | None", "pa.Scalar | None"]


class DoubledKeys:
    """Keys of several snapshot rows, each with its largest stamp."""

    def __init__(self, keys: KeySet | None, stamps: pa.Array | None) -> None:
        self._keys, self._stamps = keys, stamps

    def __len__(self) -> int:
        return 0 if self._keys is None else len(self._keys)

    def once(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows with each of these keys once, that with the largest stamp."""
        given: set[int] = set()
        for batch in batches:
            yield batch if self._keys is None else self._without_others(batch, given)

    def _without_others(self, batch: pa.RecordBatch, given: set[int]) -> pa.RecordBatch:
        assert self._keys is not None
        positions = self._keys.positions(batch)
        if positions.null_count == batch.num_rows:
            return batch
        newest = pc.equal(batch.column("_start_lsn"), pc.take(self._stamps, positions))
        kept = []
        told = zip(positions.to_pylist(), newest.to_pylist(), strict=True)
        for at, (position, is_newest) in enumerate(told):
            if position is None or (is_newest and position not in given):
                kept.append(at)
                given.add(position)
        return batch.take(several(kept, pa.int64()))


def find_doubled(
    bronze: Bronze,
    snapshot: Lsn,
    *,
    key: Sequence[str],
    but: KeySet | None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> DoubledKeys:
    """Find keys of several rows of snapshot S.

    :param but: keys that changes above S name; their state follows from the changes.
    """
    stored = plain_schema(bronze.schema)
    schema = pa.schema([stored.field(name) for name in key])
    found = []
    for low, high in _ranges(bronze, snapshot, first=schema.field(0), rows_at_once=rows_at_once):
        rows = _keys_within((low, high), bronze, snapshot, schema=schema)
        found.append(_repeated(rows, but))
    keys = pa.concat_tables(found)
    if not keys.num_rows:
        return DoubledKeys(None, None)
    doubled = KeySet(keys)
    return DoubledKeys(doubled, _largest_stamps(doubled, bronze, snapshot, schema=schema))


def _keys_within(within: Range, bronze: Bronze, snapshot: Lsn, *, schema: pa.Schema) -> pa.Table:
    low, high = within
    first = schema.names[0]

    def may_hold(bounds: Bounds) -> bool:
        smallest, largest = bounds.get(first, (None, None))
        if not is_comparable(smallest):
            return True
        above = low is None or plain(largest) >= plain(low.as_py())
        return above and (high is None or plain(smallest) < plain(high.as_py()))

    batches = []
    for batch in snapshot_rows(bronze, snapshot, schema=schema, key=schema.names, within=may_hold):
        if low is not None:
            batch = batch.filter(pc.greater_equal(batch.column(first), low))
        if high is not None:
            batch = batch.filter(pc.less(batch.column(first), high))
        batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _repeated(rows: pa.Table, but: KeySet | None) -> pa.Table:
    if _are_distinct(rows):
        return rows.slice(0, 0)
    # With threads the order of the groups is not stable (pyarrow.Table.group_by).
    counted = rows.group_by(rows.column_names, use_threads=False).aggregate([([], "count_all")])
    several_rows = counted.filter(pc.greater(counted.column("count_all"), several([1], pa.int64())[0]))
    keys = several_rows.select(rows.column_names)
    return keys if but is None else keys.filter(pc.is_null(but.positions(keys)))


def _are_distinct(rows: pa.Table) -> bool:
    """Whether no key is there twice; False for keys that only a grouping tells of, which imports pandas."""
    kinds = (pa.types.is_integer, pa.types.is_string)
    if rows.num_columns > 1 or not any(is_kind(rows.schema.field(0).type) for is_kind in kinds):
        return False
    return bool(pc.count_distinct(rows.column(0), mode="all").as_py() == rows.num_rows)


def _largest_stamps(keys: KeySet, bronze: Bronze, snapshot: Lsn, *, schema: pa.Schema) -> pa.Array:
    stamps = [""] * len(keys)
    read = schema.append(pa.field("_start_lsn", pa.string()))
    for batch in snapshot_rows(bronze, snapshot, schema=read, key=schema.names):
        positions = keys.positions(batch)
        among = pc.is_valid(positions)
        told = batch.column("_start_lsn").filter(among).to_pylist()
        for position, stamp in zip(positions.filter(among).to_pylist(), told, strict=True):
            stamps[position] = max(stamps[position], stamp)
    return texts(stamps)


def _ranges(bronze: Bronze, snapshot: Lsn, *, first: pa.Field, rows_at_once: int) -> list[Range]:
    """Return ranges of the first key column with about as many rows as are processed at once."""
    storage = TableStorage(bronze.location)
    footers = {path: storage.footer(path) for path in snapshot_files(bronze, snapshot)}
    parts = -(-sum(footer.num_rows for footer in footers.values()) // rows_at_once)
    if parts <= 1 or pa.types.is_boolean(first.type):
        return [(None, None)]
    sample = _sample(storage, footers, first)
    cuts: list[pa.Scalar] = []
    for part in range(1, parts if len(sample) else 1):
        cut = sample[len(sample) * part // parts]
        if not (cuts and cut.equals(cuts[-1])):
            cuts.append(cut)
    return list(pairwise([None, *cuts, None]))


def _sample(storage: TableStorage, footers: dict[str, pq.FileMetaData], first: pa.Field) -> pa.Array:
    """Return sorted values of the first key column, sampled from files across the snapshot."""
    paths = list(footers)
    values = []
    for path in paths[:: max(1, len(paths) // _FILES_SAMPLED)]:
        with storage.open(path) as opened:
            file = parquet_file(opened)
            groups = file.num_row_groups
            for group in range(0, groups, max(1, groups // max(1, _FILES_SAMPLED // len(paths)))):
                read = file.read_row_group(group, columns=[first.name]).column(0)
                step = max(1, len(read) // _VALUES_EACH)
                every = several(range(0, len(read), step), pa.int64())
                values.append(read.take(every).cast(first.type).combine_chunks())
    sample = pa.concat_arrays(values).drop_null()
    return sample.take(pc.sort_indices(sample))
