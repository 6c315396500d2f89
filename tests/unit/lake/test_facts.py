from __future__ import annotations

import datetime as dt
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake.facts import (
    FACTS_SCHEMA,
    absent_facts,
    facts_together,
    has_facts,
    write_facts,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from tests.unit.lake.tables import lsn, rows_of

ZURICH = dt.timezone(dt.timedelta(hours=2))


def row(**more: object) -> FactsRow:
    return FactsRow(event="bootstrap", target="/lake/orders", **more)  # type: ignore[arg-type]


def test_the_columns_are_the_fields_of_a_row() -> None:
    assert FACTS_SCHEMA.names == [field.name for field in fields(FactsRow)]


def test_the_table_and_every_column_say_what_they_hold(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    write_facts(location, row(), identifier="x")
    table = DeltaTable(location.uri)
    assert "UTC" in (table.metadata().description or "")
    assert all(field.metadata.get("comment") for field in table.schema().fields)
    named = (table.metadata().configuration["delta.dataSkippingStatsColumns"] or "").split(",")
    assert {"event", "target", "snapshot"} <= set(named)
    assert not {"written_at", "read_seconds", "detail"} & set(named)


def test_what_is_given_is_written_and_the_rest_is_null(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    given = row(
        snapshot=lsn(5),
        rows=3,
        end_lsn=lsn(5),
        end_commit_ts=dt.datetime(2024, 5, 11, 4, 0, 0, 277000, tzinfo=ZURICH),
        consistent_after={"lsn": lsn(6).text, "commit_time": "2024-05-11T02:00:01"},
        read_seconds=1.5,
        detail={"ranges": 16, "größe": [1, 2]},
        map_index=-1,
        try_number=2,
    )
    before = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert write_facts(location, given, identifier="x")
    (read,) = rows_of(location)
    written_at = read.pop("written_at")
    assert before <= written_at <= dt.datetime.now(dt.UTC).replace(tzinfo=None)
    assert json.loads(read.pop("consistent_after")) == given.consistent_after
    assert json.loads(read.pop("detail")) == {"ranges": 16, "größe": [1, 2]}
    known = {name: value for name, value in read.items() if value is not None}
    assert known == {
        "event": "bootstrap",
        "target": "/lake/orders",
        "snapshot": lsn(5).text,
        "rows": 3,
        "end_lsn": lsn(5).text,
        "end_commit_ts": dt.datetime(2024, 5, 11, 2, 0, 0, 277000),
        "read_seconds": 1.5,
        "map_index": -1,
        "try_number": 2,
    }


@pytest.mark.parametrize(
    ("identifiers", "written"),
    [
        (["a", "a"], [True, False]),
        (["a", "b"], [True, True]),
        (["a", "b", "a", "b"], [True, True, False, False]),
    ],
)
def test_an_identifier_is_one_row(tmp_path: Path, identifiers: list[str], written: list[bool]) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    assert [write_facts(location, row(), identifier=name) for name in identifiers] == written
    assert len(rows_of(location)) == sum(written)


def test_an_identifier_names_target_event_snapshot_and_wave() -> None:
    assert facts_identifier("/lake/orders", "bootstrap", lsn(5)) == f"/lake/orders#bootstrap.{lsn(5).text}"
    assert facts_identifier("/lake/orders", "snapshot_wave", lsn(5), 7).endswith(f"{lsn(5).text}.7")


def test_no_table_holds_no_facts(tmp_path: Path) -> None:
    assert not has_facts(TableLocation(str(tmp_path / "facts")), "x")


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    write_deltalake(location.uri, pa.table({"event": [1]}))
    with pytest.raises(SchemaDrift, match="not a facts table"):
        write_facts(location, row(), identifier="x")


@pytest.mark.parametrize("values", [{"event": "bootstrapped"}, {"target": ""}])
def test_a_row_of_no_event_or_of_no_table_cannot_be_built(values: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        FactsRow(**({"event": "bootstrap", "target": "/lake/orders"} | values))  # type: ignore[arg-type]


def _write(folder: str, process: int) -> list[list[bool]]:
    """Four writers in one process, each of two rows, one of them twice."""
    location = TableLocation(folder)

    def write(writer: int) -> list[bool]:
        names = [f"{process}.{writer}.{number}" for number in (0, 1, 0)]
        return [write_facts(location, row(rows=process), identifier=name) for name in names]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(write, range(4)))


def test_thirty_two_writers_append_to_one_table_that_none_has_made(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    spawn = multiprocessing.get_context("spawn")  # deltalake panics in a forked process
    with ProcessPoolExecutor(8, mp_context=spawn) as pool:
        outcomes = list(pool.map(_write, [location.uri] * 8, range(8)))
    assert outcomes == [[[True, True, False]] * 4] * 8
    written = sorted(found["rows"] for found in rows_of(location, "rows"))
    assert written == [process for process in range(8) for _ in range(8)]
    assert DeltaTable(location.uri).version() == 64


def test_the_facts_of_one_task_are_one_commit_and_each_row_is_there_once(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    write_facts(location, row(rows=0), identifier="a")
    with facts_together():
        assert not write_facts(location, row(rows=1), identifier="a")
        assert write_facts(location, row(rows=2), identifier="b")
        assert not write_facts(location, row(rows=3), identifier="b")
        assert has_facts(location, "b")
        assert absent_facts(location, ["a", "b", "c"]) == ["c"]
        assert write_facts(location, row(rows=4), identifier="c")
        assert [one["rows"] for one in rows_of(location)] == [0]
    assert sorted(one["rows"] for one in rows_of(location)) == [0, 2, 4]
    assert DeltaTable(location.uri).version() == 2
    assert absent_facts(location, ["a", "b", "c", "d"]) == ["d"]


def test_a_row_that_another_task_wrote_meanwhile_is_not_doubled(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    with facts_together():
        write_facts(location, row(rows=1), identifier="a")
        write_facts(location, row(rows=2), identifier="b")
        with ThreadPoolExecutor(1) as other:  # a thread has a context of its own
            assert other.submit(write_facts, location, row(rows=9), identifier="a").result()
    assert sorted(one["rows"] for one in rows_of(location)) == [2, 9]


def test_what_a_failed_task_has_done_is_told_all_the_same(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))

    def task() -> None:
        with facts_together():
            write_facts(location, row(rows=1), identifier="a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        task()
    assert [one["rows"] for one in rows_of(location)] == [1]


def test_a_task_that_has_nothing_to_tell_makes_no_commit(tmp_path: Path) -> None:
    location = TableLocation(str(tmp_path / "facts"))
    with facts_together():
        assert not has_facts(location, "a")
    assert not DeltaTable.is_deltatable(location.uri)
