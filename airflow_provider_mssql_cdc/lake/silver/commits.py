"""Keys that one commit both adds and removes: what each of their commits leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import one, several
from airflow_provider_mssql_cdc.lake.silver.rows import POSITION, KeySet, group_ends, sorted_indices
from airflow_provider_mssql_cdc.planning.merge import ADDS, ORDER, Presence, presence

COLLECTED_BYTES = 64 << 20

_COMMIT = (POSITION, "_start_lsn")
_IS_ADD = "__$is_add"

Scan = Callable[[Sequence[str], str | None], Iterator[pa.Table]]
"""Change rows with these columns and :data:`ORDER`, at or below an LSN when one is named."""


class _TooManyKeys(Exception):
    """The rows of one commit for these keys exceed the memory limit."""


def decide(
    keys: KeySet, scan: Scan, *, compared: Sequence[str], collected_bytes: int = COLLECTED_BYTES
) -> list[Presence]:
    """Return for each key whether it exists after all of its commits; AS_BEFORE if none of them decides.

    :param scan: yields change rows; may include other keys.
    :param compared: columns by which two images are compared.
    """
    try:
        return _decide(keys, scan, compared=compared, collected_bytes=collected_bytes)
    except _TooManyKeys:
        half = len(keys) // 2
        parts = (keys.keys.slice(0, half), keys.keys.slice(half))
        return [
            verdict
            for part in parts
            for verdict in decide(KeySet(part), scan, compared=compared, collected_bytes=collected_bytes)
        ]


def _decide(keys: KeySet, scan: Scan, *, compared: Sequence[str], collected_bytes: int) -> list[Presence]:
    verdicts = [Presence.AS_BEFORE] * len(keys)
    numbers = list(range(len(keys)))
    until: str | None = None
    while numbers:
        commits = _Commits(compared, collected_bytes=collected_bytes, divisible=len(keys) > 1)
        for rows in scan([*keys.names, *compared], until):
            positions = keys.positions(rows)
            among = pc.is_valid(positions)
            commits.add(rows.filter(among), positions.filter(among))
        for position, verdict in commits.verdicts():  # oldest commit first: the newest one has the last word
            if verdict is not Presence.AS_BEFORE:
                verdicts[numbers[position]] = verdict
        if commits.above is None:
            return verdicts
        left = [at for at, number in enumerate(numbers) if verdicts[number] is Presence.AS_BEFORE]
        numbers = [numbers[at] for at in left]
        keys, until = KeySet(keys.keys.take(several(left, pa.int64()))), commits.above
    return verdicts


class _Commits:
    """Change rows of some keys: the distinct rows of each commit, and its last added and removed images.

    :param divisible: whether the work can be split into fewer keys.
    """

    def __init__(self, compared: Sequence[str], *, collected_bytes: int, divisible: bool) -> None:
        self._compared = [name for name in dict.fromkeys(compared) if name not in ORDER]
        self._bytes, self._divisible = collected_bytes, divisible
        self._different: list[pa.Table] = []
        self._images: list[pa.Table] = []
        self._size, self._reduced = 0, 0
        self.above: str | None = None
        """Only commits above this LSN are kept; None for all."""

    def add(self, rows: pa.Table, positions: pa.Array | pa.ChunkedArray) -> None:
        adds = pc.is_in(rows.column("_operation"), value_set=several(ADDS, pa.int32()))
        rows = rows.append_column(POSITION, positions.cast(pa.int32())).append_column(_IS_ADD, adds)
        rows = self._above_the_cut(rows)
        if not rows.num_rows:
            return
        self._different.append(rows.select([POSITION, *ORDER]))
        self._images.append(rows.select([*_COMMIT, *ORDER[1:], _IS_ADD, *self._compared]))
        self._size += rows.nbytes
        if self._size >= max(self._bytes, 2 * self._reduced):
            self._reduce()

    def verdicts(self) -> Iterator[tuple[int, Presence]]:
        """Return each commit's effect on each key, ordered by key and commit."""
        self._reduce()
        if not self._different:
            return
        rows = self._different[0].take(sorted_indices(self._different[0], [POSITION])).combine_chunks()
        adds = pc.is_in(rows.column("_operation"), value_set=several(ADDS, pa.int32())).combine_chunks()
        ends = group_ends([rows.column(name).combine_chunks() for name in _COMMIT])
        all_ = _per_group(pc.add(ends, one(1, pa.int64())[0]))
        added = _per_group(pc.cumulative_sum(adds.cast(pa.int64())).take(ends))
        same = self._same_images()
        last = zip(rows.column(POSITION).take(ends).to_pylist(), adds.take(ends).to_pylist(), strict=True)
        for (position, last_adds), changes, new in zip(last, all_, added, strict=True):
            is_same = next(same) if 0 < new < changes else False
            yield (
                position,
                presence(adds=new, removals=changes - new, last_adds=last_adds, same_image=is_same),
            )

    def _same_images(self) -> Iterator[bool]:
        """Return, for each commit that adds and removes, whether the last images of both are equal."""
        images = self._images[0]
        pairs = _starts_of_pairs(images)
        equal = pa.repeat(one(True, pa.bool_())[0], len(pairs))
        others = pc.add(pairs, one(1, pa.int64())[0])
        for name in self._compared:
            removed, added = (images.column(name).take(each) for each in (pairs, others))
            both_null = pc.and_(pc.is_null(removed), pc.is_null(added))
            equal = pc.and_(equal, pc.coalesce(pc.equal(removed, added), both_null))
        yield from equal.to_pylist()

    def _reduce(self) -> None:
        """Keep distinct change rows and two images per commit; if still too large, fewer commits."""
        if not self._different:
            return
        different = pa.concat_tables(self._different)
        different = different.group_by(different.column_names, use_threads=False).aggregate([])
        images = _last_images(pa.concat_tables(self._images))
        self._keep(different, images)
        if self._reduced > self._bytes:
            self._cut(different, images)

    def _keep(self, different: pa.Table, images: pa.Table) -> None:
        self._different, self._images = [different], [images]
        self._size = self._reduced = different.nbytes + images.nbytes

    def _cut(self, different: pa.Table, images: pa.Table) -> None:
        """Defer the older half of the commits to another pass."""
        lsns = different.column("_start_lsn").combine_chunks()
        lsns = lsns.take(pc.sort_indices(lsns))
        newest, middle = lsns[len(lsns) - 1], lsns[len(lsns) // 2]
        if middle == newest:
            older = lsns.filter(pc.less(lsns, newest))
            if not len(older):
                if self._divisible:
                    raise _TooManyKeys
                return
            middle = older[len(older) - 1]
        self.above = middle.as_py()
        self._keep(self._above_the_cut(different), self._above_the_cut(images).combine_chunks())

    def _above_the_cut(self, rows: pa.Table) -> pa.Table:
        if self.above is None:
            return rows
        return rows.filter(pc.greater(rows.column("_start_lsn"), one(self.above, pa.string())[0]))


def _per_group(totals: pa.Array) -> list[int]:
    """Return each group's contribution to running totals."""
    told = totals.to_pylist()
    return [total - before for total, before in zip(told, [0, *told], strict=False)]


def _last_images(rows: pa.Table) -> pa.Table:
    """Return, by key and commit, the last removing row and then the last adding row."""
    rows = rows.take(sorted_indices(rows, [*_COMMIT, _IS_ADD]))
    ends = group_ends([rows.column(name).combine_chunks() for name in (*_COMMIT, _IS_ADD)])
    return rows.take(ends).combine_chunks()


def _starts_of_pairs(images: pa.Table) -> pa.Array:
    """Return the indices of images to compare with the next row of the same key and commit."""
    count, pairs = images.num_rows, None
    for name in _COMMIT:
        column = images.column(name).combine_chunks()
        alike = pc.equal(column.slice(0, count - 1), column.slice(1))
        pairs = alike if pairs is None else pc.and_(pairs, alike)
    return pc.indices_nonzero(pairs).cast(pa.int64())
