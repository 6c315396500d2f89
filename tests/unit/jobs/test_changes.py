"""Changes on the embedded server, by both drivers: one position, windows, order, and what is never sent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConnectionBroken, RetentionGap
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from tests.support.changes_world import CHANGE_ROWS, ChangesWorld

Worlds = Iterator[ChangesWorld]


@pytest.fixture(params=["mssql-python", "pymssql"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(datetime(2026, 5, 11, 9, 30, tzinfo=UTC))
        world = ChangesWorld(server, tmp_path, driver=request.param)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        yield world


def commits(world: ChangesWorld) -> int:
    return DeltaTable(world.table.bronze).version()


def change_reads(world: ChangesWorld) -> list[str]:
    return [each.sql for each in world.server.faults.log() if re.search(CHANGE_ROWS, each.sql, re.DOTALL)]


def test_without_a_snapshot_a_run_is_skipped_and_says_what_is_missing(world: ChangesWorld) -> None:
    outcome = world.run()
    assert isinstance(outcome, Skipped)
    assert "mssql_cdc_bootstrap" in outcome.reason
    assert 'start="now"' in outcome.reason
    assert not Path(world.table.bronze).exists()


def test_changes_continue_from_the_snapshot_and_rebuild_the_source(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.execute("UPDATE dbo.orders SET name = 'new', amount = 99999999999999.1111 WHERE id <= 2")
    world.execute("DELETE FROM dbo.orders WHERE id = 4")
    done = world.changes()
    assert (done.counts.inserts, done.counts.updates, done.counts.deletes, done.counts.rows) == (2, 2, 1, 7)
    assert world.rebuilt() == world.source()
    assert world.change_rows() == world.recorded_rows()
    assert {row["_snapshot"] for row in world.bronze("_operation > 0")} == {None}
    times = {row["_commit_ts"] for row in world.bronze("_operation > 0")}
    assert times == {datetime(2026, 5, 11, 9, 30)}


def test_a_second_run_reads_no_change_twice_and_commits_nothing(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    before, rows = commits(world), world.change_rows()
    world.server.faults.clear_log()
    again = world.changes()
    assert (again.counts.rows, again.windows, commits(world)) == (0, 0, before)
    assert world.change_rows() == rows
    assert change_reads(world) == [], "an empty range is never sent to the server"


def test_a_change_exactly_at_the_snapshots_lsn_is_not_read_again(world: ChangesWorld) -> None:
    world.insert(4)
    snapshot = world.bootstrap().snapshot.text
    world.insert(5)
    done = world.changes()
    assert done.counts.rows == 1
    assert {row["_start_lsn"] > snapshot for row in world.bronze("_operation > 0")} == {True}


def test_a_long_catch_up_is_cut_into_windows_that_end_on_whole_commits(world: ChangesWorld) -> None:
    world.bootstrap()
    for first in range(10, 50, 4):
        world.execute(
            "INSERT INTO dbo.orders (id, name) VALUES (?, 'a'), (?, 'b'), (?, 'c'), (?, 'd')",
            *range(first, first + 4),
        )
    done = world.changes(max_commits=3)
    assert (done.windows, done.counts.rows) == (4, 40)
    batches = {(row["_start_lsn"], row["_batch_id"]) for row in world.bronze("_operation > 0")}
    assert len(batches) == 10, "no commit is spread over two windows"
    assert [fact["rows"] for fact in sorted(world.facts("changes"), key=lambda fact: fact["batch_id"])] == [
        12,
        12,
        12,
        4,
    ]
    assert world.rebuilt() == world.source()


@pytest.mark.parametrize("max_commits", [1, 3])
def test_a_change_behind_more_quiet_commits_than_a_window_holds_is_read(
    world: ChangesWorld, max_commits: int
) -> None:
    world.bootstrap()
    world.tick(600)
    world.changes()
    for _ in range(7):
        world.tick(2)
    world.insert(4)
    done = world.changes(max_commits=max_commits)
    assert (done.counts.rows, world.change_rows()) == (1, world.recorded_rows())
    assert world.rebuilt() == world.source()
    for _ in range(4):
        world.tick(200)
    before = commits(world)
    assert world.changes(max_commits=max_commits).counts.rows == 0
    assert before < commits(world) <= before + 2, "one every few minutes, not one for each that is quiet"


def test_what_was_read_before_a_broken_connection_stays(world: ChangesWorld) -> None:
    world.bootstrap()
    for number in range(10, 16):
        world.insert(number)
    world.server.faults.drop(CHANGE_ROWS, occurrence=3)
    with pytest.raises(ConnectionBroken):
        world.changes(max_commits=2)
    assert sum(world.change_rows().values()) == 4
    world.changes(max_commits=2)
    assert world.change_rows() == world.recorded_rows()
    assert sum(world.change_rows().values()) == 6


def test_a_quiet_tables_position_moves_every_hour_and_without_rows(world: ChangesWorld) -> None:
    world.tick()
    world.tick(3 * 24 * 3600)
    world.bootstrap()
    world.insert(4)
    world.tick(5)
    world.changes()
    position, version, facts = world.position(), commits(world), len(world.facts("changes"))
    for _ in range(3):
        world.tick(1150)
        assert world.changes().windows == 0
    assert (world.position(), commits(world)) == (position, version)
    assert len(world.facts("changes")) == facts
    world.tick(200)
    assert world.changes().windows == 1
    assert world.position() > position
    assert commits(world) == version + 1
    assert world.change_rows() == world.recorded_rows()


def test_a_quiet_position_is_never_overtaken_by_cleanup(world: ChangesWorld) -> None:
    """Forty minutes of retention, a run every ten: the position moves before a quarter of it has passed."""
    world.bootstrap()
    ticks: list[str] = []
    for _ in range(30):
        at = world.tick(600)
        ticks.append(world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0])
        assert world.changes().counts.rows == 0, at
        if len(ticks) > 4:
            world.server.cleanup(up_to=ticks[-4])
    world.insert(4)
    assert world.changes().counts.inserts == 1
    assert world.rebuilt() == world.source()


def test_a_change_that_comes_while_a_quiet_run_asks_is_read_by_this_run_or_the_next(
    world: ChangesWorld,
) -> None:
    world.bootstrap()
    world.tick(5)
    world.changes()
    for number in (4, 5):
        world.tick(5)
        world.server.faults.run("AS found", lambda number=number: world.insert(number), at_end=number == 5)  # type: ignore[misc]
        world.changes()
    world.changes()
    assert world.change_rows() == world.recorded_rows()
    assert world.rebuilt() == world.source()


def test_a_quiet_position_passes_the_snapshots_horizon_at_once(world: ChangesWorld) -> None:
    world.insert(4)
    horizon = world.bootstrap().horizon
    assert horizon is not None
    world.tick(2)
    world.changes()
    assert world.position() > horizon.lsn.text


def test_started_from_now_it_has_no_older_row(world: ChangesWorld) -> None:
    world.insert(4)
    assert world.changes(start_now=True).counts.rows == 0
    world.insert(5)
    assert world.changes(start_now=True).counts.inserts == 1
    assert [row["id"] for row in world.bronze()] == [5]


def test_a_snapshot_after_a_start_from_now_meets_its_changes(world: ChangesWorld) -> None:
    world.changes(start_now=True)
    world.insert(4)
    world.changes()
    world.bootstrap()
    world.insert(5)
    world.changes()
    assert world.rebuilt() == world.source()


def test_capture_that_lags_is_read_as_far_as_it_is(world: ChangesWorld) -> None:
    world.bootstrap()
    world.server.capture_mode = "manual"
    world.insert(4, 5, 6)
    world.server.capture(commits=2)
    assert world.changes().counts.inserts == 2
    world.server.capture()
    assert world.changes().counts.inserts == 1
    assert world.rebuilt() == world.source()


def test_on_a_database_that_never_captured_nothing_is_sent_and_nothing_lost(world: ChangesWorld) -> None:
    world.server.capture_mode = "manual"
    world.bootstrap()
    world.server.faults.clear_log()
    assert world.changes().windows == 0
    assert change_reads(world) == []
    world.insert(4)
    world.server.capture()
    assert world.changes().counts.inserts == 1


@pytest.mark.parametrize("form", ["pair", "images"])
def test_key_updates_in_either_form_leave_one_row_under_the_new_key(world: ChangesWorld, form: str) -> None:
    world.server.key_updates = form  # type: ignore[assignment]
    world.bootstrap()
    world.execute("UPDATE dbo.orders SET id = 30 WHERE id = 3")
    world.execute("UPDATE dbo.orders SET id = id + 1 WHERE id <= 2")
    done = world.changes()
    assert world.rebuilt() == world.source()
    assert set(world.rebuilt()) == {(2,), (3,), (30,)}
    kinds = {row["_operation"] for row in world.bronze("_operation > 0 AND id = 30")}
    assert kinds == ({2} if form == "pair" else {4})
    assert done.counts.rows == sum(world.recorded_rows().values())


def test_of_several_changes_in_one_commit_the_last_one_counts(world: ChangesWorld) -> None:
    world.bootstrap()
    with world.server.session() as session:
        session.run("BEGIN TRANSACTION")
        for name in ("c", "a", "b"):
            session.rows("UPDATE dbo.orders SET name = ? WHERE id = 2", name)
        session.rows("DELETE FROM dbo.orders WHERE id = 1")
        session.rows("INSERT INTO dbo.orders (id, name) VALUES (1, 'again')")
        session.run("COMMIT TRANSACTION")
    world.changes()
    assert len({row["_start_lsn"] for row in world.bronze("_operation > 0")}) == 1
    assert world.rebuilt() == world.source()
    assert world.rebuilt()[(2,)]["name"] == "b"


def test_two_runs_at_once_add_every_change_once(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)
    inner: list[object] = []
    world.server.faults.run(CHANGE_ROWS, lambda: inner.append(world.run()), after_rows=1)
    outer = world.changes()
    (done,) = inner
    assert isinstance(done, ChangesDone)
    assert done.counts.rows + outer.counts.rows == 2
    assert world.change_rows() == world.recorded_rows()
    files = {path.name for path in Path(world.table.bronze).glob("changes-*.parquet")}
    assert len(files) == 1, "the loser's file is gone"


def test_a_facts_row_that_was_not_written_comes_with_the_next_run(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.execute("DELETE FROM dbo.orders WHERE id = 4")
    facts = Path(world.table.facts)
    aside = facts.rename(facts.with_name("aside"))
    facts.write_text("no folder: whoever writes here fails")
    with contextlib.suppress(OSError, Exception):
        world.changes()
    facts.unlink()
    aside.rename(facts)
    assert world.facts("changes") == []
    world.changes()
    (row,) = world.facts("changes")
    assert (row["rows"], row["inserts"], row["deletes"], row["end_lsn"]) == (3, 2, 1, world.position())


def test_a_window_is_not_committed_when_cleanup_overtook_the_read(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5, 6)
    low = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    world.server.faults.run(CHANGE_ROWS, lambda: world.server.cleanup(up_to=low), after_rows=0)
    position, version = world.position(), commits(world)
    with pytest.raises(RetentionGap):
        world.changes()
    assert (world.position(), commits(world), world.bronze("_operation > 0")) == (position, version, [])


def test_capture_that_has_stopped_is_said(world: ChangesWorld) -> None:
    world.insert(4)
    world.bootstrap()
    world.server.stop_capture()
    world.server.clock.shift(timedelta(hours=6))
    (note,) = world.changes().notes
    assert "360 minutes ago" in note
    assert "stopped" in note


NINE, TEN, ELEVEN, NOON = (datetime(2026, 5, 11, hour, tzinfo=UTC) for hour in (9, 10, 11, 12))


def test_a_run_waits_until_capture_has_passed_the_end_of_its_interval(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    outcome = world.interval(NINE, TEN)
    assert isinstance(outcome, Waiting)
    assert outcome.at == TEN
    world.server.clock.shift(timedelta(minutes=30))
    world.insert(5)
    done = world.interval(NINE, TEN)
    assert isinstance(done, ChangesDone)
    assert [row["id"] for row in world.bronze("_operation > 0")] == [4], (
        "5 was committed at ten, which is later"
    )


def test_intervals_in_any_order_and_again_give_the_same_bronze(world: ChangesWorld) -> None:
    world.bootstrap()
    hours = [NINE + timedelta(hours=number) for number in range(5)]
    for number in range(4):
        world.insert(10 + number)
        world.execute("UPDATE dbo.orders SET name = ? WHERE id = 1", f"{number}")
        world.tick(3600)
    for at in (3, 0, 2, 1, 3, 1):
        outcome = world.interval(hours[at], hours[at + 1], quiet_seconds=0)
        assert isinstance(outcome, ChangesDone)
        assert outcome.event == (
            "changes" if at == 3 and outcome.windows and not world.facts("repair") else "repair"
        )
    assert world.change_rows() == world.recorded_rows()
    assert world.rebuilt() == world.source()
    assert len(world.facts("repair")) == 5


def three_hours_are_read(world: ChangesWorld) -> None:
    """Six changes in each, that leave no row."""
    for _ in range(3):
        world.insert(*range(100, 103))
        world.execute("DELETE FROM dbo.orders WHERE id >= 100")
        world.tick(3600)
    world.changes()


def test_a_repair_replaces_exactly_its_rows(world: ChangesWorld) -> None:
    world.bootstrap()
    three_hours_are_read(world)
    DeltaTable(world.table.bronze).optimize.compact()
    rows, source = world.change_rows(), world.rebuilt()
    batches = {row["_start_lsn"]: row["_batch_id"] for row in world.bronze("_operation > 0")}
    position = world.position()
    done = world.interval(TEN, ELEVEN)
    assert isinstance(done, ChangesDone)
    assert (done.event, done.counts.rows) == ("repair", 6)
    assert (world.change_rows(), world.rebuilt(), world.position()) == (rows, source, position)
    after = {row["_start_lsn"]: row["_batch_id"] for row in world.bronze("_operation > 0")}
    repaired = {lsn for lsn in after if after[lsn] != batches[lsn]}
    assert {
        row["_commit_ts"].hour for row in world.bronze("_operation > 0") if row["_start_lsn"] in repaired
    } == {10}
    assert {after[lsn] for lsn in repaired} == {2}
    assert len(world.bronze("_operation = 0")) == 3


def test_a_repair_leaves_the_rows_of_snapshots_as_they_are(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    DeltaTable(world.table.bronze).optimize.compact()
    world.tick(3600)
    world.changes()
    done = world.interval(NINE, TEN)
    assert isinstance(done, ChangesDone)
    assert (done.event, done.windows) == ("repair", 1)
    assert len(world.bronze("_operation = 0")) == 3 + 4
    assert world.rebuilt() == world.source()


def test_a_repair_brings_back_rows_that_somebody_deleted_from_bronze(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.tick(3600)
    world.changes()
    DeltaTable(world.table.bronze).delete("_operation > 0")
    world.interval(NINE, TEN)
    assert world.change_rows() == world.recorded_rows()


def test_a_repair_meanwhile_overtaken_by_an_optimize_doubles_nothing(world: ChangesWorld) -> None:
    world.bootstrap()
    for number in (4, 5):
        world.insert(number)
        world.changes()
    world.tick(3600)

    def compact() -> None:
        DeltaTable(world.table.bronze).optimize.compact()

    world.server.faults.run(CHANGE_ROWS, compact, after_rows=0)
    world.interval(NINE, TEN)
    assert world.change_rows() == world.recorded_rows()


def test_an_empty_interval_that_was_read_is_skipped_and_says_how_to_get_intervals(
    world: ChangesWorld,
) -> None:
    world.bootstrap()
    world.insert(4)
    world.tick(3600)
    assert isinstance(world.interval(TEN, TEN), ChangesDone), "its end alone is enough to extend"
    outcome = world.interval(TEN, TEN)
    assert isinstance(outcome, Skipped)
    assert "CronDataIntervalTimetable" in outcome.reason


def test_a_purged_interval_fails_and_bronze_keeps_what_it_has(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.tick(3600)
    world.insert(6)
    world.tick(3600)
    world.changes()
    rows, version = world.change_rows(), commits(world)
    world.server.cleanup(up_to=world.position())
    with pytest.raises(RetentionGap, match="Bronze is unchanged"):
        world.interval(NINE, TEN)
    assert (world.change_rows(), commits(world)) == (rows, version)
    assert world.facts("gap") == []


def test_a_run_without_an_interval_reads_what_capture_has_reached(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    done = world.changes(to_interval_end=True, interval=None)
    assert done.counts.inserts == 1


def test_files_of_an_attempt_that_was_killed_go_with_the_next_try(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    folder = Path(world.table.bronze)
    (committed,) = folder.glob("changes-*.parquet")
    kinds = ("changes", "repair")
    dead = [folder / f"{kind}-000000000001-0x00-dead-0.parquet" for kind in kinds]
    alive = [folder / f"{kind}-000000000002-0x00-alive-0.parquet" for kind in kinds]
    for path in (*dead, *alive):
        path.write_bytes(b"")
    DeltaTable(world.table.bronze).optimize.compact()
    world.changes()
    assert all(path.exists() for path in dead), "a first try has nothing to tidy"
    world.changes(attempt=world.attempt("changes", try_number=2))
    assert [path.exists() for path in (*dead, *alive)] == [False, False, True, True]
    assert committed.exists(), "an older version still names it"


def after_the_rows(world: ChangesWorld, call: Callable[[], object]) -> None:
    """Between the staging of the next window and its commit."""
    faults = world.server.faults
    faults.run(CHANGE_ROWS, lambda: faults.run("fn_cdc_get_min_lsn", call), at_end=True)


@pytest.mark.parametrize("kind", ["repair", "changes"])
def test_what_a_runs_next_try_tidies_up_is_read_again_by_whoever_staged_it(
    world: ChangesWorld, kind: str
) -> None:
    """Backfills in parallel: the second try of one run removes what the other one has just staged."""
    world.bootstrap()
    three_hours_are_read(world)
    world.insert(50)
    world.tick(3600)
    again = world.attempt("changes", try_number=2)
    removed: list[int] = []

    def other() -> None:
        staged = set(Path(world.table.bronze).glob(f"{kind}-*.parquet"))
        world.interval(ELEVEN, NOON, attempt=again)
        removed.append(len(staged - set(Path(world.table.bronze).glob(f"{kind}-*.parquet"))))

    after_the_rows(world, other)
    done = world.interval(TEN, ELEVEN) if kind == "repair" else world.changes()
    assert removed == [1]
    assert isinstance(done, ChangesDone)
    assert (done.event, done.counts.rows) == (kind, 6 if kind == "repair" else 1)
    world.changes()
    assert world.change_rows() == world.recorded_rows()
    assert world.rebuilt() == world.source()


COLUMNS = {
    "flag": ("bit", "1"),
    "tiny": ("tinyint", "255"),
    "small": ("smallint", "-32768"),
    "number": ("int", "-2147483648"),
    "large": ("bigint", "9223372036854775807"),
    "exact": ("decimal(38, 10)", "9999999999999999999999999999.0123456789"),
    "price": ("money", "-922337203685477.5808"),
    "cents": ("smallmoney", "214748.3647"),
    "single": ("real", "1.5"),
    "double": ("float", "-1e-300"),
    "day": ("date", "'0001-01-01'"),
    "ticks": ("datetime", "'2024-02-29T23:59:59.997'"),
    "minute": ("smalldatetime", "'2024-02-29T23:59:00'"),
    "fine": ("datetime2(7)", "'9999-12-31T23:59:59.9999999'"),
    "zoned": ("datetimeoffset(7)", "'2024-05-11T02:00:00.2764890+05:45'"),
    "clock": ("time(7)", "'14:30:15.2345678'"),
    "name": ("nvarchar(40)", "N'Ünïcode 🌺'"),
    "code": ("char(5)", "'ab'"),
    "body": ("nvarchar(max)", "N'" + "x" * 5000 + "'"),
    "id_text": ("uniqueidentifier", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'"),
    "bytes": ("varbinary(8)", "0x00ff10"),
}


def test_a_cell_has_one_value_in_snapshot_and_changes(world: ChangesWorld, tmp_path: Path) -> None:
    declared = ", ".join(f"[{name}] {kind} NULL" for name, (kind, _) in COLUMNS.items())
    wide = ChangesWorld(world.server, tmp_path, name="wide", columns=f"{declared}, touched int NULL")
    values = ", ".join(text for _, text in COLUMNS.values())
    wide.execute(f"INSERT INTO dbo.wide VALUES (1, {values}, 0)")
    wide.execute("INSERT INTO dbo.wide (id) VALUES (2)")
    world.server.enable_cdc("dbo.wide")
    wide.table = replace(wide.table, mssql_conn_id=world.conn_id)
    wide.bootstrap()
    wide.execute("UPDATE dbo.wide SET touched = 1, body = CONCAT(body, N'')")
    wide.changes()
    loaded = {row["id"]: row for row in wide.bronze("_operation = 0")}
    changed = {row["id"]: row for row in wide.bronze("_operation = 4")}
    for name in COLUMNS:
        assert loaded[1][name] is not None
        assert changed[1][name] == loaded[1][name], name
        assert changed[2][name] is None or name == "body", name
