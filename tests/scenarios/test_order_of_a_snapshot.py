"""The order inside plan, read and complete, and what goes wrong without it: the jobs, without Airflow.

The server commits, cleans up or lags at the moment that matters; the drivers and Delta are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import IncompletePlan, NotReadyYet, ReplicaBehind, RetentionGap
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot
from tests.support.delta_rows import delta_rows
from tests.support.load import Load
from tests.support.rebuild import Row, rebuild

ROWS = 400
MEASURES = r"MAX\("
READS_ROWS = r"\[name\](?s:.*)FROM \[dbo\]\.\[orders\]"


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    """``dbo.orders`` with ids 0 to 399, older than its change data capture."""
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        running.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(ROWS)])
        running.enable_cdc("dbo.orders")
        yield running


@pytest.fixture
def load(server: EmbeddedSqlServer, tmp_path: Path) -> Load:
    return Load(server, tmp_path, instance="dbo_orders")


def changes(server: EmbeddedSqlServer) -> list[Row]:
    names = ("_start_lsn", "_command_id", "_seqval", "_operation", "id", "name")
    rows = server.execute(
        "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id], "
        "CONVERT(varchar(22), [__$seqval], 1), [__$operation], id, name FROM cdc.dbo_orders_CT"
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def assert_rebuilt_equals_source(load: Load, done: CompletedSnapshot) -> None:
    end = load.server.idle()
    assert end is not None
    snapshot_rows = delta_rows(load.table.bronze, "_operation = 0")
    snapshot = done.snapshot.text
    built = rebuild(snapshot_rows, changes(load.server), key=["id"], snapshot=snapshot, end=end)
    source = load.server.execute("SELECT id, name FROM dbo.orders")
    assert sorted(key for (key,) in built) == sorted(key for key, _ in source)
    assert {row["id"]: row["name"] for row in built.values()} == dict(source)


def test_s_is_recorded_before_the_key_is_measured(load: Load) -> None:
    """A row above the key's end that is inserted after the measuring comes as a change above S."""
    load.server.faults.run(
        MEASURES,
        lambda: load.server.execute("INSERT INTO dbo.orders VALUES (100000, 'above the end')"),
        at_end=True,
    )
    planned = load.plan()
    late = [row["_start_lsn"] for row in changes(load.server) if row["id"] == 100000]
    assert [planned[0].snapshot.text < lsn for lsn in late] == [True]


@pytest.mark.parametrize("form", ["pair", "images"])
def test_rows_that_change_while_they_are_read_end_as_the_source_has_them(load: Load, form: str) -> None:
    """Updates, deletes, inserts and key moves between the stamp and the read, between and in the ranges."""
    server = load.server
    server.key_updates = "pair" if form == "pair" else "images"
    moves = iter(range(1000, 2000))

    def disturb() -> None:
        server.execute(
            f"UPDATE dbo.orders SET id = {next(moves)} WHERE id = (SELECT MIN(id) FROM dbo.orders)"
        )
        server.execute("UPDATE dbo.orders SET id = -id WHERE id = (SELECT MAX(id) FROM dbo.orders)")
        server.execute("UPDATE dbo.orders SET name = name + '!' WHERE id % 7 = 0")
        server.execute("DELETE FROM dbo.orders WHERE id % 50 = 13")
        server.execute(f"INSERT INTO dbo.orders VALUES ({next(moves) * 10}, 'new')")

    server.faults.run(READS_ROWS, disturb, times=None)
    server.faults.run(READS_ROWS, disturb, after_rows=50, times=None)
    done = load.all()
    server.faults.clear()
    assert_rebuilt_equals_source(load, done)


def test_a_server_that_is_behind_the_stamp_is_not_read(load: Load) -> None:
    """The session that reads asks itself: another one answered when S was recorded."""
    behind = load.server.replica()
    behind.hold()
    load.server.execute("UPDATE dbo.orders SET name = 'newer' WHERE id = 7")
    planned = load.plan()
    with pytest.raises(ReplicaBehind, match="behind the snapshot's LSN"):
        load.read(planned[0], listener=behind)
    assert list(Path(load.table.bronze).glob("*.parquet")) == []
    behind.catch_up()
    assert load.read(planned[0], listener=behind).rows > 0


def purge_everything(load: Load) -> None:
    """Changes above S, and then retention that passes it."""
    load.server.execute("UPDATE dbo.orders SET name = 'changed after S' WHERE id = 1")
    load.server.execute("UPDATE dbo.orders SET name = 'and again' WHERE id = 2")
    newest = max(row["_start_lsn"] for row in changes(load.server))
    load.server.cleanup(up_to=newest)


def test_a_snapshot_that_retention_has_passed_is_not_read(load: Load) -> None:
    planned = load.plan()
    purge_everything(load)
    with pytest.raises(RetentionGap):
        load.read(planned[0])
    assert list(Path(load.table.bronze).glob("*.parquet")) == []


def test_a_snapshot_that_retention_has_passed_is_not_committed(load: Load) -> None:
    outcomes = [load.read(planned) for planned in load.plan()]
    before = load.bronze_version()
    purge_everything(load)
    with pytest.raises(RetentionGap, match="Nothing was committed"):
        load.complete(outcomes)
    assert load.bronze_version() == before


def test_a_new_instance_is_loaded_before_capture_has_reached_it(load: Load) -> None:
    """S is start_lsn - 1 then, and that is retained: capture has not seen a commit yet."""
    done = load.all()
    load.server.execute("UPDATE dbo.orders SET name = 'first change' WHERE id = 3")
    assert done.rows == ROWS
    assert_rebuilt_equals_source(load, done)


def test_a_resnapshot_is_above_every_snapshot_in_bronze(load: Load, tmp_path: Path) -> None:
    load.server.execute("UPDATE dbo.orders SET name = 'before' WHERE id = 1")
    first = load.all()
    again = Load(load.server, tmp_path, instance="dbo_orders", run_id="manual__2")
    with pytest.raises(NotReadyYet, match="needs a later LSN"):
        again.plan(resnapshot=True)
    load.server.execute("UPDATE dbo.orders SET name = 'after' WHERE id = 1")
    assert again.plan(resnapshot=True)[0].snapshot > first.snapshot


def test_a_range_that_is_missing_keeps_the_whole_snapshot_out(load: Load) -> None:
    outcomes = [load.read(planned) for planned in load.plan()]
    before = load.bronze_version()
    with pytest.raises(IncompletePlan, match=r"range\(s\) 3 of 4 are missing"):
        load.complete([outcome for outcome in outcomes if outcome.index != 2])
    assert load.bronze_version() == before
