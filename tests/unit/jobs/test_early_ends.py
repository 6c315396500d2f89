"""Rows that end before their end, in every way: the attempt fails, nothing of it counts, the next has all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConnectionBroken, RetryableError
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

ROWS = 300
READS = r"AS \[name\](?s:.*)FROM \[dbo\]\.\[t\]"
CHANGES = r"FROM \[?cdc\]?"

both_drivers = pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
everywhere = pytest.mark.parametrize("after_rows", [0, 1, 64, ROWS - 1, ROWS])


@pytest.fixture(scope="module")
def server() -> EmbeddedSqlServer:  # type: ignore[misc]
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(400) NOT NULL)")
        running.executemany("INSERT INTO dbo.t VALUES (?, ?)", [(n, f"row {n} " * 9) for n in range(ROWS)])
        running.enable_cdc("dbo.t")
        yield running


@pytest.fixture(autouse=True)
def no_faults_are_left(server: EmbeddedSqlServer):  # type: ignore[no-untyped-def]
    yield
    server.faults.clear()


@both_drivers
@everywhere
@pytest.mark.parametrize("action", ["drop", "truncate"])
def test_a_range_whose_rows_end_early_is_read_again_as_a_whole(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, after_rows: int, action: str
) -> None:
    load = Load(server, tmp_path, instance="dbo_t", driver=driver)
    (planned,) = load.plan(rows_per_range=ROWS)
    fault = getattr(server.faults, action)(READS, after_rows=after_rows)
    if action == "truncate" and after_rows == ROWS:
        outcome = load.read(planned)  # nothing was cut off
    else:
        with pytest.raises(ConnectionBroken):
            load.read(planned)
        outcome = load.read(planned)
    assert fault.acted == 1
    load.complete([outcome])
    assert sorted(row["id"] for row in delta_rows(load.table.bronze)) == list(range(ROWS))


@both_drivers
def test_a_connection_that_goes_between_the_last_row_and_the_horizon_is_noticed_by_the_horizon(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    """Whatever a driver makes of a result's end, the session has to answer once more after it."""
    load = Load(server, tmp_path, instance="dbo_t", driver=driver)
    (planned,) = load.plan(rows_per_range=ROWS)
    server.faults.drop(r"AS utc_time,.*AS max_lsn")
    with pytest.raises(ConnectionBroken):
        load.read(planned)
    load.complete([load.read(planned)])
    assert len(delta_rows(load.table.bronze)) == ROWS


@both_drivers
@pytest.mark.parametrize("after_rows", [0, 1, 7])
@pytest.mark.parametrize("action", ["drop", "truncate"])
def test_a_window_whose_changes_end_early_is_not_committed(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, after_rows: int, action: str
) -> None:
    load = Load(server, tmp_path, instance="dbo_t", driver=driver)
    load.all(rows_per_range=ROWS)
    server.execute("UPDATE dbo.t SET name = name + '!' WHERE id < 4")
    version = load.bronze_version()
    getattr(server.faults, action)(r"AS \[name\](?s:.*)\[?cdc\]?\.", after_rows=after_rows)
    with pytest.raises(ConnectionBroken):
        load.changes()
    assert load.bronze_version() == version
    assert load.changes().counts.updates == 4
    assert len(delta_rows(load.table.bronze, "_operation > 0")) == 8


def ready(load: Load, job: str) -> Callable[[], object]:
    """A job of a load for which all that comes before it is done."""
    if job == "plan":
        return partial(load.plan, rows_per_range=100)
    load.all()
    load.server.execute("UPDATE dbo.t SET name = name + N'!' WHERE id < 9")
    return load.changes


@both_drivers
@pytest.mark.parametrize("after_rows", [None, 0, 1])
@pytest.mark.parametrize("job", ["plan", "changes"])
def test_a_connection_that_goes_at_any_statement_costs_a_try_and_is_taken_for_nothing_else(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, after_rows: int | None, job: str
) -> None:
    """No answer that was cut short is a missing table, a missing right, no change or the end of them."""
    cut, statement, run, fault = 0, 0, None, None
    while fault is None or fault.seen >= statement:
        server.faults.clear()
        run = run or ready(Load(server, tmp_path / f"{statement}", instance="dbo_t", driver=driver), job)
        statement += 1
        fault = server.faults.drop(".", occurrence=statement, after_rows=after_rows)
        with contextlib.suppress(RetryableError):
            run()
            assert not fault.reached.is_set(), "a job whose connection went is not done"
            run = None  # that statement has fewer rows
        cut += fault.reached.is_set()
    assert cut > 5
