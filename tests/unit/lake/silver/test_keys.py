"""Keys of every type and name: they match byte for byte, and many of them at once."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.lake.silver.rows import KeySet
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.support.silver_world import Row, World, change, snapshot_row

VALUE = LakeColumn("v", "v", "string")
UTC = dt.UTC

# lake type of the key → keys of five rows; the last two differ by a bit that a careless match overlooks
TYPES: dict[str, tuple[str, list[Any]]] = {
    "bigint": ("int64", [-(2**63), 2**63 - 1, 0, 1, 2]),
    "tinyint": ("int16", [0, 255, 7, 8, 9]),
    "decimal(38,0)": ("decimal(38,0)", [Decimal(each) for each in (0, 1, -5, 10**37, 10**37 + 1)]),
    "decimal(18,4)": (
        "decimal(18,4)",
        [
            *(Decimal("0.0001"), Decimal("-1.5000"), Decimal("7.0000")),
            *(Decimal("99999999999999.1111"), Decimal("99999999999999.1112")),
        ],
    ),
    "nvarchar": ("string", ["", "ключ", "🌺", "bar", "bar "]),
    "nvarchar, case only": ("string", ["x", "y", "z", "abc", "ABC"]),
    "long nvarchar": ("string", ["a", "b", "c", "p" * 200 + "1", "p" * 200 + "2"]),
    "date": ("date", [dt.date(year, 1, 1) for year in (1, 9999, 1969, 1970, 1971)]),
    "datetime2(6)": (
        "timestamp_ntz",
        [
            *(dt.datetime(year, 1, 1) for year in (1, 9999, 1970)),
            *(dt.datetime(2024, 1, 1, 0, 0, 0, micro) for micro in (123456, 123457)),
        ],
    ),
    "datetimeoffset(6)": (
        "timestamp",
        [
            *(dt.datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (1, 2, 3)),
            *(dt.datetime(2024, 1, 1, 0, 0, 0, micro, tzinfo=UTC) for micro in (1, 2)),
        ],
    ),
    "float": ("float64", [1e-308, 1.7e308, 0.1, 0.0, -0.0]),
    "real": ("float32", [1.5, -2.5, 0.25, 0.0, -0.0]),
    "varbinary": ("binary", [b"", b"\x00", b"\xff", b"k", b"k\x00"]),
}


@pytest.mark.parametrize(("data_type", "keys"), TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("optimized", [False, True], ids=["as written", "optimized"])
def test_a_key_of_each_type_is_found_again_and_no_other(
    tmp_path: Path, data_type: str, keys: list[Any], optimized: bool
) -> None:
    world = World(tmp_path, columns=(LakeColumn("k", "k", data_type), VALUE), key=("k",))
    rows: list[Row] = [{"k": key, "v": f"{number}"} for number, key in enumerate(keys)]
    world.snapshot(10, [snapshot_row(10, row) for row in rows[1:]])
    world.merge()
    if optimized:
        world.optimize(world.silver_at)
    world.changes([change(11, 2, rows[0]), change(11, 3, rows[-2], seq=2), change(11, 1, rows[-1], seq=3)])
    merged = world.merge()
    assert merged.counts.inserted == 1
    held = {row["v"] for row in world.rows().values()}
    assert held == {row["v"] for row in rows[:-2]}


@pytest.mark.parametrize(
    "key",
    [("OrderId",), ("OrderId", "Line No_x0020_"), ("tenant", "OrderId", "Line No_x0020_")],
    ids=["one", "two", "three"],
)
def test_camel_case_and_awkward_names_of_one_column_and_of_several(
    tmp_path: Path, key: tuple[str, ...]
) -> None:
    columns = [LakeColumn(name, name, "int64") for name in key[:-1]]
    world = World(tmp_path, columns=(*columns, LakeColumn(key[-1], key[-1], "string"), VALUE), key=key)
    keys = [(*(number % 3 + level for level in range(len(key) - 1)), f"L{number}") for number in range(12)]
    rows: list[Row] = [dict(zip(key, each, strict=True)) | {"v": str(each)} for each in keys]
    world.snapshot(10, [snapshot_row(10, row) for row in rows[:8]])
    world.merge()
    assert [field.name for field in world.silver.table.schema().fields if not field.nullable] == list(key)
    world.changes(
        [
            *(change(11, 1, row, seq=number) for number, row in enumerate(rows[:3])),
            *(change(11, 2, row, seq=20 + number) for number, row in enumerate(rows[8:])),
            *(change(12, 4, row | {"v": "changed"}, seq=number) for number, row in enumerate(rows[4:6])),
        ]
    )
    world.merge()
    world.check()


def test_a_key_of_several_columns_is_not_any_mixture_of_their_values() -> None:
    keys = KeySet(pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]}))
    rows = pa.table({"a": [2, 2, 1, 1, 3, None], "b": ["x", "y", "y", "x", "x", "x"]})
    assert keys.positions(rows).to_pylist() == [2, None, 1, 0, None, None]


@pytest.mark.parametrize("form", ["pair", "images"])
def test_a_key_update_of_case_alone_leaves_one_row(tmp_path: Path, form: str) -> None:
    world = World(tmp_path, columns=(LakeColumn("k", "k", "string"), VALUE), key=("k",))
    world.snapshot(10, [snapshot_row(10, {"k": "abc", "v": "1"})])
    world.merge()
    before, after = (3, 4) if form == "images" else (1, 2)
    world.changes([change(11, before, {"k": "abc", "v": "1"}), change(11, after, {"k": "ABC", "v": "2"})])
    world.merge()
    assert world.values() == {"ABC": "2"}


@pytest.mark.parametrize("form", ["pair", "images"])
def test_a_key_update_to_the_same_instant_at_another_offset_leaves_one_row(tmp_path: Path, form: str) -> None:
    """The server holds 10:00 +00:00 and 12:00 +02:00 equal; in the lake both are one instant in UTC."""
    world = World(tmp_path, columns=(LakeColumn("k", "k", "timestamp"), VALUE), key=("k",))
    here = dt.datetime(2024, 1, 1, 10, tzinfo=UTC)
    there = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    world.snapshot(10, [snapshot_row(10, {"k": here, "v": "1"})])
    world.merge()
    before, after = (3, 4) if form == "images" else (1, 2)
    world.changes([change(11, before, {"k": here, "v": "1"}), change(11, after, {"k": there, "v": "2"})])
    world.merge()
    assert [row["v"] for row in world.rows().values()] == ["2"]


@pytest.mark.parametrize("count", [8_193, 200_000])
def test_many_rows_at_once_and_again(tmp_path: Path, count: int) -> None:
    """Sizes at which merges by other means went wrong: a batch and one row, and more than one row group."""
    columns = (LakeColumn("OrderId", "OrderId", "decimal(12,2)"), VALUE)
    world = World(tmp_path, columns=columns, key=("OrderId",))
    world.snapshot(10, [])
    names = {1: "inserted", 2: "updated", 3: "inserted once more"}
    for number, (operation, value) in enumerate([(2, 1), (4, 2), (1, 0), (2, 3)], start=11):
        world.append_table(_many(world, count, number=number, operation=operation, value=names.get(value)))
        merged = world.merge()
        assert merged.counts.changed_keys == count
        assert merged.rows == (0 if operation == 1 else count)
        assert {row["v"] for row in world.rows().values()} == ({names[value]} if value else set())


def _many(world: World, count: int, *, number: int, operation: int, value: str | None) -> pa.Table:
    row = change(number, operation, {"v": value})
    table = world.table([row]).drop_columns(["OrderId"])
    keys = pa.array(range(count), pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
    rows = pa.table({name: pa.repeat(table.column(name)[0], count) for name in table.column_names})
    return rows.append_column("OrderId", keys).select(world.bronze.schema.names)
