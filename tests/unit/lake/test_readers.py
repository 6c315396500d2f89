"""Readers that share no code with the writer read the same rows, types and answers to predicates."""

from __future__ import annotations

import datetime as dt
import importlib.util
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.unit.lake.tables import IDENTITY, complete, lsn, new_bronze, stage

S = lsn(5)

COLUMNS = (
    LakeColumn("id", "id", "int64"),
    LakeColumn("small", "small", "int16"),
    LakeColumn("amount", "amount", "decimal(18,4)"),
    LakeColumn("wide", "wide", "decimal(38,10)"),
    LakeColumn("at", "at", "timestamp_ntz"),
    LakeColumn("instant", "instant", "timestamp"),
    LakeColumn("day", "day", "date"),
    LakeColumn("text", "text", "string"),
    LakeColumn("with space", "with space", "string"),
)
LARGEST = Decimal("99999999999999.1111")
LATEST = dt.datetime(2024, 1, 1, 0, 0, 0, 123956)
LONG = "ä" * 70


def row(number: int, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": number,
        "small": -number,
        "amount": Decimal(number) + Decimal("0.1111"),
        "wide": Decimal(number) + Decimal("0.0000000001"),
        "at": dt.datetime(2023, 1, 1) + dt.timedelta(microseconds=number),
        "instant": dt.datetime(2023, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number),
        "day": dt.date(1, 1, 1) + dt.timedelta(days=number),
        "text": f"text {number}",
        "with space": None,
    }
    return values | more


FILES = (
    [row(1), row(2)],
    [
        row(3),
        row(
            4,
            amount=LARGEST,
            wide=Decimal("9999999999999999999999999999.9999999999"),
            at=LATEST,
            instant=LATEST.replace(tzinfo=dt.UTC),
            day=dt.date(9999, 12, 31),
            text=LONG,
        ),
    ],
    [row(5), row(6, **dict.fromkeys(["amount", "wide", "at", "instant", "day", "text"]))],
)
EVERY_ROW = [each for file in FILES for each in file]


@pytest.fixture(params=["as committed", "after OPTIMIZE"])
def bronze(tmp_path: Path, request: pytest.FixtureRequest) -> TableLocation:
    """Three files, the second with the extremes; and again as delta-rs rewrites them."""
    table = new_bronze(tmp_path, COLUMNS)
    files = [
        staged
        for rows in FILES
        for staged in stage(
            table,
            S,
            columns=COLUMNS,
            batches=[pa.RecordBatch.from_pylist(rows, schema=captured_schema(COLUMNS))],
        )
    ]
    complete(table.location, S, files, columns=COLUMNS)
    if request.param == "after OPTIMIZE":
        DeltaTable(table.location.uri).optimize.compact()
    return table.location


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    """DuckDB with its delta extension (delta-kernel) from the wheel; nothing is downloaded or installed."""
    spec = importlib.util.find_spec("duckdb_extension_delta")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.rglob(f"v{duckdb.__version__}/delta.duckdb_extension"))
    assert found, f"duckdb-extension-delta is not of duckdb's version, {duckdb.__version__}"
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{found[0]}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def by_duckdb(duck: duckdb.DuckDBPyConnection, location: TableLocation, where: str) -> list[int]:
    rows = duck.sql(f"SELECT id FROM delta_scan('{location.uri}') WHERE {where} ORDER BY id").fetchall()
    return [number for (number,) in rows]


def by_polars(location: TableLocation, predicate: pl.Expr) -> list[int]:
    return sorted(pl.scan_delta(location.uri).filter(predicate).collect()["id"].to_list())


def by_arrow_dataset(location: TableLocation, predicate: pc.Expression) -> list[int]:
    dataset = DeltaTable(location.uri).to_pyarrow_dataset()
    return sorted(dataset.to_table(["id"], filter=predicate, use_threads=False).column("id").to_pylist())


def test_duckdb_reads_every_row_and_type(duck: duckdb.DuckDBPyConnection, bronze: TableLocation) -> None:
    names = ", ".join(f'"{column.name}"' for column in COLUMNS)
    relation = duck.sql(f"SELECT {names} FROM delta_scan('{bronze.uri}') ORDER BY id")
    assert [str(kind) for kind in relation.types] == [
        "BIGINT",
        "SMALLINT",
        "DECIMAL(18,4)",
        "DECIMAL(38,10)",
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
        "DATE",
        "VARCHAR",
        "VARCHAR",
    ]
    assert relation.to_arrow_table().to_pylist() == EVERY_ROW


def test_polars_reads_every_row_and_type(bronze: TableLocation) -> None:
    frame = pl.scan_delta(bronze.uri).select([column.name for column in COLUMNS]).sort("id").collect()
    assert frame.schema == {
        "id": pl.Int64(),
        "small": pl.Int16(),
        "amount": pl.Decimal(18, 4),
        "wide": pl.Decimal(38, 10),
        "at": pl.Datetime("us"),
        "instant": pl.Datetime("us", "UTC"),
        "day": pl.Date(),
        "text": pl.String(),
        "with space": pl.String(),
    }
    assert frame.to_dicts() == EVERY_ROW


PREDICATES: list[tuple[str, pl.Expr, pc.Expression, list[int]]] = [
    (
        "amount = 99999999999999.1111",
        pl.col("amount") == LARGEST,
        pc.field("amount") == pa.scalar(LARGEST, pa.decimal128(18, 4)),
        [4],
    ),
    (
        "amount > 99999999999999.1110",
        pl.col("amount") > Decimal("99999999999999.1110"),
        pc.field("amount") > pa.scalar(Decimal("99999999999999.1110"), pa.decimal128(18, 4)),
        [4],
    ),
    (
        "wide = 9999999999999999999999999999.9999999999",
        pl.col("wide") == pl.lit(EVERY_ROW[3]["wide"], pl.Decimal(38, 10)),
        pc.field("wide") == pa.scalar(EVERY_ROW[3]["wide"], pa.decimal128(38, 10)),
        [4],
    ),
    (
        "\"at\" = TIMESTAMP '2024-01-01 00:00:00.123956'",
        pl.col("at") == LATEST,
        pc.field("at") == pa.scalar(LATEST, pa.timestamp("us")),
        [4],
    ),
    (
        "\"at\" > TIMESTAMP '2024-01-01 00:00:00.1235'",
        pl.col("at") > LATEST.replace(microsecond=123500),
        pc.field("at") > pa.scalar(LATEST.replace(microsecond=123500), pa.timestamp("us")),
        [4],
    ),
    (
        "instant >= TIMESTAMPTZ '2024-01-01 00:00:00.123956+00'",
        pl.col("instant") >= LATEST.replace(tzinfo=dt.UTC),
        pc.field("instant") >= pa.scalar(LATEST, pa.timestamp("us", "UTC")),
        [4],
    ),
    (
        "day = DATE '9999-12-31'",
        pl.col("day") == dt.date(9999, 12, 31),
        pc.field("day") == pa.scalar(dt.date(9999, 12, 31)),
        [4],
    ),
    (
        "day < DATE '0001-01-04'",
        pl.col("day") < dt.date(1, 1, 4),
        pc.field("day") < pa.scalar(dt.date(1, 1, 4)),
        [1, 2],
    ),
    (f"text = '{LONG}'", pl.col("text") == LONG, pc.field("text") == LONG, [4]),
    ("text IS NULL", pl.col("text").is_null(), pc.field("text").is_null(), [6]),
    ("small <= -5", pl.col("small") <= -5, pc.field("small") <= -5, [5, 6]),
    (
        f"_start_lsn = '{S.text}' AND _operation = 0",
        (pl.col("_start_lsn") == S.text) & (pl.col("_operation") == 0),
        (pc.field("_start_lsn") == S.text) & (pc.field("_operation") == 0),
        [1, 2, 3, 4, 5, 6],
    ),
    (
        "_commit_ts >= TIMESTAMP '2024-05-11 02:00:00.277'",
        pl.col("_commit_ts") >= dt.datetime(2024, 5, 11, 2, 0, 0, 277000),
        pc.field("_commit_ts") >= pa.scalar(dt.datetime(2024, 5, 11, 2, 0, 0, 277000), pa.timestamp("us")),
        [1, 2, 3, 4, 5, 6],
    ),
    (
        f"_start_lsn > '{S.text}'",
        pl.col("_start_lsn") > S.text,
        pc.field("_start_lsn") > S.text,
        [],
    ),
]


@pytest.mark.parametrize(
    ("sql", "expression", "filtered", "ids"), PREDICATES, ids=[case[0] for case in PREDICATES]
)
def test_predicates_find_the_same_rows_in_every_reader(
    duck: duckdb.DuckDBPyConnection,
    bronze: TableLocation,
    *,
    sql: str,
    expression: pl.Expr,
    filtered: pc.Expression,
    ids: list[int],
) -> None:
    assert by_duckdb(duck, bronze, sql) == ids
    assert by_polars(bronze, expression) == ids
    assert by_arrow_dataset(bronze, filtered) == ids


def test_statistics_let_readers_skip_files(tmp_path: Path) -> None:
    """They are worth their bytes: a predicate on a key reads the file that holds it and no other."""
    table = new_bronze(tmp_path, COLUMNS)
    files = [
        staged
        for rows in FILES
        for staged in stage(
            table,
            S,
            columns=COLUMNS,
            batches=[pa.RecordBatch.from_pylist(rows, schema=captured_schema(COLUMNS))],
        )
    ]
    complete(table.location, S, files, columns=COLUMNS, identity=IDENTITY)
    dataset = DeltaTable(table.location.uri).to_pyarrow_dataset()
    assert len(list(dataset.get_fragments(pc.field("id") == 3))) == 1
    assert len(list(dataset.get_fragments(pc.field("_start_lsn") > S.text))) == 0
    assert len(list(dataset.get_fragments(pc.field("amount") > Decimal("9")))) == 3
