from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ForeignTable,
    MssqlCdcError,
    SchemaDrift,
    SourceObjectMissing,
    StateDamaged,
)
from airflow_provider_mssql_cdc.lake.bronze import open_bronze, open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.delta_table import load_table
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import lsn_transactions
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage, SourceIdentity
from tests.unit.lake.tables import COLUMNS, IDENTITY, complete, lsn, new_bronze, reopened, stage


def test_no_table_is_none_and_for_those_who_need_it_an_error(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "orders"))
    assert open_bronze(location) is None
    with pytest.raises(SourceObjectMissing, match="Clear the plan task"):
        open_existing(location)


def test_a_new_bronze_is_empty_and_belongs_to_its_source(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    assert bronze.state == BronzeState(version=0)
    assert bronze.identity == IDENTITY
    assert new_bronze(tmp_path).version == 0, "opening it again writes nothing"


def test_a_handle_that_moves_on_forgets_what_it_knew_of_transactions(tmp_path: Path) -> None:
    location = new_bronze(tmp_path).location
    for number in range(3):
        handle = load_table(location)
        before = None if number == 0 else number - 1
        assert handle.transaction_version("mssql_cdc#batch") == before
        other = DeltaTable(location.uri)
        stored = CommitProperties(app_transactions=[Transaction("mssql_cdc#batch", number)])
        other.create_write_transaction([], mode="append", schema=other.schema(), commit_properties=stored)
        assert handle.transaction_version("mssql_cdc#batch") == before, "of the handle's version"
        handle.update_incremental()
        assert handle.transaction_version("mssql_cdc#batch") == number


def test_the_table_and_every_column_say_what_they_hold(tmp_path: Path) -> None:
    table = new_bronze(tmp_path).table
    assert "sales.dbo.orders" in (table.metadata().description or "")
    comments = {field.name: field.metadata.get("comment") for field in table.schema().fields}
    assert set(comments) == {*METADATA_NAMES, *(column.name for column in COLUMNS)}
    assert all(comments.values())
    assert comments["amount"] == "amount decimal(18,4)"


def test_columns_have_the_types_and_the_order_of_the_design(tmp_path: Path) -> None:
    assert [f"{field.name} {field.type.type}" for field in new_bronze(tmp_path).table.schema().fields] == [
        "_capture_instance string",
        "_start_lsn string",
        "_seqval string",
        "_operation integer",
        "_command_id integer",
        "_commit_ts timestamp_ntz",
        "id long",
        "amount decimal(18,4)",
        "at timestamp_ntz",
        "name string",
        "_batch_id long",
        "_snapshot string",
        "_chunk integer",
    ]


def test_statistics_are_named_only_where_every_writer_gets_them_right(tmp_path: Path) -> None:
    types = ["int16", "int32", "int64", "date", "string", "bool", "float32", "float64", "decimal(18,4)"]
    types += ["timestamp", "timestamp_ntz", "binary"]
    names = {data_type: f"c{number}" for number, data_type in enumerate(types)}
    odd = ["with space", "comma,d", "do.t", "back`tick", "Größe"]
    columns = [LakeColumn(name, name, data_type) for data_type, name in names.items()]
    columns += [LakeColumn(name, name, "int64") for name in odd]
    named = new_bronze(tmp_path, columns).statistics_columns
    assert [name for name in named if not name.startswith("_")] == ["c0", "c1", "c2", "c3", "c4"]
    assert set(named) > {"_start_lsn", "_operation", "_commit_ts", "_snapshot"}


@pytest.mark.parametrize("name", ["_operation", "_START_LSN", "_Snapshot"])
def test_a_captured_column_named_like_one_of_bronzes_own_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        new_bronze(tmp_path, [LakeColumn(name, name, "int64")])


@pytest.mark.parametrize(
    "other",
    [
        SourceIdentity("crm", "sales", "dbo", "orders"),
        SourceIdentity("erp", "archive", "dbo", "orders"),
        SourceIdentity("erp", "sales", "audit", "orders"),
        SourceIdentity("erp", "sales", "dbo", "Orders"),
    ],
)
def test_a_bronze_of_another_source_is_refused(tmp_path: Path, other: SourceIdentity) -> None:
    location = new_bronze(tmp_path).location
    with pytest.raises(ForeignTable, match="belongs to sales.dbo.orders"):
        open_or_create(location, other, COLUMNS)


def test_a_delta_table_that_this_package_did_not_make_is_refused(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "theirs"))
    write_deltalake(location.uri, pa.table({"id": [1]}))
    with pytest.raises(ForeignTable, match="no bronze table of this package"):
        open_bronze(location)


def _set(location: TableLocation, properties: dict[str, str]) -> None:
    DeltaTable(location.uri).alter.set_table_properties(properties, raise_if_not_exists=False)


@pytest.mark.parametrize(
    ("properties", "error", "said"),
    [
        ({"mssql_cdc.state_version": "2"}, ConfigurationError, "upgrade"),
        ({"mssql_cdc.state_version": "x"}, ForeignTable, "no bronze table"),
        ({"mssql_cdc.source": "{}"}, ForeignTable, "no bronze table"),
        (
            {"delta.setTransactionRetentionDuration": "interval 30 days"},
            ConfigurationError,
            "UNSET TBLPROPERTIES",
        ),
    ],
)
def test_properties_that_state_cannot_live_with_are_refused(
    tmp_path: Path, properties: dict[str, str], error: type[MssqlCdcError], said: str
) -> None:
    location = new_bronze(tmp_path).location
    _set(location, properties)
    with pytest.raises(error, match=said):
        open_bronze(location)


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        ([*COLUMNS, LakeColumn("extra", "extra", "int32")], "extra is not there"),
        ([LakeColumn("id", "id", "int32"), *COLUMNS[1:]], "id is int64, planned int32"),
        ([COLUMNS[0], LakeColumn("amount", "amount", "decimal(19,4)"), *COLUMNS[2:]], "amount is decimal"),
    ],
)
def test_columns_that_do_not_agree_are_named(tmp_path: Path, planned: list[LakeColumn], said: str) -> None:
    bronze = new_bronze(tmp_path)
    with pytest.raises(SchemaDrift, match=said):
        bronze.check_columns(planned)


def test_a_column_that_only_bronze_has_is_returned(tmp_path: Path) -> None:
    assert new_bronze(tmp_path).check_columns(COLUMNS[:-1]) == ("name",)


def _create_each(folder: str, tables: int, together: Barrier) -> list[int]:
    """Create many tables, each at a moment when the others create it too."""
    versions = []
    for number in range(tables):
        together.wait()
        versions.append(new_bronze(Path(folder) / str(number)).version)
    return versions


def test_tasks_that_create_bronze_at_once_share_one_table_made_by_one_commit(tmp_path: Path) -> None:
    tables, tasks = 30, 3
    spawn = multiprocessing.get_context("spawn")  # deltalake panics in a forked process
    with spawn.Manager() as manager, ProcessPoolExecutor(tasks, mp_context=spawn) as pool:
        together = manager.Barrier(tasks)
        work = [pool.submit(_create_each, str(tmp_path), tables, together) for _ in range(tasks)]
        assert [future.result() for future in work] == [[0] * tables] * tasks
    made = [DeltaTable(str(tmp_path / str(number) / "orders")).version() for number in range(tables)]
    assert made == [0] * tables


# --- state ---------------------------------------------------------------------------------------------


def _record(table: DeltaTable, transactions: list[Transaction]) -> None:
    table.create_write_transaction(
        [],
        mode="append",
        schema=table.schema(),
        commit_properties=CommitProperties(app_transactions=transactions),
    )


def _coverage(base: Lsn, changes: Lsn) -> list[Transaction]:
    return [
        *lsn_transactions("mssql_cdc#base", base),
        *lsn_transactions("mssql_cdc#changes", changes),
    ]


def test_state_is_read_from_the_transactions(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    high = Lsn((1 << 80) - 1)
    _record(bronze.table, [*_coverage(Lsn(1), high), *lsn_transactions("mssql_cdc#open", lsn(7))])
    assert reopened(bronze).state == BronzeState(version=1, open=lsn(7), coverage=Coverage(Lsn(1), high))


@pytest.mark.parametrize(
    ("transactions", "said"),
    [
        ([Transaction("mssql_cdc#base.hi", 1)], "only one half"),
        ([Transaction("mssql_cdc#base.hi", 0), Transaction("mssql_cdc#base.lo", 0)], "no LSN"),
        ([Transaction("mssql_cdc#base.hi", 1 << 40), Transaction("mssql_cdc#base.lo", 0)], "no LSN"),
        ([Transaction("mssql_cdc#base.hi", 1), Transaction("mssql_cdc#base.lo", -1)], "no LSN"),
        (lsn_transactions("mssql_cdc#base", lsn(1)), "one end only"),
        (lsn_transactions("mssql_cdc#snapshot", lsn(1)), "no coverage"),
        (_coverage(lsn(2), lsn(1)), "must end at or above its base"),
    ],
)
def test_transactions_that_contradict_each_other_are_damage(
    tmp_path: Path, transactions: list[Transaction], said: str
) -> None:
    bronze = new_bronze(tmp_path)
    _record(bronze.table, transactions)
    with pytest.raises(StateDamaged, match=said):
        open_bronze(bronze.location)


def test_state_survives_a_checkpoint_and_log_cleanup(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, lsn(5), stage(bronze, lsn(5)))
    _set(bronze.location, {"delta.logRetentionDuration": "interval 0 days"})
    DeltaTable(bronze.location.uri).create_checkpoint()
    DeltaTable(bronze.location.uri).cleanup_metadata()
    log = sorted(path.name for path in (tmp_path / "orders" / "_delta_log").glob("*.json"))
    assert log == ["00000000000000000002.json"]
    assert reopened(bronze).state == BronzeState(
        version=2, snapshot=lsn(5), coverage=Coverage(lsn(5), lsn(5))
    )


def test_rows_without_a_position_stop_everything(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    row = dict.fromkeys(bronze.schema.names) | {"id": 1}
    write_deltalake(bronze.table, pa.Table.from_pylist([row], schema=bronze.schema), mode="append")
    with pytest.raises(StateDamaged, match="rows and no position"):
        open_bronze(bronze.location)


# --- RESTORE -------------------------------------------------------------------------------------------
# versions: 0 created, 1 snapshot, 2 and 3 a property; then each RESTORE (4, 6, 8) and a property after it


@pytest.mark.parametrize(
    ("targets", "damaged"),
    [
        ([0], True),
        ([1], False),
        ([2], False),
        ([0, 1], False),
        ([0, 2], False),
        ([0, 4], True),
        ([0, 4, 1], False),
        ([0, 1, 6], False),
        ([0, 1, 4], True),
        ([1, 0], True),
        ([1, 4], False),
    ],
)
def test_a_restore_that_took_our_rows_back_is_noticed(
    tmp_path: Path, targets: list[int], *, damaged: bool
) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, lsn(5), stage(bronze, lsn(5)))
    for number in (2, 3):
        _set(bronze.location, {"note": str(number)})
    for target in targets:
        DeltaTable(bronze.location.uri).restore(target)
        _set(bronze.location, {"note": f"after {target}"})
    assert DeltaTable(bronze.location.uri).transaction_version("mssql_cdc#snapshot.hi") == lsn(5).hi
    if damaged:
        with pytest.raises(StateDamaged, match=r"RESTORE the table to version 1 or a later one"):
            open_bronze(bronze.location)
    else:
        assert reopened(bronze).state.snapshot == lsn(5)


def test_a_restore_is_damage_when_the_log_has_forgotten_what_it_took_back(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, lsn(5), stage(bronze, lsn(5)))
    _set(bronze.location, {"delta.logRetentionDuration": "interval 0 days"})
    table = DeltaTable(bronze.location.uri)
    table.restore(0)
    DeltaTable(bronze.location.uri).create_checkpoint()
    DeltaTable(bronze.location.uri).cleanup_metadata()
    with pytest.raises(StateDamaged, match="RESTORE"):
        open_bronze(bronze.location)


def test_the_identity_is_readable_json(tmp_path: Path) -> None:
    properties = new_bronze(tmp_path).table.metadata().configuration
    assert json.loads(properties["mssql_cdc.source"] or "") == {
        "conn_id": "erp",
        "database": "sales",
        "schema": "dbo",
        "table": "orders",
    }
    assert properties["mssql_cdc.state_version"] == "1"
