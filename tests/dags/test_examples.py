"""The example DAGs that no other test runs, as Airflow finds them, on small tables of the demo's names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.dags.harness import returned, run, states, sync
from tests.support.delta_rows import delta_rows

pytestmark = pytest.mark.usefixtures("airflow_database")

EXAMPLES = Path(__file__).resolve().parents[2] / "dags_examples"
TABLES = ("flights", "airlines", "airports")
HALF_PAST_NINE = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)
TEN = datetime(2026, 5, 11, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
CHANGES = '"_start_lsn", "_command_id", "_seqval", "_operation", "_commit_ts", id, name'


@pytest.fixture
def lake(server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the examples write. The server has their tables, and it is half past nine there."""
    monkeypatch.setenv("MSSQL_CDC_LAKE", str(tmp_path))
    server.clock.freeze(HALF_PAST_NINE)
    for name in TABLES:
        server.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL)")
        server.executemany(f"INSERT INTO dbo.{name} VALUES (?, N'{name}')", [(n,) for n in range(100)])
        server.enable_cdc(f"dbo.{name}")
    return tmp_path


def example(name: str) -> DAG:
    """The one DAG of a file, parsed again."""
    (dag,) = examples(name).values()
    return dag


def examples(name: str) -> dict[str, DAG]:
    """The DAGs of a file by their ids, parsed again."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(EXAMPLES / f"{name}.py", bundle_path=EXAMPLES, bundle_name="examples")
    assert bag.import_errors == {}
    return dict(bag.dags)


def changes_in(lake: Path, table: str) -> list[tuple[Any, ...]]:
    """All change rows but for the number of the commit that wrote them."""
    found = delta_rows(lake / "bronze" / table, "_operation > 0", columns=CHANGES)
    return sorted(tuple(row.values()) for row in found)


def rows_in(folder: Path) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["name"]) for row in delta_rows(folder, columns="id, name"))


def source_rows(server: EmbeddedSqlServer, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in server.execute(f"SELECT id, name FROM dbo.{table} ORDER BY id")]


def test_every_example_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    assert len(names) >= 5
    assert [name for name in names if f'"{name}"' not in tests and f"dags_examples.{name}" not in tests] == []


@pytest.mark.parametrize(
    ("name", "places"), [("bootstrap_tables", TABLES), ("bootstrap_by_hand", TABLES[:1])]
)
def test_an_example_loads_its_tables(
    server: EmbeddedSqlServer, lake: Path, name: str, places: tuple[str, ...]
) -> None:
    bronze = "bronze_by_hand" if name == "bootstrap_by_hand" else "bronze"
    assert run(example(name)).state == "success"
    assert sorted(path.name for path in (lake / bronze).iterdir()) == sorted(places)
    for table in places:
        assert rows_in(lake / bronze / table) == source_rows(server, table)


def test_the_hourly_example_read_hour_by_hour_and_again_leaves_bronze_and_silver_as_they_were(
    server: EmbeddedSqlServer, lake: Path
) -> None:
    run(example("bootstrap_tables"))
    hourly = sync(example("changes_hourly"))
    for hour in range(2):
        server.clock.freeze(TEN + hour * HOUR + HOUR / 4)
        for table in TABLES:
            server.execute(f"UPDATE dbo.{table} SET name = N'hour {hour}' WHERE id % 10 = {hour}")
            server.execute(f"UPDATE dbo.{table} SET id = id + 500 WHERE id = {20 + hour}")
            server.execute(f"DELETE FROM dbo.{table} WHERE id = {30 + hour}")
    server.clock.freeze(TEN + 2 * HOUR + HOUR / 4)
    server.idle()

    in_order = [hourly.test(logical_date=TEN + hour * HOUR) for hour in (1, 2)]
    assert [each.state for each in in_order] == ["success", "success"]
    for number, each in enumerate(in_order, start=1):
        assert (each.data_interval_start, each.data_interval_end) == (
            TEN + (number - 1) * HOUR,
            TEN + number * HOUR,
        )
        assert {returned(each, table)["event"] for table in TABLES} == {"changes"}
    read = {table: changes_in(lake, table) for table in TABLES}
    assert {len(rows) for rows in read.values()} == {2 * (2 * 10 + 2 + 1)}
    for table in TABLES:
        assert returned(in_order[-1], f"{table}_merge")["consistent"] is True
        assert rows_in(lake / "silver" / table) == source_rows(server, table)

    for hour in (1, 2):
        again = hourly.test(logical_date=TEN + hour * HOUR)
        assert set(states(again).values()) == {"success"}
        assert {returned(again, table)["event"] for table in TABLES} == {"repair"}
    assert {table: changes_in(lake, table) for table in TABLES} == read
    for table in TABLES:
        assert rows_in(lake / "silver" / table) == source_rows(server, table)


def test_until_a_table_is_loaded_the_hourly_example_skips_it(server: EmbeddedSqlServer, lake: Path) -> None:
    server.clock.freeze(TEN + 2 * HOUR)
    server.idle()
    hourly = sync(example("changes_hourly"))
    assert set(states(hourly.test(logical_date=TEN + HOUR)).values()) == {"skipped"}


def test_the_whole_database_example_loads_all_tables_and_follows_them(
    server: EmbeddedSqlServer, lake: Path
) -> None:
    server.clock.run()
    dags = examples("whole_database")
    loaded = run(dags["erp_load"])
    tables = sorted(f"dbo.{name}" for name in (*TABLES, "orders"))
    assert sorted(returned(loaded, "erp.report")["loaded"]) == tables
    for table in TABLES:
        server.execute(f"DELETE FROM dbo.{table} WHERE id < 10")
    server.clock.shift(timedelta(seconds=3))
    server.idle()
    followed = run(dags["erp_follow"])
    assert returned(followed, "erp.report")["rows"] == 10 * len(TABLES)
    for table in TABLES:
        assert rows_in(lake / "silver" / "dbo" / table) == source_rows(server, table)
