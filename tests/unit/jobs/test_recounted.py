"""``verify_counts``: a difference fails on a table that nobody writes to, and proves nothing on another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import CountsDiffer
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

DRIVERS: tuple[DriverName, ...] = ("mssql-python", "pymssql")
both_drivers = pytest.mark.parametrize("driver", DRIVERS)
READ, COUNT = r"AS \[__\$sent\]", r"\bCOUNT_BIG"


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.orders (a varchar(9) NULL, n int NOT NULL, PRIMARY KEY (n))")
        running.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [("Nn"[n % 2], n * n) for n in range(90)])
        running.enable_cdc("dbo.orders")
        yield running


@both_drivers
@pytest.mark.parametrize("split_by", [None, ("a",), ("a", "n")])
def test_the_counts_of_a_quiet_table_agree(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, split_by: tuple[str, ...] | None
) -> None:
    load = Load(server, tmp_path, instance="dbo_orders", driver=driver, split_by=split_by)
    planned = load.plan(rows_per_range=20)
    with server.count_reads() as reads:
        staged = [load.read(item, verify_counts=True) for item in planned]
    assert load.complete(staged).rows == 90
    assert sum("COUNT_BIG(*)" in statement.sql for statement in reads.statements) == len(planned)


@both_drivers
def test_a_row_that_was_not_read_fails_the_range(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, caplog: pytest.LogCaptureFixture
) -> None:
    """A row that comes without a change, as one that a range misses would."""
    load = Load(server, tmp_path, instance="dbo_orders", driver=driver)
    planned = load.plan(rows_per_range=30)
    server.capture_mode = "manual"
    server.faults.run(COUNT, lambda: server.execute("INSERT INTO dbo.orders VALUES ('x', 7)"))
    with pytest.raises(
        CountsDiffer, match=r"dbo\.orders, range 1 of 3: 30 rows were read .* counts 31"
    ) as caught:
        load.read(planned[0], verify_counts=True)
    assert caught.value.retryable
    assert DeltaTable(load.table.bronze).version() == 0
    server.faults.clear()
    staged = [load.read(item, verify_counts=True) for item in planned]
    assert load.complete(staged).rows == 91
    assert len(delta_rows(load.table.bronze)) == 91


@both_drivers
def test_a_table_that_is_written_to_is_said_to_prove_nothing(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, caplog: pytest.LogCaptureFixture
) -> None:
    load = Load(server, tmp_path, instance="dbo_orders", driver=driver)
    planned = load.plan(rows_per_range=30)
    server.faults.run(COUNT, lambda: server.execute("DELETE FROM dbo.orders WHERE n = 4"))
    with caplog.at_level(logging.WARNING):
        staged = load.read(planned[0], verify_counts=True)
    assert staged.rows == 30
    assert "30 rows were read and 29 are counted now; the table changed during the read" in caplog.text


@both_drivers
def test_under_snapshot_isolation_changes_do_not_disturb_the_count(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    server.execute("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    load = Load(server, tmp_path, instance="dbo_orders", driver=driver, isolation="snapshot")
    planned = load.plan(rows_per_range=30)
    moves: Callable[[], object] = lambda: server.execute("DELETE FROM dbo.orders WHERE n > 100")  # noqa: E731
    server.faults.run(COUNT, moves)
    staged = [load.read(item, verify_counts=True) for item in planned[:1]]
    assert staged[0].rows == 30
