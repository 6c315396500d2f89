from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake import staging
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.unit.lake.tables import COLUMNS, RUN, batch, complete, lsn, new_bronze, rows_of, stage

S = lsn(5)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "orders").glob("*.parquet"))


def test_files_are_named_by_plan_range_and_attempt(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    planned = PlannedRange(PlanId(S, RUN, "00c0ffee"), 3, 8)
    (file,) = stage(bronze, S, planned=planned, attempt="a2-9f03bc")
    assert file.path == f"{S.text}-{RUN}-00c0ffee-r00003-a2-9f03bc-0.parquet"
    assert file.size == (tmp_path / "orders" / file.path).stat().st_size
    assert file.rows == 3


def test_nobody_sees_what_is_staged(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    stage(bronze, S)
    assert bronze.reload().version == 0
    assert rows_of(bronze.location) == []


@pytest.mark.parametrize("batches", [[], [batch([])], [batch([]), batch([])]])
def test_no_rows_make_no_file(tmp_path: Path, batches: list[pa.RecordBatch]) -> None:
    assert stage(new_bronze(tmp_path), S, batches=batches) == ()
    assert files_in(tmp_path) == []


def test_files_roll_over_at_the_target_size_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "ROW_GROUP_BYTES", 4096)
    bronze = new_bronze(tmp_path)
    batches = [batch(range(start, start + 100)) for start in range(0, 2000, 100)]
    files = stage(bronze, S, batches=batches, target_bytes=20_000)
    assert len(files) > 2
    assert all(20_000 <= file.size < 40_000 for file in files[:-1])
    assert [file.path[-10:] for file in files] == [f"-{number}.parquet" for number in range(len(files))]
    complete(bronze.location, S, files)
    assert sorted(row["id"] for row in rows_of(bronze.location, "id")) == list(range(2000))


def test_a_batch_larger_than_a_row_group_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "ROW_GROUP_BYTES", 1 << 20)
    columns = [LakeColumn("doc", "doc", "string")]
    texts = [f"{number:04d}" * 25_000 for number in range(100)]
    big = pa.record_batch([texts], schema=captured_schema(columns))
    bronze = new_bronze(tmp_path, columns)
    (file,) = stage(bronze, S, batches=[big], columns=columns)
    footer = pq.read_metadata(tmp_path / "orders" / file.path)
    assert footer.num_row_groups == 10
    assert max(footer.row_group(group).total_byte_size for group in range(10)) < 1.1 * (1 << 20)
    complete(bronze.location, S, [file], columns=columns)
    assert sorted(row["doc"] for row in rows_of(bronze.location, '"doc"')) == texts


class ReadBroke(Exception):
    pass


@pytest.mark.parametrize("failure", [ReadBroke, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_read_that_breaks_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException], after: int
) -> None:
    monkeypatch.setattr(staging, "ROW_GROUP_BYTES", 4096)

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(after):
            yield batch(range(100 * number, 100 * number + 100))
        raise failure("here")

    with pytest.raises(failure):
        stage(new_bronze(tmp_path), S, batches=rows(), target_bytes=10_000)
    assert files_in(tmp_path) == []


def test_a_disk_that_fails_leaves_no_file(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    planned = PlannedRange(PlanId(S, RUN, "00c0ffee"), 0, 1)
    (tmp_path / "orders" / f"{planned.plan}-r00000-a1-x-1.parquet").mkdir()
    with pytest.raises(OSError):
        stage(bronze, S, planned=planned, attempt="a1-x", target_bytes=1, batches=_two_row_groups())
    assert [name for name in files_in(tmp_path) if not name.endswith("-1.parquet")] == []


def _two_row_groups() -> list[pa.RecordBatch]:
    count = staging.ROW_GROUP_BYTES // batch(range(1000)).nbytes + 1
    return [batch(range(1000))] * (count + 1)


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    planned = PlannedRange(PlanId(S, RUN, "00c0ffee"), 0, 1)
    (file,) = stage(bronze, S, [1, 2], planned=planned, attempt="a1-x")
    with pytest.raises(FileExistsError):
        stage(bronze, S, [3], planned=planned, attempt="a1-x")
    assert pq.read_table(tmp_path / "orders" / file.path).num_rows == 2


@pytest.mark.parametrize("attempt", ["", "a1/../../x", "a 1", "-a", "a-"])
def test_an_attempt_that_is_no_part_of_a_file_name_is_refused(tmp_path: Path, attempt: str) -> None:
    with pytest.raises(ValueError, match="an attempt must"):
        stage(new_bronze(tmp_path), S, attempt=attempt)


@pytest.mark.parametrize("other", [4, 6])
def test_a_range_of_another_snapshot_is_refused(tmp_path: Path, other: int) -> None:
    with pytest.raises(ValueError, match="for its own snapshot"):
        stage(new_bronze(tmp_path), S, planned=PlannedRange(PlanId.new(lsn(other), RUN), 0, 1))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([LakeColumn("id", "id", "int32"), *COLUMNS[1:]], "id int32"),
        (COLUMNS[:-1], "name string"),
        (COLUMNS[::-1], "another order"),
    ],
)
def test_rows_of_other_columns_than_planned_are_refused(
    tmp_path: Path, columns: list[LakeColumn], said: str
) -> None:
    with pytest.raises(SchemaDrift, match=said):
        stage(new_bronze(tmp_path), S, batches=[batch([1]), batch([2], columns)])
    assert files_in(tmp_path) == []


EVERY_TYPE = {
    "bool": True,
    "int16": -32768,
    "int32": 2**31 - 1,
    "int64": -(2**63),
    "float32": 0.5,
    "float64": 1e308,
    "decimal(5,0)": Decimal("-99999"),
    "decimal(18,4)": Decimal("99999999999999.1111"),
    "decimal(38,10)": Decimal("-9999999999999999999999999999.9999999999"),
    "date": dt.date(1, 1, 1),
    "timestamp_ntz": dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "timestamp": dt.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    "string": "Größe \U0001f600",
    "binary": b"\x00\xff",
}


def test_every_type_comes_back_from_delta_as_it_was_staged(tmp_path: Path) -> None:
    columns = [LakeColumn(f"c{number}", "", data_type) for number, data_type in enumerate(EVERY_TYPE)]
    values = list(EVERY_TYPE.values())
    rows = pa.record_batch([[value, None] for value in values], schema=captured_schema(columns))
    bronze = new_bronze(tmp_path, columns)
    complete(bronze.location, S, stage(bronze, S, batches=[rows], columns=columns), columns=columns)
    names = [column.name for column in columns]
    read = rows_of(bronze.location, ", ".join(names))
    assert read == [dict(zip(names, values, strict=True)), dict.fromkeys(names)]
    assert pa.schema(DeltaTable(bronze.location.uri).schema()).field("c1").type == pa.int16()


def test_awkward_column_names_come_back(tmp_path: Path) -> None:
    names = ["a.b", "Entry No_", "x$y", "Größe", "ID", "select", "a/b", "it's", "_start"]
    columns = [LakeColumn(name, name, "int64", f"{name} bigint") for name in names]
    rows = pa.record_batch([[number] for number in range(len(names))], schema=captured_schema(columns))
    bronze = new_bronze(tmp_path, columns)
    complete(bronze.location, S, stage(bronze, S, batches=[rows], columns=columns), columns=columns)
    (read,) = rows_of(bronze.location)
    assert [read[name] for name in names] == list(range(len(names)))


def test_files_hold_plain_types_and_no_int96(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    (file,) = stage(bronze, S)
    footer = pq.read_metadata(tmp_path / "orders" / file.path)
    chunks = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    assert {chunk.compression for chunk in chunks} == {"ZSTD"}
    assert "INT96" not in {chunk.physical_type for chunk in chunks}
    assert footer.schema.to_arrow_schema().equals(bronze.schema.remove_metadata())


_IN_A_FRESH_PROCESS = """
import sys
import pyarrow as pa
from airflow_provider_mssql_cdc.lake.bronze import open_or_create
from airflow_provider_mssql_cdc.lake.commit import commit_snapshot
from airflow_provider_mssql_cdc.arrow_types import one
from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.staging import stage_range
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange
from airflow_provider_mssql_cdc.model.source_table import LakeColumn, SnapshotHeader
from airflow_provider_mssql_cdc.model.state import SourceIdentity

bronze_at, facts_at = (TableLocation(path) for path in sys.argv[1:])
identity, columns, S = SourceIdentity("c", "d", "s", "t"), [LakeColumn("id", "id", "int64")], Lsn(7)
bronze = open_or_create(bronze_at, identity, columns)
header = SnapshotHeader(identity, "s_t", S, None, columns, "00000000", "r")
planned = PlannedRange(PlanId.new(S, "00000000"), 0, 1)
rows = [pa.record_batch([one(1, pa.int64())], names=["id"])]
files = stage_range(bronze, header, planned, rows, attempt="a1-x")
for _ in range(2):
    done = commit_snapshot(bronze_at, header, files)
write_facts(facts_at, FactsRow(event="bootstrap", target=bronze_at.uri, rows=done.rows), identifier="x")
print(done.rows, sorted({"pandas", "airflow"} & set(sys.modules)))
"""


def test_writing_brings_in_neither_pandas_nor_airflow(tmp_path: Path) -> None:
    places = [str(tmp_path / "bronze"), str(tmp_path / "facts")]
    answer = subprocess.run(
        [sys.executable, "-c", _IN_A_FRESH_PROCESS, *places], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "1 []\n"
