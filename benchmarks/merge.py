"""A merge of changed keys into silver, against a plain delta-rs merge of the same images without pruning.

At scale 1: 1e5 changed keys into 1e7 rows of ten columns. The plain merge is given its images, one per key;
ours finds them in bronze. Each merge is a separate process, whose peak memory is looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.schema import plain_schema
from airflow_provider_mssql_cdc.lake.silver.merge import MergeRequest, update_silver
from airflow_provider_mssql_cdc.lake.silver.table import bronze_number, create_silver, open_silver
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import SNAPSHOT, coverage_transactions, lsn_transactions
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import Coverage, SourceIdentity
from airflow_provider_mssql_cdc.planning.merge import NoSnapshot, decide_merge
from benchmarks.report import Row

TABLE_ROWS, CHANGED_KEYS = 10_000_000, 100_000
BATCH_ROWS = 250_000
FLOOR, AIM = 1.0, 3.0
REPEATS = 3
ROOT = Path(__file__).resolve().parents[1]

COLUMNS = (
    LakeColumn("id", "id", "int64"),
    LakeColumn("customer_id", "customer_id", "int64"),
    LakeColumn("customer", "customer", "string"),
    LakeColumn("status", "status", "string"),
    LakeColumn("amount", "amount", "decimal(18,4)"),
    LakeColumn("price", "price", "decimal(19,4)"),
    LakeColumn("placed_at", "placed_at", "timestamp_ntz"),
    LakeColumn("due", "due", "date"),
    LakeColumn("reference", "reference", "string"),
    LakeColumn("paid", "paid", "bool"),
)
SPREADS = {
    "recent": "nine of ten among the newest tenth of the ids, one new",
    "spread": "spread evenly over all ids, so that every file holds some",
}
_S = Lsn(1 << 40)


def run(scale: float) -> Iterator[Row]:
    """Rows of the report; ``scale`` 1 is 1e7 rows."""
    rows, keys = max(1000, int(TABLE_ROWS * scale)), max(10, int(CHANGED_KEYS * scale))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        base = Path(folder)
        _in_child("make", base, rows=rows, keys=keys)
        for spread, told in SPREADS.items():
            sides: dict[str, list[dict[str, Any]]] = {"ours": [], "plain": []}
            for version in range(REPEATS):
                for side, outcomes in sides.items():
                    asked = {"rows": rows, "keys": keys, "spread": spread, "version": version}
                    outcomes.append(_in_child(side, base, **asked))
                assert sides["ours"][-1]["sum"] == sides["plain"][-1]["sum"], "the two merges differ"
            yield from _rows(spread, sides, note=f"{keys:,} keys into {rows:,} rows; {told}")
        many = _in_child("many", base, rows=rows, keys=keys)
        yield Row("merge", f"{10 * keys:,} changes of 1,000 keys", many["peak"], "MiB above start")


def _rows(spread: str, sides: dict[str, list[dict[str, Any]]], *, note: str) -> Iterator[Row]:
    for what, floor, aim in (("seconds", FLOOR, AIM), ("cpu", None, None)):
        pairs = [theirs[what] / our[what] for our, theirs in zip(*sides.values(), strict=True)]
        told = f"{note}; {min(pairs):.3g} to {max(pairs):.3g}"
        yield Row(
            "merge",
            f"{spread} keys: plain delta-rs / ours, {what}",
            median(pairs),
            "x",
            floor,
            aim,
            note=told,
        )
    for name, outcomes in sides.items():
        middle = {key: median(outcome[key] for outcome in outcomes) for key in ("seconds", "cpu", "peak")}
        last = outcomes[-1]
        yield Row(
            "merge", f"{spread} keys: {name}", middle["seconds"], "s", note=f"{middle['cpu']:.1f} s of CPU"
        )
        yield Row("merge", f"{spread} keys: {name}, peak memory", middle["peak"], "MiB above start")
        yield Row(
            "merge",
            f"{spread} keys: {name}, files written again",
            last["rewritten"],
            "files",
            note=f"of {last['files']}",
        )


def _in_child(task: str, base: Path, **told: Any) -> dict[str, Any]:
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.merge", task, str(base), json.dumps(told)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if child.returncode:
        raise RuntimeError(f"the measured process failed:\n{child.stderr}")
    outcome: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return outcome


def captured(first: int, count: int, *, step: int = 1, version: int = 0) -> pa.RecordBatch:
    """Rows with ids ``first``, ``first + step`` and so on; the rest follows from id and version."""
    ids = pa.array(range(first, first + count * step, step), pa.int64())
    mixed = pc.bit_wise_and(pc.multiply(pc.add(ids, version), 2654435761), 0x7FFFFFFF)
    statuses = pa.array(["open", "shipped", "returned", "paid", None])
    values = [
        ids,
        pc.add(mixed, 5_000_000_000),
        pc.binary_join_element_wise("Müller & Söhne", pc.cast(pc.shift_right(mixed, 14), pa.string()), " "),
        pc.take(statuses, pc.bit_wise_and(mixed, 3)),
        pc.cast(pc.cast(pc.bit_wise_and(mixed, 0xFFFFFF), pa.decimal128(19, 0)), pa.decimal128(23, 4)).cast(
            pa.decimal128(18, 4), safe=False
        ),
        pc.cast(pc.bit_wise_and(mixed, 0xFFFF), pa.decimal128(19, 0))
        .cast(pa.decimal128(23, 4))
        .cast(pa.decimal128(19, 4)),
        pc.cast(pc.add(pc.multiply(ids, 11_000_000), 1_546_300_800_000_000), pa.timestamp("us")),
        pc.cast(pc.cast(pc.add(pc.bit_wise_and(mixed, 2047), 17897), pa.int32()), pa.date32()),
        pc.binary_join_element_wise("REF", pc.cast(mixed, pa.string()), pc.cast(ids, pa.string()), "-"),
        pc.equal(pc.bit_wise_and(mixed, 1), 1),
    ]
    return pa.record_batch(values, schema=captured_schema(COLUMNS))


def changed_batch(spread: str, rows: int, keys: int, *, version: int) -> pa.RecordBatch:
    """The images of the changed keys."""
    if spread == "spread":
        return captured(version, keys, step=rows // keys, version=version)
    known = keys * 9 // 10
    recent = captured(rows - rows // 10, known, step=max(1, rows // 10 // known), version=version)
    new = captured(rows, keys - known, version=version)
    return pa.Table.from_batches([recent, new]).combine_chunks().to_batches()[0]


def make(base: Path, rows: int) -> dict[str, Any]:
    """Bronze with a snapshot, silver built from it, and the same rows as delta-rs writes them."""
    location = TableLocation(str(base / "bronze"))
    bronze = open_or_create(location, SourceIdentity("bench", "db", "dbo", "orders"), COLUMNS)
    starts = range(0, rows, BATCH_ROWS)
    batches = [captured(start, min(BATCH_ROWS, rows - start)) for start in starts]
    write_deltalake(str(base / "plain"), pa.Table.from_batches(batches))
    _append(bronze, (_stamped(bronze, batch, operation=0, lsn=_S) for batch in batches), until=_S)
    silver = create_silver(TableLocation(str(base / "silver")), bronze.reload(), key=("id",))
    _merge(base)
    return {"files": len(silver.reload().table.file_uris())}


def ours(base: Path, spread: str, rows: int, keys: int, version: int) -> dict[str, Any]:
    """Changes into a copy of bronze, then the merge; the changes are before- and after-images."""
    bronze = open_existing(TableLocation(str(base / "bronze")))
    lsn = Lsn(bronze.version + 1 << 40)
    changed = changed_batch(spread, rows, keys, version=7 + version)
    _append(bronze, [_stamped(bronze, changed, operation=each, lsn=lsn) for each in (3, 4)], until=lsn)
    with _Measured() as measured:
        merged = _merge(base)
    counts = merged.counts
    files = {"rewritten": counts.files_removed, "files": counts.files_removed + counts.files_kept}
    return measured.told() | files | {"sum": _checked(base / "silver")}


def plain(base: Path, spread: str, rows: int, keys: int, version: int) -> dict[str, Any]:
    changed = changed_batch(spread, rows, keys, version=7 + version)
    with _Measured() as measured:
        told = (
            DeltaTable(str(base / "plain"))
            .merge(changed, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )
    removed = told["num_target_files_removed"]
    files = {"rewritten": removed, "files": removed + told.get("num_target_files_skipped_during_scan", 0)}
    return measured.told() | files | {"sum": _checked(base / "plain")}


def many(base: Path, keys: int) -> dict[str, Any]:
    """Ten times as many changes as keys were changed before, all of them of a thousand keys."""
    bronze = open_existing(TableLocation(str(base / "bronze")))
    lsn, batch = Lsn(bronze.version + 1 << 40), captured(0, 1000)
    rows = (
        _stamped(bronze, batch, operation=4, lsn=Lsn(lsn.value + number))
        for number in range(10 * keys // 1000)
    )
    _append(bronze, rows, until=Lsn(lsn.value + 10 * keys))
    with _Measured() as measured:
        merged = _merge(base)
    assert merged.counts.changed_keys == 1000
    return measured.told()


def _stamped(bronze: Bronze, batch: pa.RecordBatch, *, operation: int, lsn: Lsn) -> pa.RecordBatch:
    own: dict[str, Any] = {"_capture_instance": "dbo_orders", "_start_lsn": lsn.text, "_operation": operation}
    own |= (
        {"_snapshot": lsn.text} if operation == 0 else {"_seqval": lsn.text, "_command_id": 1, "_batch_id": 1}
    )
    schema = plain_schema(bronze.schema)
    arrays = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(own.get(field.name), field.type), batch.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _append(bronze: Bronze, batches: Any, *, until: Lsn) -> None:
    staged = stage(bronze.location, WholeRows(plain_schema(bronze.schema)), batches, prefix=f"bench-{until}")
    files = actions_just_staged(bronze, staged)
    transactions = [*lsn_transactions(SNAPSHOT, _S), *coverage_transactions(Coverage(_S, until))]
    bronze.commit(files, transactions=transactions, event="changes", user_metadata={})


def _merge(base: Path) -> Any:
    bronze, silver = (
        open_existing(TableLocation(str(base / "bronze"))),
        open_silver(TableLocation(str(base / "silver"))),
    )
    assert silver is not None
    decision = decide_merge(silver.position, bronze.state, bronze=bronze_number(bronze))
    assert not isinstance(decision, NoSnapshot)
    request = MergeRequest(
        silver,
        bronze,
        _S,
        decided_on=silver.position,
        prefix=f"silver-{bronze.version}-{time.time_ns()}",
        run_id="bench",
    )
    return update_silver(request, decision, confirm_empty=lambda: None)


def _checked(path: Path) -> list[int]:
    """Rows, and a sum that tells whether two tables hold the same."""
    table = pa.table(DeltaTable(str(path)).scan(columns=["id", "customer_id"]).read_all())
    return [table.num_rows, pc.sum(table["id"]).as_py(), pc.sum(table["customer_id"]).as_py()]


class _Measured:
    """Seconds, CPU seconds, and by how much memory peaked above where it was."""

    def __enter__(self) -> _Measured:
        self.before = _mebibytes("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc: object) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        self.peak = _mebibytes("VmHWM") - self.before

    def told(self) -> dict[str, float]:
        return {"seconds": self.wall, "cpu": self.cpu, "peak": self.peak}


def _mebibytes(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("peak memory is measured on Linux only")


def _child(task: str, base: Path, told: dict[str, Any]) -> dict[str, Any]:
    if task == "make":
        return make(base, told["rows"])
    if task == "many":
        return many(base, told["keys"])
    side = {"ours": ours, "plain": plain}[task]
    return side(base, told["spread"], told["rows"], told["keys"], told["version"])


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))))
