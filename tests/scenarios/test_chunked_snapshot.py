"""Chunked snapshots, job by job: what happens between any two effects, without Airflow.

The server commits, cleans up or lags at the moment that matters; the drivers and Delta are real.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    IncompletePlan,
    NotReadyYet,
    ReplicaBehind,
    RetentionGap,
    SchemaDrift,
    Superseded,
    UnsupportedKey,
)
from airflow_provider_mssql_cdc.jobs import plan_chunks
from airflow_provider_mssql_cdc.jobs.task import Skipped, Step
from airflow_provider_mssql_cdc.lake.facts import FACTS_SCHEMA
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, StopEarly, WaveOutcome
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows
from tests.support.rebuild import Row, rebuild

ROWS = 400
READS_ROWS = r"\[name\](?s:.*)FROM \[dbo\]\.\[orders\]"


class Killed(BaseException):
    """A process that ends here and now."""


def at(step: Step, then: Callable[[], object], *, times: int = 1) -> Callable[[Step], None]:
    """Do something the first ``times`` times that a job comes to a step."""
    left = times

    def on_step(reached: Step) -> None:
        nonlocal left
        if reached == step and left:
            left -= 1
            then()

    return on_step


def die() -> None:
    raise Killed


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        running.enable_cdc()
        yield running


@pytest.fixture
def server(shared: EmbeddedSqlServer) -> Iterator[EmbeddedSqlServer]:
    """``dbo.orders`` with ids 0 to 399, older than its change data capture."""
    shared.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    shared.executemany("INSERT INTO dbo.orders VALUES (?, ?)", [(n, f"order {n}") for n in range(ROWS)])
    shared.enable_cdc("dbo.orders")
    yield shared
    shared.faults.clear()
    shared.capture_mode = "auto"
    shared.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = 'dbo', @source_name = 'orders', "
        "@capture_instance = 'all'"
    )
    shared.execute("DROP TABLE dbo.orders")


@pytest.fixture
def load(server: EmbeddedSqlServer, tmp_path: Path) -> ChunkedLoad:
    return ChunkedLoad(server, tmp_path, instance="dbo_orders")


@pytest.fixture
def other(server: EmbeddedSqlServer, tmp_path: Path) -> ChunkedLoad:
    """Another Airflow run on the same table."""
    return ChunkedLoad(server, tmp_path, instance="dbo_orders", run_id="manual__2")


def changes(server: EmbeddedSqlServer) -> list[Row]:
    names = ("_start_lsn", "_command_id", "_seqval", "_operation", "id", "name")
    rows = server.execute(
        "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id], "
        "CONVERT(varchar(22), [__$seqval], 1), [__$operation], id, name FROM cdc.dbo_orders_CT"
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def assert_rebuilt_equals_source(load: ChunkedLoad, snapshot: str) -> None:
    end = load.server.idle()
    assert end is not None
    rows = delta_rows(load.table.bronze, "_operation = 0")
    built = rebuild(rows, changes(load.server), key=["id"], snapshot=snapshot, end=end)
    source = load.server.execute("SELECT id, name FROM dbo.orders")
    assert {row["id"]: row["name"] for row in built.values()} == dict(source)


def ids(load: ChunkedLoad) -> list[int]:
    return sorted(row["id"] for row in delta_rows(load.table.bronze, columns="id"))


def reads(server: EmbeddedSqlServer) -> int:
    return sum("AS [name]" in statement.sql for statement in server.faults.log())


def staged(load: ChunkedLoad) -> set[str]:
    """Files that no commit names."""
    named = {Path(uri).name for uri in DeltaTable(load.table.bronze).file_uris()}
    return {path.name for path in Path(load.table.bronze).glob("*.parquet")} - named


def purge(load: ChunkedLoad) -> None:
    """Retention passes the position: changes above it are gone."""
    load.server.execute("UPDATE dbo.orders SET name = 'changed' WHERE id = 1")
    load.server.execute("UPDATE dbo.orders SET name = 'again' WHERE id = 2")
    load.server.cleanup(up_to=max(row["_start_lsn"] for row in changes(load.server)))


# -- what a load is ---------------------------------------------------------------------------------


def test_a_table_is_loaded_wave_by_wave_and_marked_complete(load: ChunkedLoad) -> None:
    waves = load.planned()
    assert [wave.wave for wave in waves] == [0, 1, 2, 3]
    assert max(len(json.dumps(wave.to_xcom())) for wave in waves) < 2000
    outcomes = [load.chunk(wave) for wave in reversed(waves)]
    rows = delta_rows(load.table.bronze)
    assert sorted(row["id"] for row in rows) == list(range(ROWS))
    assert {row["_snapshot"] for row in rows} == {waves[0].snapshot.text}
    assert {(row["_chunk"], row["id"] // 100) for row in rows} == {(n, n) for n in range(4)}
    assert {(row["_operation"], row["_seqval"], row["_batch_id"]) for row in rows} == {(0, None, None)}
    assert load.status().state == "loaded"
    done = load.finish(outcomes)
    assert not isinstance(done, Skipped)
    assert (done.snapshot, done.rows) == (waves[0].snapshot, ROWS)
    assert done.horizon is not None
    facts = {row["event"]: row for row in delta_rows(load.table.facts)}
    assert facts.keys() == {"snapshot_open", "snapshot_plan", "snapshot_wave", "bootstrap"}
    bootstrap = facts["bootstrap"]
    assert {bootstrap[name] for name in ("min_lsn", "max_lsn", "end_lsn")} == {done.snapshot.text}
    assert bootstrap["rows"] == ROWS
    assert load.status().state == "complete"
    assert_rebuilt_equals_source(load, done.snapshot.text)


def test_the_last_chunk_ends_at_the_key_that_was_the_last_after_s(load: ChunkedLoad) -> None:
    """Rows that are inserted above it come as changes; they do not pile up in the last wave."""
    waves = load.planned()
    load.server.executemany(
        "INSERT INTO dbo.orders VALUES (?, 'late')", [(n,) for n in range(ROWS, 2 * ROWS)]
    )
    outcomes = [load.chunk(wave) for wave in waves]
    assert ids(load) == list(range(ROWS))
    done = load.finish(outcomes)
    assert not isinstance(done, Skipped)
    assert_rebuilt_equals_source(load, done.snapshot.text)


def test_the_end_of_the_key_is_measured_after_s(load: ChunkedLoad) -> None:
    load.server.faults.run(
        r"ORDER BY \[id\] DESC",
        lambda: load.server.execute("INSERT INTO dbo.orders VALUES (100000, 'above the end')"),
        at_end=True,
    )
    snapshot = load.planned()[0].snapshot
    late = [row["_start_lsn"] for row in changes(load.server) if row["id"] == 100000]
    assert [snapshot.text < lsn for lsn in late] == [True]
    assert load.plan_of(snapshot).start.highest == (str(ROWS - 1),)


def test_every_wave_is_stamped_by_its_own_session_at_or_above_s(load: ChunkedLoad) -> None:
    for wave in load.planned():
        load.server.execute(f"UPDATE dbo.orders SET name = 'before wave {wave.wave}' WHERE id = 1")
        load.chunk(wave)
    stamps = [row["_start_lsn"] for row in delta_rows(load.table.bronze, "id % 100 = 0")]
    assert len(set(stamps)) == 4
    snapshot = delta_rows(load.table.bronze)[0]["_snapshot"]
    assert all(stamp > snapshot for stamp in stamps)


def test_a_wave_without_rows_leaves_its_trace(load: ChunkedLoad) -> None:
    waves = load.planned()
    load.server.execute("DELETE FROM dbo.orders WHERE id BETWEEN 100 AND 199")
    outcomes = [load.chunk(wave) for wave in waves]
    assert [outcome.rows for outcome in outcomes if isinstance(outcome, WaveOutcome)] == [100, 0, 100, 100]
    done = load.finish(outcomes)
    assert not isinstance(done, Skipped)
    assert_rebuilt_equals_source(load, done.snapshot.text)


def test_a_key_that_identifies_no_row_is_refused_before_anything_is_opened(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    server.execute("ALTER TABLE dbo.orders ADD half int NOT NULL DEFAULT 0")
    server.execute("UPDATE dbo.orders SET half = id / 2")
    server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2")
    load = ChunkedLoad(server, tmp_path, instance="dbo_orders_v2")
    wrong = ChunkedLoad(server, tmp_path, instance="dbo_orders_v2", key=("half",))
    with pytest.raises(UnsupportedKey, match="has 200 values for 400 rows"):
        wrong.planned()
    assert load.status().snapshot is None
    assert load.load().rows == ROWS, "at once: no later LSN is needed"


def test_an_empty_table_is_one_wave_without_rows(load: ChunkedLoad) -> None:
    load.server.execute("DELETE FROM dbo.orders")
    assert load.load().rows == 0
    assert len(delta_rows(load.table.facts, "event = 'bootstrap'")) == 1


# -- resuming and repeating -------------------------------------------------------------------------


def test_the_next_run_reads_the_missing_waves_alone(load: ChunkedLoad, other: ChunkedLoad) -> None:
    waves = load.planned()
    load.chunk(waves[2])
    with pytest.raises(IncompletePlan, match=r"3 of 4 wave\(s\) are not in bronze: 1, 2, 4"):
        load.finish([])
    before = reads(load.server)
    left = other.planned()
    assert ([wave.wave for wave in left], left[0].snapshot) == ([0, 1, 3], waves[0].snapshot)
    done = other.finish([other.chunk(wave) for wave in left])
    assert not isinstance(done, Skipped)
    assert (done.rows, reads(load.server) - before) == (ROWS, 3)


def test_a_stored_plan_stays_whatever_a_later_run_asks_for(
    load: ChunkedLoad, other: ChunkedLoad, caplog: pytest.LogCaptureFixture
) -> None:
    load.chunk(load.planned()[0])
    with caplog.at_level(logging.WARNING):
        left = other.planned(chunk_rows=17, chunks_per_wave=3, max_waves=2)
    assert [(wave.wave, wave.waves, wave.more) for wave in left] == [(1, 4, True), (2, 4, True)]
    assert "chunk_rows=17 is not used" in caplog.text
    stopped = other.finish([other.chunk(wave) for wave in left])
    assert isinstance(stopped, Skipped)
    assert "3 of 4 wave(s)" in stopped.reason
    assert other.load(chunk_rows=5).rows == ROWS


def test_all_that_is_cleared_after_completion_reads_nothing(load: ChunkedLoad) -> None:
    waves = load.planned()
    outcomes = [load.chunk(wave) for wave in waves]
    first = load.finish(outcomes)
    assert not isinstance(first, Skipped)
    version, before = load.bronze_version(), reads(load.server)
    load.server.execute("DELETE FROM dbo.orders WHERE id < 200")
    again = [load.chunk(wave) for wave in waves]
    assert [one.rows for one in again if isinstance(one, WaveOutcome)] == [100] * 4
    (noop,) = load.planned()
    assert noop.done
    for outcomes in (again, [load.chunk(noop)], []):
        second = load.finish(outcomes)
        assert not isinstance(second, Skipped)
        assert (second.snapshot, second.rows) == (first.snapshot, first.rows)
    assert (load.bronze_version(), reads(load.server)) == (version, before)
    assert len(delta_rows(load.table.facts, "event = 'bootstrap'")) == 1


@pytest.mark.parametrize("step", ["stamped", "read", "staged"])
def test_a_zombie_that_commits_after_its_successor_adds_nothing(load: ChunkedLoad, step: Step) -> None:
    wave, *rest = load.planned()
    outcome = load.chunk(wave, on_step=at(step, lambda: load.chunk(wave)))
    assert isinstance(outcome, WaveOutcome)
    assert (outcome.added, outcome.rows) == (False, 100)
    assert ids(load) == list(range(100))
    assert staged(load) == set()
    assert len(delta_rows(load.table.facts, "event = 'snapshot_wave'")) == 1
    done = load.finish([outcome, *(load.chunk(one) for one in rest)])
    assert not isinstance(done, Skipped)
    assert done.rows == ROWS


@pytest.mark.parametrize("step", ["opened", "plan begun", "bounds stored", "planned"])
def test_a_plan_that_was_killed_goes_on_where_it_was(
    load: ChunkedLoad, other: ChunkedLoad, step: Step
) -> None:
    with pytest.raises(Killed):
        load.waves(on_step=at(step, die))
    opened = load.status().snapshot
    waves = other.planned()
    assert {wave.snapshot for wave in waves} == {opened}
    done = other.finish([other.chunk(wave) for wave in waves])
    assert not isinstance(done, Skipped)
    assert (done.snapshot, done.rows) == (opened, ROWS)
    assert len(delta_rows(load.table.facts, "event = 'snapshot_open'")) == 1


def test_a_planner_killed_after_some_bounds_does_not_look_for_them_again(
    shared: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keyset seeks: each key is read once, over both attempts, but for the few whose bound was not stored."""
    shared.execute("CREATE TABLE dbo.pairs (a nvarchar(9) NOT NULL, b int NOT NULL, PRIMARY KEY (a, b))")
    shared.executemany("INSERT INTO dbo.pairs VALUES (?, ?)", [(f"k{n // 7}", n) for n in range(ROWS)])
    shared.enable_cdc("dbo.pairs")
    monkeypatch.setattr(plan_chunks, "STORE_BOUNDS", 5)
    load = ChunkedLoad(shared, tmp_path, instance="dbo_pairs")
    with shared.count_reads() as counted:
        with pytest.raises(Killed):
            load.waves(chunk_rows=20, on_step=at("bounds stored", die, times=2))
        assert load.status().chunks == 6
        waves = load.planned(chunk_rows=20)
    seeks = [one for one in counted.statements if "ROW_NUMBER" in one.sql]
    read = sum(one.tables.get("dbo.pairs", 0) for one in seeks)
    assert len(waves) == ROWS // 20
    assert ROWS - 20 <= read <= ROWS + 2 * len(seeks)
    outcomes = [load.chunk(wave) for wave in waves]
    assert {one.rows for one in outcomes if isinstance(one, WaveOutcome)} == {20}


def test_two_runs_that_plan_and_read_at_the_same_time_load_once(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    theirs: list[PlannedWave] = []
    mine = load.planned(on_step=at("opened", lambda: theirs.extend(other.planned(chunk_rows=70))))
    assert [wave.to_xcom() for wave in mine] == [wave.to_xcom() for wave in theirs]
    outcomes = []
    for wave in mine:
        twin = theirs[wave.wave]
        outcomes.append(load.chunk(wave, on_step=at("staged", lambda twin=twin: other.chunk(twin))))
    assert ids(load) == list(range(ROWS))
    first = load.finish(outcomes)
    assert first == other.finish(outcomes) or not isinstance(first, Skipped)
    assert len(delta_rows(load.table.facts, "event = 'snapshot_wave'")) == len(mine)
    assert staged(load) == set()


def test_two_planners_that_store_bounds_at_once_go_on_from_each_others(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    mine = load.planned(on_step=at("plan begun", other.planned))
    assert [wave.wave for wave in mine] == [0, 1, 2, 3]
    assert load.load().rows == ROWS


@pytest.mark.parametrize("step", ["committed", "reported"])
def test_facts_that_their_writer_did_not_live_to_write_are_rebuilt(load: ChunkedLoad, step: Step) -> None:
    waves = load.planned()
    for wave in waves:
        with pytest.raises(Killed):
            load.chunk(wave, on_step=at(step, die))
    assert [wave.wave for wave in load.planned()] == [3]
    rows = delta_rows(load.table.facts, "event = 'snapshot_wave'")
    assert [row["rows"] for row in rows] == [100] * 4
    assert {json.loads(row["detail"])["wave"] for row in rows} == {0, 1, 2, 3}
    assert all(row["min_lsn"] == row["max_lsn"] != "" and row["consistent_after"] for row in rows)
    with pytest.raises(Killed):
        load.finish([], on_step=at("committed", die))
    done = load.finish([])
    assert not isinstance(done, Skipped)
    (bootstrap,) = delta_rows(load.table.facts, "event = 'bootstrap'")
    assert (bootstrap["rows"], bootstrap["min_lsn"]) == (ROWS, done.snapshot.text)


# -- what may not be read or committed --------------------------------------------------------------


def test_a_server_that_is_behind_s_is_not_read(load: ChunkedLoad) -> None:
    behind = load.server.replica()
    behind.hold()
    load.server.execute("UPDATE dbo.orders SET name = 'newer' WHERE id = 7")
    (wave, *_) = load.planned()
    with pytest.raises(ReplicaBehind, match="behind the snapshot's LSN"):
        load.chunk(wave, listener=behind)
    assert ids(load) == []
    behind.catch_up()
    outcome = load.chunk(wave, listener=behind)
    assert isinstance(outcome, WaveOutcome)
    assert outcome.rows == 100


def test_a_wave_is_not_read_when_changes_above_the_position_are_purged(load: ChunkedLoad) -> None:
    first, second, *_ = load.planned()
    load.chunk(first)
    version = load.bronze_version()
    purge(load)
    before = reads(load.server)
    with pytest.raises(RetentionGap, match="resnapshot=True"):
        load.chunk(second)
    assert (load.bronze_version(), reads(load.server), ids(load)) == (version, before, list(range(100)))
    with pytest.raises(RetentionGap, match="resnapshot=True"):
        load.planned()


def test_a_wave_is_not_committed_when_they_are_purged_while_it_is_read(load: ChunkedLoad) -> None:
    (wave, *_) = load.planned()
    version = load.bronze_version()
    load.server.faults.run(READS_ROWS, lambda: purge(load), after_rows=50)
    with pytest.raises(RetentionGap, match="Nothing was committed"):
        load.chunk(wave)
    assert (load.bronze_version(), staged(load)) == (version, set())


def test_a_snapshot_from_which_no_change_can_lead_is_not_complete(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    outcomes = [load.chunk(wave) for wave in load.planned()]
    purge(load)
    with pytest.raises(RetentionGap, match="resnapshot=True"):
        load.finish(outcomes)
    assert delta_rows(load.table.facts, "event = 'bootstrap'") == []
    again = other.planned(resnapshot=True)
    done = other.finish([other.chunk(wave) for wave in again])
    assert not isinstance(done, Skipped)
    assert_rebuilt_equals_source(other, done.snapshot.text)


def test_after_a_gap_a_resnapshot_begins_coverage_anew_and_supersedes(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    old = load.planned()
    outcomes = [load.chunk(wave) for wave in old[:3]]
    purge(load)
    load.server.execute("UPDATE dbo.orders SET name = 'later' WHERE id = 3")
    new = other.planned(resnapshot=True)
    assert new[0].snapshot > old[0].snapshot
    for late in (lambda: load.chunk(old[3]), lambda: load.finish(outcomes)):
        with pytest.raises(Superseded, match=f"it was replaced by snapshot {new[0].snapshot}"):
            late()
    done = other.finish([other.chunk(wave) for wave in new])
    assert not isinstance(done, Skipped)
    assert_rebuilt_equals_source(other, done.snapshot.text)


def test_waves_of_an_older_snapshot_are_harmless_while_coverage_stays(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    old = load.planned()
    load.server.execute("UPDATE dbo.orders SET name = 'moved on' WHERE id = 3")
    new = other.planned(resnapshot=True)
    late = [load.chunk(wave) for wave in old]
    done = other.finish([other.chunk(wave) for wave in new])
    assert not isinstance(done, Skipped)
    answer = load.finish(late)
    assert not isinstance(answer, Skipped)
    assert answer.snapshot == done.snapshot == new[0].snapshot
    assert_rebuilt_equals_source(load, done.snapshot.text)


def test_a_resnapshot_is_opened_once_per_run_and_above_every_snapshot(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    first = load.load()
    with pytest.raises(NotReadyYet, match="needs a later LSN"):
        other.planned(resnapshot=True)
    load.server.execute("UPDATE dbo.orders SET name = 'on' WHERE id = 1")
    opened = other.planned(resnapshot=True)
    load.server.execute("UPDATE dbo.orders SET name = 'and on' WHERE id = 1")
    assert other.planned(resnapshot=True)[0].snapshot == opened[0].snapshot > first.snapshot
    assert load.planned()[0].snapshot == opened[0].snapshot, "a run without resnapshot goes on with it"
    done = other.finish([other.chunk(wave) for wave in opened])
    assert not isinstance(done, Skipped)
    assert len(delta_rows(load.table.facts, "event = 'resnapshot'")) == 1
    assert other.planned(resnapshot=True)[0].done


def test_a_plan_on_other_columns_is_not_mixed_with_the_stored_one(
    load: ChunkedLoad, server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    (wave, *_) = load.planned()
    renamed = ChunkedLoad(server, tmp_path, instance="dbo_orders", split_by=("name",))
    with pytest.raises(SchemaDrift, match="cut on other columns"):
        renamed.chunk(wave)
    with pytest.raises(Exception, match="cut on other columns"):
        renamed.planned()


# -- ending early, and on-call engineers -----------------------------------------------------------


def test_waves_not_begun_by_then_are_left_to_the_next_run(load: ChunkedLoad, other: ChunkedLoad) -> None:
    waves = load.planned(max_seconds=3600)
    load.chunk(waves[0])
    over = StopEarly(after=datetime.now(UTC) - timedelta(seconds=1))
    assert all(isinstance(load.chunk(replace(wave, stop=over)), Skipped) for wave in waves[1:])
    assert [wave.wave for wave in other.planned()] == [1, 2, 3]


def test_planning_stops_at_the_runs_end_and_goes_on_in_the_next(
    load: ChunkedLoad, other: ChunkedLoad
) -> None:
    load.server.execute("UPDATE dbo.orders SET id = 1000000 WHERE id = 399")  # not dense any more
    stopped = load.waves(max_seconds=0)
    assert isinstance(stopped, Skipped)
    assert "the next run continues" in stopped.reason
    assert load.status().state == "planning"
    assert other.load().rows == ROWS


def test_no_wave_is_begun_with_less_headroom_than_asked_for(load: ChunkedLoad, other: ChunkedLoad) -> None:
    """Headroom counts once cleanup has purged something: a new instance has all of retention before it."""
    server = load.server
    for hours in (1, 30):
        server.clock.shift(timedelta(hours=hours))
        server.execute(f"UPDATE dbo.orders SET name = 'after {hours}' WHERE id = 3")
    waves = load.planned(min_headroom_hours=10_000)
    assert load.status(ask_server=True).headroom_hours is None
    server.cleanup(up_to=min(row["_start_lsn"] for row in changes(server)))
    headroom = load.status(ask_server=True).headroom_hours
    assert headroom is not None
    assert 29 < headroom < 31
    for stopped in (load.chunk(waves[0]), other.waves(min_headroom_hours=48)):
        assert isinstance(stopped, Skipped)
        assert "48 hours of headroom" in stopped.reason or "10000 hours of headroom" in stopped.reason
    assert len(other.planned(min_headroom_hours=12)) == 4


def test_an_abandoned_load_is_not_gone_on_with(load: ChunkedLoad, other: ChunkedLoad) -> None:
    old = load.planned()
    load.chunk(old[0])
    with pytest.raises(Killed):
        load.chunk(old[1], on_step=at("staged", die))
    left = len(staged(load))
    given_up = load.abandon(rows=True)
    assert (given_up.snapshot, given_up.rows, given_up.files) == (old[0].snapshot, 100, left)
    assert ids(load) == []
    assert [name for name in staged(load) if "-w00001-" in name] == []
    with pytest.raises(Superseded, match="abandoned by MssqlCdcAbandonOperator"):
        load.chunk(old[1])
    with pytest.raises(Superseded, match="abandoned by MssqlCdcAbandonOperator"):
        load.finish([])
    assert load.abandon().snapshot is None
    assert load.abandon(snapshot=old[0].snapshot, rows=True).rows == 0, "again, for what may be left"
    load.server.execute("UPDATE dbo.orders SET name = 'on' WHERE id = 1")
    new = other.planned()
    assert new[0].snapshot > old[0].snapshot
    load.abandon(snapshot=old[0].snapshot)
    assert load.status().snapshot == new[0].snapshot, "another load is left alone"
    done = other.finish([other.chunk(wave) for wave in new])
    assert not isinstance(done, Skipped)
    assert_rebuilt_equals_source(other, done.snapshot.text)


def test_status_tells_how_far_it_is(load: ChunkedLoad) -> None:
    assert load.status().state == "none"
    waves = load.planned()
    for wave in waves[:3]:
        load.chunk(wave)
    progress = load.status(ask_server=True)
    assert (progress.state, progress.waves_done, progress.waves) == ("loading", 3, 4)
    assert (progress.chunks_done, progress.chunks, progress.rows) == (3, 4, 300)
    assert progress.rows_per_second
    assert progress.expected_end
    assert progress.snapshot == progress.position == waves[0].snapshot
    assert json.loads(json.dumps(progress.to_json()))["state"] == "loading"


def test_the_documented_query_on_the_facts_tells_it_too(load: ChunkedLoad) -> None:
    """The query of docs/sizing.md, by DuckDB."""
    for wave in load.planned()[:3]:
        load.chunk(wave)
    text = (Path(__file__).parents[2] / "docs/sizing.md").read_text()
    query = re.findall(r"```sql\n(.*?)```", text, flags=re.DOTALL)[0]
    database = duckdb.connect()
    database.register("facts", pa.Table.from_pylist(delta_rows(load.table.facts), schema=FACTS_SCHEMA))
    (row,) = database.execute(query).fetchdf().to_dict("records")
    assert (row["waves_done"], row["waves"], row["chunks_done"], row["chunks"]) == (3, 4, 3, 4)
    assert row["rows_done"] == 300
    assert row["rows_per_second"] > 0


def test_snapshot_isolation_is_honoured_by_planning_and_reading(
    server: EmbeddedSqlServer, tmp_path: Path
) -> None:
    server.execute("ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON")
    load = ChunkedLoad(server, tmp_path, instance="dbo_orders", isolation="snapshot", split_by=("name",))
    server.faults.clear_log()
    assert load.load().rows == ROWS
    isolation = ""
    for statement in server.faults.log():
        if "ISOLATION LEVEL" in statement.sql:
            isolation = statement.sql
        if "FROM [dbo].[orders]" in statement.sql:
            assert "SNAPSHOT" in isolation, statement.sql
