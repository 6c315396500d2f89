"""Every type at its edges from the source into Delta: as snapshot, as change, by both drivers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.load import Load
from tests.support.type_values import TYPE_VALUES

DRIVERS = ("mssql-python", "pymssql")
LATER = 1000
"""Added to a row's id for the same values as a change."""
DECLARED = list(TYPE_VALUES)
each_type = pytest.mark.parametrize("number", range(len(DECLARED)), ids=DECLARED)


@dataclass(frozen=True)
class Loaded:
    loads: dict[str, Load]
    tables: dict[str, pa.Table]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Rows 0, 1, … by a snapshot in three ranges, the same rows from 1000 on by changes."""
    columns = ", ".join(f"c{number} {declared} NULL" for number, declared in enumerate(DECLARED))
    names = ", ".join(f"c{number}" for number in range(len(DECLARED)))
    longest = max(len(inserted) for inserted, _ in TYPE_VALUES.values())
    with EmbeddedSqlServer(database="types") as server:
        server.execute(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, {columns}, stamp rowversion)")
        insert = f"INSERT INTO dbo.t (id, {names}) VALUES ({', '.join('?' * (len(DECLARED) + 1))})"
        rows = [
            [row, *(values[row] if row < len(values) else None for values, _ in TYPE_VALUES.values())]
            for row in range(longest)
        ]
        server.executemany(insert, rows)
        server.enable_cdc("dbo.t")
        loads = {
            driver: Load(server, tmp_path_factory.mktemp(driver), instance="dbo_t", driver=driver)
            for driver in DRIVERS
        }
        for load in loads.values():
            assert load.all(rows_per_range=-(-longest // 3)).rows == longest
        server.executemany(insert, [[row[0] + LATER, *row[1:]] for row in rows])
        for load in loads.values():
            assert load.changes().counts.inserts == longest
        yield Loaded(loads, {driver: bronze_of(load) for driver, load in loads.items()})


def bronze_of(load: Load) -> pa.Table:
    delta = DeltaTable(load.table.bronze)
    table = pa.table(delta.scan().read_all())
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    schema = pa.schema([field.with_type(plain.get(field.type, field.type)) for field in table.schema])
    return table.cast(schema).sort_by("id")


def cells(table: pa.Table, name: str, *, later: bool = False) -> dict[int, Any]:
    """Values by row number, of the snapshot or of the changes."""
    ids = table["id"].to_pylist()
    start = LATER if later else 0
    return {
        row - start: value
        for row, value in zip(ids, table[name].to_pylist(), strict=True)
        if (row >= LATER) == later
    }


def exact(values: Iterable[Any]) -> list[Any]:
    """Values to compare, where a zero has its sign."""
    return [value.hex() if isinstance(value, float) else value for value in values]


@pytest.mark.parametrize("driver", DRIVERS)
@each_type
def test_a_value_is_in_the_lake_as_it_is_in_the_source(loaded: Loaded, driver: str, number: int) -> None:
    expected = TYPE_VALUES[DECLARED[number]][1]
    found = cells(loaded.tables[driver], f"c{number}")
    assert exact(found[row] for row in range(len(expected))) == exact(expected)
    assert {value for row, value in found.items() if row >= len(expected)} <= {None}


@pytest.mark.parametrize("driver", DRIVERS)
@each_type
def test_a_snapshot_and_a_change_give_one_value(loaded: Loaded, driver: str, number: int) -> None:
    table = loaded.tables[driver]
    snapshot, changes = cells(table, f"c{number}"), cells(table, f"c{number}", later=True)
    assert exact(snapshot.values()) == exact(changes[row] for row in snapshot)


def test_both_drivers_write_equal_tables(loaded: Loaded) -> None:
    first, second = (table.drop(["_batch_id"]) for table in loaded.tables.values())
    assert first.schema == second.schema
    assert [name for name in first.column_names if not first[name].equals(second[name])] == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_polars_reads_the_same_cells(loaded: Loaded, driver: str) -> None:
    frame = pl.read_delta(loaded.loads[driver].table.bronze).sort("id")
    table = loaded.tables[driver]
    for name in table.column_names:
        assert exact(frame[name].to_list()) == exact(table[name].to_pylist()), name


@pytest.mark.parametrize("driver", DRIVERS)
def test_duckdb_reads_the_same_cells(loaded: Loaded, driver: str) -> None:
    spec = importlib.util.find_spec("duckdb_extension_delta")
    assert spec is not None
    assert spec.origin is not None
    (extension,) = Path(spec.origin).parent.rglob(f"v{duckdb.__version__}/delta.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    table = loaded.tables[driver]
    bronze = loaded.loads[driver].table.bronze
    read = connection.execute(f"SELECT * FROM delta_scan('{bronze}') ORDER BY id").arrow().read_all()
    for name in table.column_names:
        assert read[name].cast(table.schema.field(name).type).to_pylist() == table[name].to_pylist(), name
