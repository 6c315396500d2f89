"""The reconcile table beside silver: the tiles of each cycle, the results, and waiting rows."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import ForeignTable, IncompletePlan
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import (
    create_table,
    open_table,
    query,
    until_committed,
    write_rows,
)
from airflow_provider_mssql_cdc.lake.schema import (
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    described,
    identity_properties,
    read_identity,
)
from airflow_provider_mssql_cdc.lake.silver.files import current_files
from airflow_provider_mssql_cdc.lake.silver.rows import KeySet, change_row_schema, changed_files
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.storage import (
    TableLocation,
    TableStorage,
    file_batches,
    shaped,
)
from airflow_provider_mssql_cdc.model.key_range import KeyRange, bound_from_json, bound_to_json
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.reconcile import Cycle, Found, ReadRows, ReconcileItem
from airflow_provider_mssql_cdc.model.state import SourceIdentity

RECONCILE_SCHEMA = pa.schema(
    [
        commented("kind", pa.string(), "plan: a tile as it was cut; tile, keys: what comparing one found"),
        commented("cycle", pa.string(), "The tiles that were cut together"),
        commented("tile", pa.int32(), "Number of the tile, in the server's key order; the part of keys"),
        commented("lower", pa.string(), "JSON list of texts: where the tile begins; on kind plan"),
        commented("upper", pa.string(), "JSON list of texts: where the tile ends; on kind plan"),
        commented("rows_source", pa.int64(), "Rows read from the source"),
        commented("rows_silver", pa.int64(), "Rows of silver that were compared"),
        commented("equal", pa.int64(), "Rows that are equal, no change naming them meanwhile"),
        commented("moved", pa.int64(), "Keys that changes named meanwhile, right on both sides"),
        commented("missing", pa.int64(), "Keys of the source that silver lacks"),
        commented("extra", pa.int64(), "Keys of silver that the source lacks"),
        commented("different", pa.int64(), "Keys whose rows differ"),
        commented("unexplained", pa.int64(), "Keys whose source row no change in bronze explains"),
        commented("columns", pa.string(), "JSON: differing rows by column"),
        commented("left_out", pa.string(), "JSON: columns that were not compared, and why"),
        commented("keys", pa.string(), "JSON: up to 20 keys that failed; hashed unless asked otherwise"),
        commented("read_lsn", pa.string(), "What the reading session had passed before the first row"),
        commented("until_lsn", pa.string(), "An LSN that no commit seen by the read is above"),
        commented("silver_lsn", pa.string(), "How far silver's changes reached"),
        commented("run_id", pa.string(), "Airflow run that compared"),
        commented("written_at", TIMESTAMP_NTZ, "When this row was written, UTC"),
    ]
)


def reconcile_location(silver: TableLocation) -> TableLocation:
    """Return the location of a silver table's reconcile table, next to it."""
    return TableLocation(f"{silver.uri}_reconcile", silver.storage_options)


class ReconcileTable:
    """The reconcile table of one silver table; created when missing.

    :raises ForeignTable: it belongs to another source table.
    """

    def __init__(self, silver: Silver) -> None:
        self.location = reconcile_location(silver.location)
        table = open_table(self.location) or _create(self.location, silver.identity)
        if (theirs := read_identity(table)) != silver.identity:
            raise ForeignTable(
                f"{self.location} must hold reconciles of {described(silver.identity)}, got those of "
                f"{described(theirs)}: remove it, or name another silver path"
            )
        self._storage = TableStorage(self.location)

    # -- cycles

    def cycle(self, name: str | None = None) -> Cycle | None:
        """Return the cycle of this name, or the newest without a name. None when there is none."""
        table = open_table(self.location)
        assert table is not None
        if name is None:
            newest = query(
                table, "SELECT cycle FROM stored WHERE kind = 'plan' ORDER BY written_at DESC, cycle LIMIT 1"
            )
            if not newest:
                return None
            name = newest[0]["cycle"]
        rows = query(
            table, f"SELECT kind, tile, lower, upper FROM stored WHERE cycle = '{name}' ORDER BY kind, tile"
        )
        tiles = tuple(_range_of(row) for row in rows if row["kind"] == "plan")
        proven = frozenset(row["tile"] for row in rows if row["kind"] == "tile")
        return Cycle(name, tiles, proven)

    def samples(self) -> int:
        """Return how many parts of silver's keys have been looked up, in all cycles."""
        table = open_table(self.location)
        assert table is not None
        return int(query(table, "SELECT COUNT(*) AS samples FROM stored WHERE kind = 'keys'")[0]["samples"])

    def begin_cycle(self, name: str, tiles: Sequence[KeyRange]) -> Cycle:
        """Store tiles that cover the table."""
        rows = [
            {
                "kind": "plan",
                "cycle": name,
                "tile": number,
                "lower": None if tile.lower is None else _json(bound_to_json(tile.lower)),
                "upper": None if tile.upper is None else _json(bound_to_json(tile.upper)),
            }
            for number, tile in enumerate(tiles)
        ]
        self._append(rows)
        return Cycle(name, tuple(tiles))

    def record(
        self, item: ReconcileItem, read: ReadRows, found: Found, *, silver_lsn: Lsn, run_id: str
    ) -> None:
        """Write one row with an item's result."""
        row = {
            "kind": item.kind,
            "cycle": item.cycle,
            "tile": item.number,
            **found.counts(),
            "columns": _json(found.columns),
            "left_out": _json(dict(read.left_out)),
            "keys": _json(found.keys),
            "read_lsn": read.read_at_lsn.text,
            "until_lsn": None if read.until is None else read.until.text,
            "silver_lsn": silver_lsn.text,
            "run_id": run_id,
        }
        self._append([row])

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        written = datetime.now(UTC).replace(tzinfo=None)
        values = pa.Table.from_pylist([{**row, "written_at": written} for row in rows], RECONCILE_SCHEMA)

        def once() -> None:
            table = open_table(self.location)
            assert table is not None
            write_rows(table, values, transactions=[])

        until_committed(once, what=f"{len(rows)} row(s) into {self.location}")

    # -- rows that wait

    def stage(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        """Write rows to an uncommitted file, with the columns of ``schema`` by name; return its name."""
        name = f"read-{secrets.token_hex(8)}.arrow"
        sink = self._storage.create(name)
        with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            for batch in batches:
                writer.write_batch(shaped(batch, schema))
        self._storage.finish(sink)
        return name

    def staged(self, name: str) -> pa.Table:
        """Return the rows written by :meth:`stage`.

        :raises IncompletePlan: the file is gone.
        """
        if self._storage.size(name) is None:
            raise IncompletePlan(
                f"{self.location}: {name}, with rows read from the source, is gone; clear the task, which "
                "reads them again"
            )
        with self._storage.open(name) as opened:
            return pa.ipc.open_file(opened).read_all()

    def note(self, key: str, read: ReadRows) -> None:
        """Store what a task of a run has read, so that it can continue after a wait."""
        self._storage.discard(_note_name(key))
        sink = self._storage.create(_note_name(key))
        sink.write(_json(read.to_json()).encode())
        self._storage.finish(sink)

    def noted(self, key: str) -> ReadRows | None:
        """Return what :meth:`note` stored; None when there is nothing."""
        if self._storage.size(_note_name(key)) is None:
            return None
        with self._storage.open(_note_name(key)) as opened:
            return ReadRows.from_json(json.loads(opened.read()))

    def forget(self, key: str, read: ReadRows) -> None:
        """Delete what :meth:`note` stored."""
        for name in (_note_name(key), read.rows, *([read.asked] if read.asked else [])):
            self._storage.discard(name)

    def remove_leftovers(self) -> int:
        """Remove what killed and failed tries have read, once it is old; return the number of files."""
        left = self._storage.names("read-", before=datetime.now(UTC) - LEFT_OVER_AFTER)
        return sum(self._storage.discard(name) for name in left)


LEFT_OVER_AFTER = timedelta(days=7)
"""Age at which a waiting row's file is removed; longer than any sensible wait for silver."""


def _note_name(key: str) -> str:
    return f"read-{key}.json"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _range_of(row: Mapping[str, Any]) -> KeyRange:
    lower, upper = (
        None if row[end] is None else bound_from_json(json.loads(row[end])) for end in ("lower", "upper")
    )
    return KeyRange(lower, upper)


def _create(location: TableLocation, identity: SourceIdentity) -> DeltaTable:
    return create_table(
        location,
        RECONCILE_SCHEMA,
        name=f"{identity.schema}.{identity.table} reconcile",
        description=f"Comparisons of silver with {described(identity)}; the bounds of tiles are key values",
        properties={**identity_properties(identity), STATISTICS_PROPERTY: "kind,cycle,tile"},
    )


# -- rows of silver and bronze


def silver_rows(silver: Silver, keys: KeySet, columns: Sequence[str]) -> pa.Table:
    """Return silver's rows of these keys, with these columns."""
    schema = pa.schema([silver.schema.field(name) for name in columns])
    storage = TableStorage(silver.location)
    found = [
        taken
        for file in current_files(silver)
        if keys.may_be_within(file.bounds)
        for batch in file_batches(storage, file.path, schema, wanted=keys.may_be_within)
        if (taken := _of_keys(batch, keys)).num_rows
    ]
    return pa.Table.from_batches(found, schema)


def change_rows_of(
    bronze: Bronze, keys: KeySet, columns: Sequence[str], *, after: Lsn, until: Lsn
) -> pa.Table:
    """Return bronze's change rows of these keys, above one LSN and up to another one."""
    schema = change_row_schema(bronze, columns)
    storage = TableStorage(bronze.location)
    found = []
    for path in changed_files(bronze, after):
        for batch in file_batches(storage, path, schema):
            lsn = batch.column("_start_lsn")
            within = pc.and_(pc.greater(lsn, after.text), pc.less_equal(lsn, until.text))
            changes = batch.filter(pc.and_(within, pc.greater(batch.column("_operation"), 0)))
            if changes.num_rows and (taken := _of_keys(changes, keys)).num_rows:
                found.append(taken)
    return pa.Table.from_batches(found, schema)


def _of_keys(batch: pa.RecordBatch, keys: KeySet) -> pa.RecordBatch:
    return batch.filter(pc.is_valid(keys.positions(batch)))


def key_schema(silver: Silver) -> pa.Schema:
    """Return silver's key columns."""
    return pa.schema([silver.schema.field(name) for name in silver.key])


def columns_of(silver: Silver, names: Iterable[str]) -> pa.Schema:
    """Return some of silver's columns with the types of its files."""
    return pa.schema([silver.schema.field(name) for name in names])


def as_rows(values: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Tuples as a table."""
    columns = [pa.array([one[at] for one in values], field.type) for at, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """A table as tuples."""
    for batch in rows.to_batches(max_chunksize=_TUPLES_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


_TUPLES_AT_ONCE = 65_536


def keys_where(silver: Silver, wanted: Callable[[tuple[Any, ...]], bool]) -> Iterator[tuple[Any, ...]]:
    """Return the selected keys of silver."""
    schema, storage = key_schema(silver), TableStorage(silver.location)
    for file in current_files(silver):
        for batch in file_batches(storage, file.path, schema):
            yield from filter(wanted, tuples(pa.Table.from_batches([batch], schema)))


def columns_without_history(bronze: Bronze, paths: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return columns missing in a snapshot's files: they were added later, with NULL in its rows."""
    storage = TableStorage(bronze.location)
    names = [set(storage.footer(path).schema.to_arrow_schema().names) for path in paths]
    return [name for name in columns if any(name not in those for those in names)]
