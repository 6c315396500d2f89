"""An engine that casts texts to other bytes than their UTF-16 units: texts are read as it gives them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from tests.support.changes_world import ChangesWorld
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows

TEXTS = ("plain", "Ünï €", "жук", "🌺 pair", "", "blank ", None)
COLUMNS = (
    "a nvarchar(20) NULL, b nchar(20) NULL, c nvarchar(max) NULL, d ntext NULL, e varchar(20) NULL, "
    "f sql_variant NULL"
)


def _answers(server: EmbeddedSqlServer) -> None:
    server.text_casts = "utf-8"


def _refuses(server: EmbeddedSqlServer) -> None:
    server.faults.fail(r"AS varbinary\(", 529, times=None)


@pytest.fixture(params=[_answers, _refuses], ids=["other bytes", "refused"])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="other") as running:
        request.param(running)
        yield running


@pytest.fixture(params=["mssql-python", "pymssql"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def insert(server: EmbeddedSqlServer, first: int) -> None:
    for number, text in enumerate(TEXTS, start=first):
        row = [number, *(5 * [text]), text]
        marks = ", ".join("NULL" if value is None else "?" for value in row)
        server.execute(f"INSERT dbo.orders VALUES ({marks})", *(v for v in row if v is not None))


def expected(first: int) -> dict[int, tuple[Any, ...]]:
    return {
        number: (text, None if text is None else text.ljust(20 - text.count("🌺")), text, text, text)
        for number, text in enumerate(TEXTS, start=first)
    }


def found(rows: list[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    return {row["id"]: tuple(row[name] for name in "abcdf") for row in rows}


def test_a_snapshot_and_its_changes_hold_every_text_and_the_log_says_what_is_not_noticed(
    server: EmbeddedSqlServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    world = ChangesWorld(server, tmp_path, driver=driver, columns=COLUMNS)
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
    world.table = MssqlCdcTable(
        mssql_conn_id="erp",
        capture_instance="dbo_orders",
        bronze=world.table.bronze,
        facts=world.table.facts,
        casts={"f": "nvarchar(40)"},
    )
    insert(server, 0)
    server.enable_cdc("dbo.orders")
    world.bootstrap()
    insert(server, 100)
    world.changes()
    assert found(world.bronze()) == expected(0) | expected(100)
    assert "half of a surrogate pair would not be noticed" in caplog.text


def test_waves_and_ranges_over_a_text_key_hold_every_row(
    server: EmbeddedSqlServer, tmp_path: Path, driver: Any
) -> None:
    server.execute(
        "CREATE TABLE dbo.coded (a nvarchar(9) COLLATE Latin1_General_BIN2, b nchar(3) COLLATE "
        "Latin1_General_BIN2, PRIMARY KEY (a, b))"
    )
    codes = [(f"{'жÜ🌺'[number % 3]}{number // 3}", f"€{number % 10} ") for number in range(60)]
    for code in codes:
        server.execute("INSERT dbo.coded VALUES (?, ?)", *code)
    server.enable_cdc("dbo.coded")
    for run, chunked in (("ranges", False), ("waves", True)):
        load = ChunkedLoad(server, tmp_path / run, instance="dbo_coded", run_id=run, driver=driver)
        if chunked:
            assert len(load.planned(chunk_rows=10)) > 3
            load.load(chunk_rows=10)
        else:
            planned = load.plan(rows_per_range=10, max_ranges=6)
            assert len(planned) > 3
            load.complete([load.read(one) for one in planned])
        assert sorted((row["a"], row["b"]) for row in delta_rows(load.table.bronze)) == sorted(codes)
