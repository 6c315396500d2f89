"""Whole snapshots of tables that are odd in their keys, and of runs that meet each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import SchemaDrift
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

MakeLoad = Callable[..., Load]
BIGINT = 2**63


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [7],
        [-BIGINT, -1, 0, 1, BIGINT - 1],
        [-BIGINT, BIGINT - 1],
        list(range(-500, -100)),
        [number * 1_000_003 for number in range(-200, 400)],
        list(range(BIGINT - 300, BIGINT)),
        [*range(400), 10**15],
    ],
    ids=["empty", "one row", "both ends", "two rows", "negative", "sparse", "at the upper end", "a sentinel"],
)
def test_every_key_is_loaded_once(server: EmbeddedSqlServer, make_load: MakeLoad, keys: list[int]) -> None:
    server.execute("CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY)")
    server.executemany("INSERT INTO dbo.orders VALUES (?)", [(key,) for key in keys])
    server.enable_cdc("dbo.orders")
    load = make_load()
    planned = load.plan()
    assert 1 <= len(planned) <= 16
    staged = [load.read(item) for item in planned]
    completed = load.complete(staged)
    assert completed.rows == len(keys)
    assert sorted(row["id"] for row in delta_rows(load.table.bronze)) == sorted(keys)
    assert delta_rows(load.table.facts, "event = 'bootstrap'")[0]["rows"] == len(keys)
    if len(keys) > 100:
        largest = max(one.rows for one in staged)
        assert largest <= 1.5 * len(keys) / len(planned) + 1


def test_ranges_read_their_own_rows_and_no_more(server: EmbeddedSqlServer, make_load: MakeLoad) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.executemany("INSERT INTO dbo.orders VALUES (?)", [(key,) for key in range(1000)])
    server.enable_cdc("dbo.orders")
    load = make_load()
    planned = load.plan(rows_per_range=100)
    with server.count_reads() as reads:
        staged = [load.read(item) for item in planned]
    read = [statement.tables.get("dbo.orders", 0) for statement in reads.statements]
    assert sum(one.rows for one in staged) == 1000
    assert sum(read) == 1000


def test_the_earliest_complete_wins_and_the_others_return_it(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.executemany("INSERT INTO dbo.orders VALUES (?)", [(key,) for key in range(250)])
    server.enable_cdc("dbo.orders")
    loads = [make_load(run_id=f"run {number}") for number in range(3)]
    staged = []
    for load in loads:
        planned = load.plan()
        server.execute("DELETE FROM dbo.orders WHERE id = (SELECT MAX(id) FROM dbo.orders)")
        staged.append([load.read(item) for item in planned])
    winner = loads[1].complete(staged[1])
    for load, outcomes in zip(loads, staged, strict=True):
        assert load.complete(outcomes).snapshot == winner.snapshot
    assert len(delta_rows(loads[0].table.bronze)) == winner.rows
    assert len(delta_rows(loads[0].table.facts, "event = 'bootstrap'")) == 1


def test_a_resnapshot_that_is_older_than_the_stored_one_returns_that_one(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.executemany("INSERT INTO dbo.orders VALUES (?)", [(key,) for key in range(50)])
    server.enable_cdc("dbo.orders")
    make_load(run_id="first").all()
    slow, quick = make_load(run_id="slow"), make_load(run_id="quick")
    outcomes = []
    for load in (slow, quick):
        server.execute("INSERT INTO dbo.orders SELECT MAX(id) + 1 FROM dbo.orders")
        outcomes.append([load.read(item) for item in load.plan(resnapshot=True, wait_seconds=0)])
    newer = quick.complete(outcomes[1])
    older = slow.complete(outcomes[0])
    assert older.snapshot == newer.snapshot
    snapshots = {row["_snapshot"] for row in delta_rows(slow.table.bronze)}
    assert len(snapshots) == 2


def test_each_further_complete_changes_no_version_and_says_so(
    server: EmbeddedSqlServer, make_load: MakeLoad, caplog: pytest.LogCaptureFixture
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.execute("INSERT INTO dbo.orders VALUES (1)")
    server.enable_cdc("dbo.orders")
    load = make_load()
    staged = [load.read(item) for item in load.plan()]
    with caplog.at_level("INFO"):
        answers = [load.complete(staged) for _ in range(3)]
    assert caplog.text.count("is complete with 1 rows in version 1") == 1
    assert caplog.text.count("already (1 rows); nothing was added") == 2
    assert all(one.to_xcom() == other.to_xcom() for one, other in pairwise(answers))
    assert [answer.committed for answer in answers] == [True, False, False]
    assert DeltaTable(load.table.bronze).version() == answers[0].version


def test_a_resnapshot_brings_the_columns_that_the_table_has_gained(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.executemany("INSERT INTO dbo.orders VALUES (?)", [(key,) for key in range(20)])
    server.enable_cdc("dbo.orders")
    make_load(run_id="first").all()
    server.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
    server.execute("UPDATE dbo.orders SET note = 'new'")
    server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2")
    again = make_load(run_id="again", capture_instance="dbo_orders_v2")
    assert again.all(resnapshot=True, wait_seconds=0).rows == 20
    rows = delta_rows(again.table.bronze)
    assert sorted(str(row["note"]) for row in rows) == ["None"] * 20 + ["new"] * 20


def test_a_snapshot_that_nobody_asked_anew_stops_at_a_new_column(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY)")
    server.enable_cdc("dbo.orders")
    make_load(run_id="first").all()
    server.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
    server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2")
    with pytest.raises(SchemaDrift, match="note"):
        make_load(run_id="again", capture_instance="dbo_orders_v2").plan()
