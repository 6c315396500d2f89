"""A merge and a rebuild of wide rows, each step in a separate process, whose peak memory is looked at.

``python -m tests.support.wide_merge <step> <folder> <rows> <bytes of a value>``; steps: make, build, change,
merge, again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.schema import plain_schema
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage, file_batches
from airflow_provider_mssql_cdc.lake.transactions import SNAPSHOT, coverage_transactions, lsn_transactions
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import Coverage
from tests.support.silver_world import Row, World, change, lsn, snapshot_row

COLUMNS = (
    LakeColumn("id", "id", "int64", "[id] bigint"),
    LakeColumn("v", "v", "string", "[v] nvarchar(max)"),
)
_AT_ONCE = 8 << 20


def in_child(step: str, folder: Path, *, rows: int, width: int) -> dict[str, Any]:
    """What a step tells: ``peak``, MiB above where it began, and what it found."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.wide_merge", step, str(folder), str(rows), str(width)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    told: dict[str, Any] = json.loads(child.stdout)
    return told


def _value(version: int, id_: int, width: int) -> str:
    start = f"{version}:{id_}:"
    return start + "wide " * ((width - len(start)) // 5)


def _rows(folder: Path, make_row: Any, *, rows: int, width: int, version: int) -> Iterator[pa.RecordBatch]:
    schema = plain_schema(World(folder, columns=COLUMNS).bronze.schema)
    each = max(1, _AT_ONCE // width)
    for start in range(0, rows, each):
        values = [
            make_row({"id": id_, "v": _value(version, id_, width)})
            for id_ in range(start, min(rows, start + each))
        ]
        full = [{name: row.get(name) for name in schema.names} for row in values]
        yield pa.RecordBatch.from_pylist(full, schema)


def _append(folder: Path, batches: Iterator[pa.RecordBatch], *, until: int) -> None:
    bronze = World(folder, columns=COLUMNS).bronze
    staged = stage(bronze.location, WholeRows(plain_schema(bronze.schema)), batches, prefix=f"wide-{until}")
    files = actions_just_staged(bronze, staged)
    coverage = Coverage(lsn(10), lsn(until))
    transactions = [*lsn_transactions(SNAPSHOT, lsn(10)), *coverage_transactions(coverage)]
    bronze.commit(files, transactions=transactions, event="changes", user_metadata={})


def _step(step: str, folder: Path, rows: int, width: int) -> dict[str, Any]:
    def loaded(row: Row) -> Row:
        return snapshot_row(10, row)

    def updated(row: Row) -> Row:
        return change(11, 4, row, seq=row["id"] + 1)

    if step == "make":
        _append(folder, _rows(folder, loaded, rows=rows, width=width, version=1), until=10)
        return {}
    if step == "change":
        _append(folder, _rows(folder, updated, rows=rows, width=width, version=2), until=11)
        return {}
    world = World(folder, columns=COLUMNS)
    if step == "anew":
        world.silver_at = TableLocation(str(folder / "anew"))
    before = _mebibytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    merged = world.merge()
    told = {"peak": _mebibytes("VmHWM") - before, "rows": merged.rows, "rebuilt": merged.rebuilt}
    return told | {"wrong": _wrong(world, version=1 if step == "build" else 2, width=width)}


def _wrong(world: World, *, version: int, width: int) -> int:
    """Rows of silver that do not hold what was written last."""
    silver = world.silver
    storage, wrong = TableStorage(silver.location), 0
    for uri in DeltaTable(silver.location.uri).file_uris():
        for batch in file_batches(storage, Path(uri).name, silver.schema):
            values = zip(batch.column("id").to_pylist(), batch.column("v").to_pylist(), strict=True)
            wrong += sum(value != _value(version, id_, width) for id_, value in values)
    return wrong


def _mebibytes(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("peak memory is measured on Linux only")


if __name__ == "__main__":
    print(json.dumps(_step(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
