"""Sets of keys, and the change rows that a merge reads: new rows by key, and the last row of each key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import naive_utc, one, several
from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import stored_files
from airflow_provider_mssql_cdc.lake.schema import plain_schema
from airflow_provider_mssql_cdc.lake.storage import Bounds, TableStorage, file_batches, may_hold_changes
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import ADDS, DELETE, ORDER

Rows: TypeAlias = "pa.Table | pa.RecordBatch"
_VALUES_LISTED = 200_000


class KeySet:
    """Distinct keys without NULL, numbered in the order of the input table.

    Arrow's ``index_in`` compares stored values: strings by bytes, numbers by bits. A composite key is looked
    up one column at a time; the codes of two columns are combined into one code.
    """

    def __init__(self, keys: pa.Table) -> None:
        self.keys = keys.combine_chunks()
        self.names: Sequence[str] = keys.column_names
        self._values = [pc.unique(self.keys.column(name)) for name in self.names]
        self._pairs: list[pa.Array] = []
        codes = self._codes(self.keys, 0)
        for level in range(1, len(self.names)):
            pairs = self._paired(codes, self.keys, level)
            self._pairs.append(pc.unique(pairs))
            codes = pc.index_in(pairs, value_set=self._pairs[-1])

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def positions(self, rows: Rows) -> pa.Array | pa.ChunkedArray:
        """Return the number of each row's key; NULL when it is not in the set."""
        codes = self._codes(rows, 0)
        for level in range(1, len(self.names)):
            codes = pc.index_in(self._paired(codes, rows, level), value_set=self._pairs[level - 1])
        return codes

    def _codes(self, rows: Rows, level: int) -> pa.Array | pa.ChunkedArray:
        return pc.index_in(rows.column(self.names[level]), value_set=self._values[level])

    def _paired(
        self, codes: pa.Array | pa.ChunkedArray, rows: Rows, level: int
    ) -> pa.Array | pa.ChunkedArray:
        """Combine the codes so far with the next column's codes; NULL when either is NULL."""
        width = one(len(self._values[level]), pa.int64())[0]
        return pc.add(pc.multiply(codes.cast(pa.int64()), width), self._codes(rows, level).cast(pa.int64()))

    def may_be_within(self, bounds: Bounds) -> bool:
        """Return whether some key can lie within these bounds; columns without bounds exclude nothing."""
        return all(
            self._some_within(name, *bounds[name]) for name in self.names if bounds.get(name) is not None
        )

    def _some_within(self, name: str, low: Any, high: Any) -> bool:
        values = self._sorted.get(name)
        if values is None or not is_comparable(low):
            return True
        at = bisect_left(values, plain(low))
        return at < len(values) and values[at] <= plain(high)

    @cached_property
    def _sorted(self) -> dict[str, list[Any]]:
        """Return sorted values of the columns whose bounds are reliable."""
        ordered = {}
        for name, values in zip(self.names, self._values, strict=True):
            if len(values) and is_comparable(values[0].as_py()) and len(values) <= _VALUES_LISTED:
                ordered[name] = sorted(plain(value) for value in values.to_pylist())
        return ordered


def is_comparable(value: Any) -> bool:
    """Return whether bounds are reliable; not for floats (NaN, two zeros) and binary (may be truncated)."""
    return isinstance(value, str | int | Decimal | date) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """Drop the zone of a timestamp: footers have it and logs do not, or vice versa."""
    return naive_utc(value) if isinstance(value, datetime) else value


_DISTINCT_COLLECTED = 131_072


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """Keys that change rows name, and the smallest LSN among those rows.

    :param withdrawn: keys named by rows that a repair removed: silver may still contain their effect.
    """

    keys: KeySet
    lowest: Lsn
    withdrawn: KeySet | None = None


def changed_files(bronze: Bronze, above: Lsn) -> list[str]:
    """Return files of this version that may contain change rows above an LSN, by their statistics."""
    files = stored_files(bronze.table, ("_start_lsn", "_operation"))
    return [file.path for file in files if may_hold_changes(file.bounds, above=above)]


def named_keys(
    bronze: Bronze,
    files: Iterable[str],
    *,
    key: Sequence[str],
    above: Lsn,
    until: Lsn | None = None,
    withdrawn: Iterable[str] = (),
) -> NamedKeys | None:
    """Return the keys of all change rows above an LSN in these files; None when there is no such row.

    Rows up to a snapshot's LSN are in the snapshot; a repair may copy such rows into a new file.

    :param until: only rows up to this LSN count; None for all.
    :param withdrawn: files that a repair removed.
    :raises StateDamaged: a key column is NULL in a change row.
    """
    added = _named(bronze, files, key=key, above=above, until=until)
    taken_out = _named(bronze, withdrawn, key=key, above=above, until=until)
    if taken_out is None or added is None:
        found = added or taken_out
        return found and NamedKeys(KeySet(found[0]), found[1], taken_out and KeySet(taken_out[0]))
    distinct = _DistinctRows()
    distinct.add(added[0])
    distinct.add(taken_out[0])
    return NamedKeys(KeySet(distinct.table()), min(added[1], taken_out[1]), KeySet(taken_out[0]))


def _named(
    bronze: Bronze, files: Iterable[str], *, key: Sequence[str], above: Lsn, until: Lsn | None
) -> tuple[pa.Table, Lsn] | None:
    distinct = _DistinctRows()
    lowest: str | None = None
    highest = None if until is None else until.text
    for rows in change_rows(bronze, files, columns=key, above=above, until=highest):
        _refuse_nulls(rows, key, where=str(bronze.location))
        smallest = pc.min(rows.column("_start_lsn")).as_py()
        lowest = smallest if lowest is None else min(lowest, smallest)
        distinct.add(rows.select(list(key)))
    return None if lowest is None else (distinct.table(), Lsn.parse(lowest))


def change_rows(
    bronze: Bronze,
    files: Iterable[str],
    *,
    columns: Sequence[str],
    above: Lsn,
    until: str | None = None,
) -> Iterator[pa.Table]:
    """Return change rows above one LSN, up to another: these columns plus the ordering columns."""
    storage, schema = TableStorage(bronze.location), change_row_schema(bronze, columns)
    lowest, first = one(above.text, pa.string())[0], one(DELETE, pa.int32())[0]
    highest = None if until is None else one(until, pa.string())[0]

    def wanted(bounds: Bounds) -> bool:
        return may_hold_changes(bounds, above=above)

    for path in files:
        for batch in file_batches(storage, path, schema, wanted=wanted):
            among = pc.and_(
                pc.greater(batch.column("_start_lsn"), lowest),
                pc.greater_equal(batch.column("_operation"), first),
            )
            if highest is not None:
                among = pc.and_(among, pc.less_equal(batch.column("_start_lsn"), highest))
            rows = pa.Table.from_batches([batch.filter(among)])
            if rows.num_rows:
                yield rows


def change_row_schema(bronze: Bronze, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns plus the ordering columns."""
    stored = plain_schema(bronze.schema)
    return pa.schema([stored.field(name) for name in dict.fromkeys([*columns, *ORDER])])


def _refuse_nulls(rows: pa.Table, key: Sequence[str], *, where: str) -> None:
    if empty := [name for name in key if rows.column(name).null_count]:
        raise StateDamaged(
            f"{where}: key column(s) {', '.join(empty)} are NULL in change rows, so these identify no row. A "
            "column that was dropped at the source, or that a capture instance does not record, cannot be a "
            "key: name other columns with key=, or load into a new bronze"
        )


class _DistinctRows:
    """Collect the distinct rows of all batches."""

    def __init__(self) -> None:
        self._kept: list[pa.Table] = []
        self._new_rows = self._distinct = 0

    def add(self, rows: pa.Table) -> None:
        self._kept.append(rows)
        self._new_rows += rows.num_rows
        if self._new_rows >= max(_DISTINCT_COLLECTED, self._distinct):
            self.table()

    def table(self) -> pa.Table:
        rows = pa.concat_tables(self._kept)
        # With threads the order of the groups is not stable (pyarrow.Table.group_by).
        distinct = rows.group_by(rows.column_names, use_threads=False).aggregate([])
        self._kept, self._new_rows, self._distinct = [distinct], 0, distinct.num_rows
        return distinct


POSITION = "__$position"
"""Column for the number of a row's key in its :class:`KeySet`; no source column can have this name."""

IMAGES_BYTES = 128 << 20
"""Images up to this size are kept; of larger ones only the ordering columns, and they are read again."""

_ROWS_COLLECTED = 131_072
_BYTES_COLLECTED = 64 << 20


class LatestRows:
    """Keep the last row per :data:`POSITION`; if it removes, also the last add of the same commit.

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
        """Return the columns that are still kept, without :data:`POSITION`."""
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
        """Return the rows by position; the row that adds comes first."""
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
        """Estimate the size by the average row, without copying."""
        return bool(rows.nbytes / rows.num_rows * len(deciding) > self._images_bytes)


def _deciding(rows: pa.Table) -> pa.Array:
    """Return the indices of each position's last row, and of the last add in its commit if it removes."""
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
    """Return row indices sorted by these columns, then in the order of changes, NULLs first."""
    names = [*groups, *(name for name in ORDER if name not in groups)]
    ordered = pa.table([_without_nulls(rows.column(name), name) for name in names], names=names)
    return pc.sort_indices(ordered, sort_keys=[(name, "ascending") for name in names]).cast(pa.int64())


def _without_nulls(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Replace NULLs by values that sort first: a command id is at least 1 and a sequence is never empty."""
    lowest = {"_command_id": one(-1, pa.int32())[0], "_seqval": one("", pa.string())[0]}
    return pc.fill_null(column, lowest[name]) if name in lowest else column


def group_ends(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the index of the last row of each group of equal values; the rows are sorted and not empty."""
    count = len(columns[0])
    changes = None
    for column in columns:
        differs = pc.not_equal(column.slice(0, count - 1), column.slice(1))
        changes = differs if changes is None else pc.or_(changes, differs)
    ends = pc.indices_nonzero(changes).cast(pa.int64())
    return pa.concat_arrays([ends, one(count - 1, pa.int64())])
