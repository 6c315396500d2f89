from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.staged_files import remove_losers
from tests.unit.lake.tables import OTHER_RUN, RUN, complete, ids_in, lsn, new_bronze, stage

S = lsn(5)


def test_files_of_this_run_that_no_commit_names_are_removed_and_no_others(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    committed = stage(bronze, S, [1, 2])
    killed = stage(bronze, S, [1, 2], attempt="a2-x")
    earlier_plan = stage(bronze, S, [1], attempt="a1-x")
    earlier_snapshot = stage(bronze, lsn(4), [1], attempt="a1-z")
    others = stage(bronze, S, [1], run=OTHER_RUN)
    complete(bronze.location, S, committed)
    folder = tmp_path / "orders"
    foreign = folder / "part-00000.parquet"
    foreign.touch()
    assert remove_losers(bronze.location, run=RUN) == 3
    kept = {path.name for path in folder.glob("*.parquet")}
    assert kept == {file.path for file in (*committed, *others)} | {foreign.name}
    assert not kept & {file.path for file in (*killed, *earlier_plan, *earlier_snapshot)}
    assert ids_in(bronze.location) == [1, 2]
    assert remove_losers(bronze.location, run=RUN) == 0


def test_files_that_an_older_version_needs_stay(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, S, stage(bronze, S, [1]) + stage(bronze, S, [2]))
    DeltaTable(bronze.location.uri).optimize.compact()
    assert remove_losers(bronze.location, run=RUN) == 0
    before_optimize = DeltaTable(bronze.location.uri, version=1)
    assert sorted(pa.table(before_optimize.scan(["id"])).column("id").to_pylist()) == [1, 2]


@pytest.mark.parametrize("run", ["", "part-", S.text, f"{RUN}-", ".*", RUN[:7]])
def test_a_run_that_could_reach_other_files_is_refused(tmp_path: Path, run: str) -> None:
    with pytest.raises(ValueError, match="eight hex digits"):
        remove_losers(new_bronze(tmp_path).location, run=run)
