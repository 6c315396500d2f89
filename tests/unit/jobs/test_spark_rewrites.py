"""Jobs over files that Spark has rewritten: its OPTIMIZE writes timestamps as INT96 by default."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.changes_world import ChangesWorld

ENDS = ("0001-01-01T00:00:00", "1677-09-21T00:12:43", "2262-04-11T23:47:17", "9999-12-31T23:59:59.999999")
"""Of datetimeoffset, and just outside of what nanoseconds in 64 bits can hold."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(datetime(2026, 5, 11, 9, 30, tzinfo=UTC))
        world = ChangesWorld(server, tmp_path, columns="name nvarchar(40) NULL, at datetimeoffset(6) NULL")
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(0)
        server.enable_cdc("dbo.orders")
        yield world


def rewritten_by_spark(world: ChangesWorld) -> None:
    """All rows in one file, ``dataChange`` false, as its OPTIMIZE leaves them."""
    table = DeltaTable(world.table.bronze)
    paths = table.get_add_actions().column("path").to_pylist()
    files = [pq.read_table(Path(world.table.bronze, path), partitioning=None) for path in paths]
    rows = pa.concat_tables(files, promote_options="default")
    target = Path(world.table.bronze, "part-00000-spark.snappy.parquet")
    pq.write_table(rows, target, use_deprecated_int96_timestamps=True, store_schema=False)
    stats = f'{{"numRecords": {rows.num_rows}}}'
    added = AddAction(target.name, target.stat().st_size, {}, 0, False, stats)
    removed = [RemoveAction(path, False, 0) for path in paths]
    table.create_write_transaction([*removed, added], mode="append", schema=table.schema())


def test_a_repair_over_rows_that_spark_rewrote_keeps_times_that_nanoseconds_cannot_hold(
    world: ChangesWorld,
) -> None:
    world.bootstrap()
    for number, text in enumerate(ENDS, start=1):
        world.execute("INSERT INTO dbo.orders (id, at) VALUES (?, ?)", number, f"{text} +00:00")
    world.tick(3600)
    world.changes()
    for number, text in enumerate(ENDS, start=11):
        world.execute("INSERT INTO dbo.orders (id, at) VALUES (?, ?)", number, f"{text} +00:00")
    world.tick(3600)
    world.changes()
    expected = {row["id"]: row["at"] for row in world.bronze()}
    assert len(expected) == 1 + 2 * len(ENDS)
    assert expected[4] == datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    rewritten_by_spark(world)
    start, end = (datetime(2026, 5, 11, hour, tzinfo=UTC) for hour in (9, 10))
    world.interval(start, end)
    assert {row["id"]: row["at"] for row in world.bronze()} == expected
    assert world.change_rows() == world.recorded_rows()
