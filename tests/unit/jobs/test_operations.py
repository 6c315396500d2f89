"""What docs/operations.md tells on-call engineers, done as it says on real tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ForeignTable, RetentionGap
from tests.support.load import Load

ROOT = Path(__file__).parents[3]
OPERATIONS = (ROOT / "docs/operations.md").read_text()
QUERIES = re.findall(r"^```sql\n(.*?)^```", OPERATIONS, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(40))")
        running.executemany("INSERT INTO dbo.t VALUES (?, ?)", [(n, f"row {n}") for n in range(100)])
        running.enable_cdc("dbo.t")
        yield running


def asked(load: Load, query: str) -> list[dict[str, Any]]:
    facts = QueryBuilder().register("facts", DeltaTable(load.table.facts))
    return pa.table(facts.execute(query).read_all()).to_pylist()


def told_of(words: str) -> str:
    """The one query that holds these words."""
    (query,) = [query for query in QUERIES if words in query]
    return query


def test_the_queries_over_the_facts_answer_what_they_are_for(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    load = Load(server, tmp_path, instance="dbo_t")
    load.plan()
    ((planned),) = asked(load, told_of("done.target IS NULL"))
    assert planned["target"] == load.table.bronze
    completed = load.all()
    server.execute("UPDATE dbo.t SET name = N'new' WHERE id < 7")
    load.changes()
    loaded = asked(load, told_of("consistent_after"))
    assert [(row["event"], row["rows"]) for row in loaded] == [("bootstrap", 100)]
    (far,) = asked(load, told_of("newest = 1"))
    assert far["end_lsn"] > completed.snapshot.text
    assert far["capture_lag_seconds"] is not None
    (fast,) = [row for row in asked(load, told_of("rows_per_second")) if row["event"] == "changes"]
    assert fast["rows_per_second"] > 0
    assert asked(load, told_of("event = 'gap'")) == []


def test_a_gap_is_found_by_its_query(server: EmbeddedSqlServer, tmp_path: Path) -> None:
    load = Load(server, tmp_path, instance="dbo_t")
    load.all()
    for name in ("a", "b"):
        server.execute(f"UPDATE dbo.t SET name = N'{name}' WHERE id < 7")
    newest = server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    server.cleanup(up_to=newest)
    with pytest.raises(RetentionGap):
        load.changes()
    (gap,) = asked(load, told_of("event = 'gap'"))
    assert gap["max_lsn"] == newest
    assert gap["lost_to_ts"] is not None


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_runs(server: EmbeddedSqlServer, tmp_path: Path, query: str) -> None:
    load = Load(server, tmp_path, instance="dbo_t")
    load.all()
    asked(load, query)


def test_a_table_whose_connection_has_another_name_now_is_moved_as_the_document_says(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    load = Load(server, tmp_path, instance="dbo_t")
    first = load.all()
    moved = Load(server, tmp_path, instance="dbo_t", conn_id="erp_new")
    with pytest.raises(ForeignTable):
        moved.plan()
    (step,) = [block for block in blocks("python") if "set_table_properties" in block]
    exec(step.replace("/lake/bronze/orders", load.table.bronze), {})
    (planned,) = moved.plan()
    assert planned.done
    assert moved.complete([moved.read(planned)]).snapshot == first.snapshot
    server.execute("DELETE FROM dbo.t WHERE id = 1")
    assert moved.changes().counts.deletes == 1


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", OPERATIONS, flags=re.DOTALL | re.MULTILINE)
