"""The rows of one snapshot in bronze, streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.arrays import one, read_all
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.parquet import Bounds, Wanted, file_batches
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.merge import SNAPSHOT_ROW


def _anything(bounds: Bounds) -> bool:
    return True


def snapshot_rows(
    bronze: Bronze, snapshot: Lsn, *, schema: pa.Schema, key: Sequence[str], within: Wanted = _anything
) -> Iterator[pa.RecordBatch]:
    """The rows of snapshot S with the columns of ``schema``.

    :param within: asked for each row group by the bounds of its columns; without it all are read.
    :raises StateDamaged: a key column is NULL in one of them.
    """
    storage = TableStorage(bronze.location)
    read = schema.append(pa.field("_snapshot", pa.string())).append(pa.field("_operation", pa.int32()))
    wanted_snapshot, wanted_operation = one(snapshot.text, pa.string())[0], one(SNAPSHOT_ROW, pa.int32())[0]

    def wanted(bounds: Bounds) -> bool:
        return _may_hold(*bounds.get("_snapshot", (None, None)), snapshot) and within(bounds)

    for path in snapshot_files(bronze, snapshot):
        for batch in file_batches(storage, path, read, wanted=wanted):
            of_snapshot = pc.equal(batch.column("_snapshot"), wanted_snapshot)
            loaded = pc.equal(batch.column("_operation"), wanted_operation)
            rows = batch.filter(pc.and_kleene(of_snapshot, loaded))
            _refuse_nulls(rows, key, where=str(bronze.location))
            yield rows.select(schema.names)


def snapshot_files(bronze: Bronze, snapshot: Lsn) -> list[str]:
    """Files of this version that can hold rows of snapshot S, by their statistics."""
    actions = read_all(bronze.table.get_add_actions(flatten=True)).to_pylist()
    return [unquote(action["path"]) for action in actions if _file_may_hold(action, snapshot)]


def _file_may_hold(action: dict[str, Any], snapshot: Lsn) -> bool:
    nulls, records = action.get("null_count._snapshot"), action.get("num_records")
    if nulls is not None and nulls == records:
        return False
    return _may_hold(action.get("min._snapshot"), action.get("max._snapshot"), snapshot)


def _may_hold(low: str | None, high: str | None, snapshot: Lsn) -> bool:
    return low is None or high is None or low <= snapshot.text <= high


def _refuse_nulls(rows: pa.RecordBatch, key: Sequence[str], *, where: str) -> None:
    if empty := [name for name in key if rows.column(name).null_count]:
        raise StateDamaged(
            f"{where}: key column(s) {', '.join(empty)} are NULL in rows of the snapshot, so these identify "
            "no row: name NOT NULL columns with key=, and another silver path"
        )
