"""Change rows in bronze: the keys that new ones name, and all rows of such keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.arrays import one, read_all
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import plain_schema
from airflow_provider_mssql_cdc.lake.parquet import Bounds, file_batches
from airflow_provider_mssql_cdc.lake.silver.keys import KeySet
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import DELETE, ORDER

_DISTINCT_COLLECTED = 131_072


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """Keys that change rows name, and the smallest LSN among those rows.

    :param withdrawn: those named by rows that a repair took out: silver may still hold what such a row did.
    """

    keys: KeySet
    lowest: Lsn
    withdrawn: KeySet | None = None


def changed_files(bronze: Bronze, above: Lsn) -> list[str]:
    """Files of this version that can hold change rows above an LSN, by their statistics."""
    actions = read_all(bronze.table.get_add_actions(flatten=True)).to_pylist()
    return [
        unquote(action["path"])
        for action in actions
        if not _holds_none(action.get("max._start_lsn"), action.get("max._operation"), above)
    ]


def named_keys(
    bronze: Bronze,
    files: Iterable[str],
    *,
    key: Sequence[str],
    above: Lsn,
    withdrawn: Iterable[str] = (),
) -> NamedKeys | None:
    """The keys of all change rows above an LSN in these files; None when there is no such row.

    What lies at or below a snapshot's LSN is in the snapshot; a repair may carry such rows into a new file.

    :param withdrawn: files that a repair took out.
    :raises StateDamaged: a key column is NULL in a change row.
    """
    added = _named(bronze, files, key=key, above=above)
    taken_out = _named(bronze, withdrawn, key=key, above=above)
    if taken_out is None or added is None:
        found = added or taken_out
        return found and NamedKeys(KeySet(found[0]), found[1], taken_out and KeySet(taken_out[0]))
    distinct = _DistinctRows()
    distinct.add(added[0])
    distinct.add(taken_out[0])
    return NamedKeys(KeySet(distinct.table()), min(added[1], taken_out[1]), KeySet(taken_out[0]))


def _named(
    bronze: Bronze, files: Iterable[str], *, key: Sequence[str], above: Lsn
) -> tuple[pa.Table, Lsn] | None:
    distinct = _DistinctRows()
    lowest: str | None = None
    for rows in change_rows(bronze, files, columns=key, above=above):
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
    """Change rows above an LSN, at or below another one: these columns, and those that put rows in order."""
    storage, schema = TableStorage(bronze.location), change_row_schema(bronze, columns)
    lowest, first = one(above.text, pa.string())[0], one(DELETE, pa.int32())[0]
    highest = None if until is None else one(until, pa.string())[0]

    def wanted(bounds: Bounds) -> bool:
        (_, lsn), (_, operation) = bounds.get("_start_lsn", _UNKNOWN), bounds.get("_operation", _UNKNOWN)
        return not _holds_none(lsn, operation, above)

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


_UNKNOWN = (None, None)


def _holds_none(largest_lsn: str | None, largest_operation: int | None, above: Lsn) -> bool:
    """Whether a file or row group has no change row above an LSN, as far as its statistics tell."""
    too_low = largest_lsn is not None and largest_lsn <= above.text
    return too_low or (largest_operation is not None and largest_operation < DELETE)


def change_row_schema(bronze: Bronze, columns: Sequence[str]) -> pa.Schema:
    """These columns and those that put rows in order, as they are read."""
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
    """Rows go in by batches; each different one is kept once."""

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
        distinct = rows.group_by(rows.column_names, use_threads=False).aggregate([])
        self._kept, self._new_rows, self._distinct = [distinct], 0, distinct.num_rows
        return distinct
