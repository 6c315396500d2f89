"""Every staged file is looked at before it is committed; what is wrong with it is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import IncompletePlan, MssqlCdcError, SchemaDrift
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.unit.lake.tables import COLUMNS, batch, complete, ids_in, lsn, new_bronze, stage

S = lsn(5)


def _delete(path: Path) -> None:
    path.unlink()


def _cut_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _cut_and_fill_with_zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_delete, "is missing"),
        (_cut_the_end, "bytes, .* were staged"),
        (_append, "bytes, .* were staged"),
        (_cut_and_fill_with_zeros, "cannot be read"),
        (_replace_by_a_folder, "is missing"),
    ],
)
def test_a_file_that_is_not_what_was_staged_is_named_and_nothing_is_committed(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    bronze = new_bronze(tmp_path)
    good, bad = stage(bronze, S, [1]) + stage(bronze, S, [2])
    damage(tmp_path / "orders" / bad.path)
    with pytest.raises(IncompletePlan, match=f"{bad.path}.*({said})") as refused:
        complete(bronze.location, S, [good, bad])
    assert good.path not in str(refused.value)
    assert bronze.reload().version == 0


def test_every_bad_file_is_named_up_to_ten(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    gone = [StagedFile(f"{S.text}-{number:02d}.parquet", 1, 1) for number in range(12)]
    with pytest.raises(IncompletePlan, match=r"12 staged file\(s\).*-09\.parquet is missing and 2 more"):
        complete(bronze.location, S, gone)


def test_a_file_put_in_anothers_place_is_noticed_though_size_and_rows_agree(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    one, other = stage(bronze, S, [1, 2]) + stage(bronze, S, [1, 2])
    assert (one.size, one.rows) == (other.size, other.rows)
    shutil.copy(tmp_path / "orders" / one.path, tmp_path / "orders" / other.path)
    with pytest.raises(IncompletePlan, match=f"{other.path} holds another file's content"):
        complete(bronze.location, S, [one, other])


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"rows": 4}, "3 rows, 4 were staged"),
        ({"size": 1}, "bytes, 1 were staged"),
        ({"path": "../elsewhere.parquet"}, "must be a file of snapshot"),
        ({"path": f"{lsn(6).text}-x.parquet"}, "must be a file of snapshot"),
        ({"path": f"{S.text}-x/y.parquet"}, "must be a file of snapshot"),
    ],
)
def test_a_claim_that_the_file_does_not_bear_out_is_refused(
    tmp_path: Path, claim: dict[str, object], said: str
) -> None:
    bronze = new_bronze(tmp_path)
    (file,) = stage(bronze, S)
    with pytest.raises(IncompletePlan, match=said):
        complete(bronze.location, S, [replace(file, **claim)])  # type: ignore[arg-type]


def test_a_file_named_twice_is_refused(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    (file,) = stage(bronze, S)
    with pytest.raises(IncompletePlan, match="named twice"):
        complete(bronze.location, S, [file, file])


@pytest.mark.parametrize(
    ("staged", "said"),
    [
        (COLUMNS[:-1], "columns differ: name"),
        ([*COLUMNS[:3], LakeColumn("label", "label", "string")], "columns differ: label, name"),
        ([COLUMNS[1], COLUMNS[0], *COLUMNS[2:]], "another order"),
        ([COLUMNS[0], LakeColumn("amount", "amount", "decimal(19,4)"), *COLUMNS[2:]], "amount is decimal"),
    ],
)
def test_a_file_of_other_columns_is_drift(tmp_path: Path, staged: list[LakeColumn], said: str) -> None:
    bronze = new_bronze(tmp_path)
    schema = captured_schema(staged)
    rows = pa.record_batch([pa.nulls(1, column_type) for column_type in schema.types], schema=schema)
    files = stage(bronze, S, columns=staged, batches=[rows])
    with pytest.raises(SchemaDrift, match=said):
        complete(bronze.location, S, files)
    assert bronze.reload().version == 0


def test_damage_and_drift_together_are_an_incomplete_plan(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    drifted = stage(bronze, S, columns=COLUMNS[:1], batches=[batch([1], COLUMNS[:1])])
    errors: tuple[type[MssqlCdcError], ...] = (IncompletePlan,)
    with pytest.raises(errors, match="2 staged"):
        complete(bronze.location, S, [*drifted, StagedFile(f"{S.text}-gone.parquet", 1, 1)])


def test_many_files_become_one_commit(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = [stage(bronze, S, [number])[0] for number in range(40)]
    done = complete(bronze.location, S, files)
    assert (done.version, done.rows) == (1, 40)
    assert ids_in(bronze.location) == list(range(40))
    assert len(DeltaTable(bronze.location.uri).file_uris()) == 40
