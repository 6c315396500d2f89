"""Values of megabytes, and many of them in one batch: right, and in bounded memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.seam import MAX, ResultColumn, SqlType
from airflow_provider_mssql_cdc.embedded.tds import rows
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine

MEGABYTE = 1 << 20
BYTES, WIDE, NARROW = (SqlType(name, MAX) for name in ("varbinary", "nvarchar", "varchar"))


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        (BYTES, bytes(range(256)) * (16 * MEGABYTE // 256)),
        (WIDE, "日本 😀 é" * 150_000),
        (NARROW, "é€" * 500_000),
        (SqlType("ntext"), "ж" * 1_000_000),
        (SqlType("xml"), "<a>" + "x" * 1_000_000 + "</a>"),
    ],
    ids=["16 MB of bytes", "a million characters", "a million bytes of text", "ntext", "xml"],
)
def test_a_large_value_arrives_whole(
    sql_type: SqlType, value: Any, engine: ScriptedEngine, clients: Clients
) -> None:
    engine.select("SELECT large", [("id", SqlType("int")), ("x", sql_type)], [(1, value), (2, None)])
    for connection in (clients.pymssql(), clients.mssql_python()):
        assert fetch(connection, "SELECT large") == [(1, value), (2, None)]


def test_a_large_value_arrives_whole_in_arrow(engine: ScriptedEngine, clients: Clients) -> None:
    value = "日本 😀 é" * 150_000
    engine.select("SELECT large", [("x", WIDE)], [(value,)] * 3)
    cursor = clients.mssql_python().cursor()
    cursor.execute("SELECT large")
    assert cursor.arrow().column(0).to_pylist() == [value] * 3


def test_a_large_parameter_arrives_whole(engine: ScriptedEngine, clients: Clients) -> None:
    value = "日本 😀 é" * 150_000
    clients.mssql_python().cursor().execute("INSERT INTO t VALUES (?)", value)
    _, (given,) = engine.sessions[-1].calls[-1]
    assert given.value == value


def test_a_batch_of_large_values_is_encoded_in_pieces() -> None:
    value = b"x" * MEGABYTE
    columns = [ResultColumn("id", SqlType("int")), ResultColumn("x", BYTES)]
    batch = [(i, value) for i in range(200)]
    tracemalloc.start()
    total = 0
    for _, data in rows.encode_batches(columns, [batch]):
        total += len(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > 200 * MEGABYTE
    assert peak < 8 * rows.PIECE_BYTES


def test_one_long_value_among_short_ones_does_not_blow_the_batch_up() -> None:
    columns = [ResultColumn("x", SqlType("nvarchar", 8000))]
    batch = [("a" * 4000,), *[("b",)] * 60_000]
    tracemalloc.start()
    total = sum(len(data) for _, data in rows.encode_batches(columns, [batch]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 3 + 8000 + 60_000 * 5
    assert peak < 8 * rows.PIECE_BYTES
