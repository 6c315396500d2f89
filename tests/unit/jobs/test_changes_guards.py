"""What stops changes, and the way back: gaps, other servers, dropped instances, schema changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    MssqlCdcError,
    PermissionDenied,
    ReplicaBehind,
    RetentionGap,
    SchemaDrift,
    SourceObjectMissing,
    StateDamaged,
)
from airflow_provider_mssql_cdc.jobs.change_source import ChangesDone
from airflow_provider_mssql_cdc.model.lsn import Lsn
from tests.support.changes_world import CHANGE_ROWS, ChangesWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(datetime(2026, 5, 11, 9, 30, tzinfo=UTC))
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        yield world


def purge(world: ChangesWorld) -> None:
    """Leave only the newest commit in the change table."""
    newest = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    world.server.cleanup(up_to=newest)


def gap(world: ChangesWorld) -> str:
    world.insert(4)
    world.changes()
    position = world.position()
    world.tick(3600)
    world.insert(5, 6)
    world.execute("DELETE FROM dbo.orders WHERE id = 1")
    world.tick(3600)
    world.insert(7)
    purge(world)
    return position


def test_a_gap_is_recorded_refused_and_moves_nothing(world: ChangesWorld) -> None:
    world.bootstrap()
    position = gap(world)
    before = world.bronze()
    for _ in range(2):
        with pytest.raises(RetentionGap, match=r"mssql_cdc_bootstrap\(resnapshot=True\)") as caught:
            world.changes()
        assert position in str(caught.value)
        assert caught.value.retryable is False
    assert (world.position(), world.bronze()) == (position, before)
    (fact,) = world.facts("gap")
    assert (fact["end_lsn"], fact["lost_from_ts"].hour, fact["lost_to_ts"].hour) == (position, 9, 11)


def test_a_position_at_the_low_watermark_minus_one_is_no_gap(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    world.insert(5)
    world.server.cleanup(up_to=Lsn.parse(world.position()).incremented().text)
    assert world.changes().counts.inserts == 1
    assert world.rebuilt() == world.source()


def test_the_way_back_from_a_gap_is_a_new_snapshot(world: ChangesWorld) -> None:
    world.bootstrap()
    gap(world)
    with pytest.raises(RetentionGap):
        world.changes()
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    coverage = world.state.coverage
    assert coverage is not None
    assert coverage.base == coverage.changes == world.state.snapshot
    world.insert(8)
    world.execute("UPDATE dbo.orders SET name = 'after' WHERE id = 2")
    world.tick(60)
    world.changes()
    assert world.rebuilt() == world.source()
    assert world.change_rows()  # what was read before the gap is still there, and does not disturb


def test_without_a_gap_a_resnapshot_leaves_the_position_alone(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    coverage = world.state.coverage
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    assert world.state.coverage == coverage
    world.insert(5)
    world.tick(60)
    world.changes()
    assert world.rebuilt() == world.source()


def test_an_instance_that_was_dropped_and_made_again_is_a_gap(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    disable(world)
    world.insert(5)  # recorded nowhere
    world.server.enable_cdc("dbo.orders")
    world.insert(6)
    with pytest.raises(RetentionGap):
        world.changes()
    assert len(world.facts("gap")) == 1
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    world.insert(7)
    world.tick(60)
    world.changes()
    assert world.rebuilt() == world.source()


def disable(world: ChangesWorld, instance: str = "dbo_orders") -> None:
    world.execute("EXEC sys.sp_cdc_disable_table 'dbo', 'orders', ?", instance)


def test_an_instance_made_again_while_it_is_read_commits_nothing(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4, 5)

    def make_again() -> None:
        disable(world)
        world.insert(6)
        world.server.enable_cdc("dbo.orders")
        world.insert(7)

    world.server.faults.run(CHANGE_ROWS, make_again, at_end=True)
    position = world.position()
    with pytest.raises(MssqlCdcError) as caught:
        world.changes()
    assert caught.value.retryable, "the next attempt proves the gap"
    assert (world.position(), world.bronze("_operation > 0")) == (position, [])


def test_a_restored_database_that_is_behind_the_position_is_refused(
    world: ChangesWorld, tmp_path: Path
) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    with EmbeddedSqlServer(database="shop") as restored:
        other = ChangesWorld(restored, tmp_path / "other")
        restored.enable_cdc("dbo.orders")
        other.table = world.table
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AIRFLOW_CONN_ERP", other.connection)
            with pytest.raises(StateDamaged, match="restored"):
                other.changes()
    assert world.rebuilt() == world.source()


def test_a_restored_database_that_has_overtaken_the_position_is_refused(
    world: ChangesWorld, tmp_path: Path
) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.changes()
    with EmbeddedSqlServer(database="shop") as restored:
        restored.clock.freeze(datetime(2026, 5, 11, 10, 7, 3, tzinfo=UTC))
        other = ChangesWorld(restored, tmp_path / "other")
        other.insert(1, 2, 3)
        restored.enable_cdc("dbo.orders")
        other.insert(4, 50, 60, 70)  # the same LSNs, other commits
        other.table = world.table
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AIRFLOW_CONN_ERP", other.connection)
            with pytest.raises(StateDamaged, match="assigned the LSN to another commit"):
                other.changes()


def test_a_replica_that_is_behind_is_tried_again(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    world.insert(4)
    replica = world.server.replica()
    replica.hold()
    world.insert(5)
    world.changes()
    monkeypatch.setenv("AIRFLOW_CONN_ERP", replica.airflow_connection())
    with pytest.raises(ReplicaBehind):
        world.changes()
    replica.catch_up()
    world.insert(6)
    assert world.changes().counts.inserts == 1
    assert world.rebuilt() == world.source()


def test_rows_that_nobody_may_read_are_a_missing_right_and_not_an_empty_window(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    world.insert(4)
    world.server.add_login("half", grants=["SELECT ON dbo.orders (id)"])
    monkeypatch.setenv("AIRFLOW_CONN_ERP", world.server.airflow_connection(login="half"))
    position = world.position()
    with pytest.raises(PermissionDenied, match="GRANT"):
        world.changes()
    assert world.position() == position


@pytest.mark.parametrize("captured", [False, True])
def test_an_instance_made_again_while_a_quiet_run_asks_ends_nothing_quietly(
    world: ChangesWorld, captured: bool
) -> None:
    """The new change table has none of the changes; that the old one is gone has to be noticed."""
    world.bootstrap()
    world.tick(5)
    world.changes()
    world.insert(4)
    position = world.position()

    def make_again() -> None:
        disable(world)
        world.server.enable_cdc("dbo.orders")
        if captured:
            world.tick()

    world.server.faults.run("AS found", make_again)
    with pytest.raises((RetentionGap, SourceObjectMissing)):
        world.changes()
    assert world.position() == position
    with pytest.raises(RetentionGap):
        world.changes()


def test_changes_purged_before_a_quiet_run_asks_are_a_gap(world: ChangesWorld) -> None:
    """The change table holds nothing above the position then, and is not quiet nevertheless."""
    world.bootstrap()
    world.tick(5)
    world.changes()
    world.insert(4)
    world.tick(5)
    newest = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    world.server.faults.run("AS found", lambda: world.server.cleanup(up_to=newest))
    with pytest.raises(RetentionGap):
        world.changes()


def test_error_313_is_a_range_that_was_purged(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    text = (
        "An insufficient number of arguments were supplied for the procedure or function "
        "cdc.fn_cdc_get_all_changes_ ... ."
    )
    world.server.faults.fail(CHANGE_ROWS, 313, text=text)
    with pytest.raises(RetentionGap, match="purged"):
        world.changes()


# -- two capture instances and schema changes


def second_instance(world: ChangesWorld, **arguments: object) -> None:
    world.server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2", **arguments)


def use(world: ChangesWorld, instance: str) -> None:
    world.table = replace(world.table, capture_instance=instance)


def test_the_second_instance_continues_the_same_stream_where_it_begins(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    second_instance(world)
    world.insert(5)
    use(world, "dbo_orders_v2")
    done = world.changes()
    assert done.counts.inserts == 2
    read_by = {row["id"]: row["_capture_instance"] for row in world.bronze("_operation > 0")}
    assert read_by == {4: "dbo_orders", 5: "dbo_orders_v2"}
    assert world.rebuilt() == world.source()
    (fact,) = world.facts("capture_instance_switched")
    assert fact["capture_instance"] == "dbo_orders_v2"
    world.insert(6)
    disable(world)
    assert world.changes().counts.inserts == 1
    assert len(world.facts("capture_instance_switched")) == 1


def test_below_the_newer_instances_start_nothing_is_taken_for_read_before_capture_was_there(
    world: ChangesWorld,
) -> None:
    world.bootstrap()
    world.server.capture_mode = "manual"
    world.insert(4, 5)
    second_instance(world)
    use(world, "dbo_orders_v2")
    assert world.changes().counts.rows == 0, "capture has reached neither of both commits"
    world.server.capture(commits=1)
    assert world.changes().counts.inserts == 1
    world.insert(6)
    world.server.capture()
    assert world.changes().counts.inserts == 2
    assert world.rebuilt() == world.source()


def test_the_older_instance_dropped_too_early_is_a_gap(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    second_instance(world)
    disable(world)
    use(world, "dbo_orders_v2")
    with pytest.raises(RetentionGap):
        world.changes()


def test_a_repair_across_the_switch_reads_both_instances(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    second_instance(world)
    world.insert(5)
    world.tick(3600)
    use(world, "dbo_orders_v2")
    world.changes()
    rows = world.change_rows()
    done = world.interval(datetime(2026, 5, 11, 9, tzinfo=UTC), datetime(2026, 5, 11, 10, tzinfo=UTC))
    assert isinstance(done, ChangesDone)
    assert (done.event, done.counts.rows) == ("repair", 2)
    assert world.change_rows() == rows


def test_the_instance_that_the_table_names_is_read_and_no_other(world: ChangesWorld) -> None:
    world.bootstrap()
    second_instance(world)
    world.insert(4)
    world.changes()
    assert {row["_capture_instance"] for row in world.bronze("_operation > 0")} == {"dbo_orders"}
    assert world.change_rows() == world.recorded_rows()


def test_a_new_column_is_reported_and_never_filled(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
    world.insert(4)
    done = world.changes()
    assert any("note" in note and "not recorded" in note for note in done.notes)
    assert "note" not in world.bronze()[0]
    (fact,) = world.facts("schema_change")
    assert "ADD note" in json.loads(fact["detail"])["ddl"]


def test_a_column_that_the_newer_instance_adds_stops_where_it_begins(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
    second_instance(world)
    world.execute("INSERT INTO dbo.orders (id, note) VALUES (5, 'five')")
    use(world, "dbo_orders_v2")
    with pytest.raises(SchemaDrift, match='new_columns="null"'):
        world.changes()
    assert [row["id"] for row in world.bronze("_operation > 0")] == [4], "up to there it was read"


def test_a_new_column_is_accepted_on_purpose_recorded_and_filled_by_a_new_snapshot(
    world: ChangesWorld,
) -> None:
    world.bootstrap()
    world.insert(4)
    world.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
    world.execute("UPDATE dbo.orders SET note = 'old' WHERE id = 2")
    second_instance(world)
    world.execute("INSERT INTO dbo.orders (id, note) VALUES (5, 'five')")
    use(world, "dbo_orders_v2")
    world.changes(accept_nulls=True)
    notes = {row["id"]: row["note"] for row in world.bronze()}
    assert (notes[1], notes[4], notes[5]) == (None, None, "five")
    added = [json.loads(fact["detail"]) for fact in world.facts("schema_change") if "added" in fact["detail"]]
    assert added == [{"added": ["note"], "new_columns": "null"}]
    world.tick(60)
    world.bootstrap(resnapshot=True, run_id="again")
    world.tick(60)
    world.changes()
    assert world.rebuilt() == world.source("id", "name", "amount", "note")


def test_a_dropped_column_stays_and_is_null_from_then_on(world: ChangesWorld) -> None:
    world.execute("UPDATE dbo.orders SET amount = 5")
    world.bootstrap()
    world.execute("UPDATE dbo.orders SET amount = 6 WHERE id = 1")
    world.execute("ALTER TABLE dbo.orders DROP COLUMN amount")
    world.execute("UPDATE dbo.orders SET name = 'after' WHERE id = 2")
    world.changes()
    images = {row["id"]: row["amount"] for row in world.bronze("_operation = 4")}
    assert (images[1], images[2]) == (6, None)
    assert len(world.bronze("_operation = 0 AND amount = 5")) == 3


def test_a_column_dropped_and_added_again_stops(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders ADD tail int NULL")
    world.execute("ALTER TABLE dbo.orders DROP COLUMN amount")
    world.execute("ALTER TABLE dbo.orders ADD amount decimal(18, 4) NULL")
    world.execute("UPDATE dbo.orders SET amount = 7")
    with pytest.raises(SchemaDrift, match="would become NULL"):
        world.changes()


def test_a_column_that_the_newer_instance_leaves_out_stops(world: ChangesWorld) -> None:
    world.bootstrap()
    second_instance(world, captured_column_list="id, name")
    world.insert(4)
    use(world, "dbo_orders_v2")
    with pytest.raises(SchemaDrift, match="amount"):
        world.changes()


def test_a_longer_text_column_is_one_type_in_the_lake(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders ALTER COLUMN name nvarchar(400) NULL")
    world.execute("UPDATE dbo.orders SET name = ? WHERE id = 1", "long " * 70)
    world.changes()
    assert world.rebuilt() == world.source()


def test_a_wider_decimal_stops_and_a_cast_keeps_the_type(world: ChangesWorld) -> None:
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders ALTER COLUMN amount decimal(20, 4) NULL")
    world.execute("UPDATE dbo.orders SET amount = 8")
    with pytest.raises(SchemaDrift, match="casts"):
        world.changes()
    world.table = replace(world.table, casts={"amount": "decimal(18,4)"})
    world.changes()
    assert {row["amount"] for row in world.bronze("_operation = 4")} == {8}


def test_computed_columns_are_in_neither_snapshot_nor_changes(world: ChangesWorld, tmp_path: Path) -> None:
    line = ChangesWorld(
        world.server, tmp_path, name="line", columns="name nvarchar(9), qty int, twice AS qty * 2"
    )
    line.execute("INSERT INTO dbo.line (id, name, qty) VALUES (1, 'a', 2)")
    world.server.enable_cdc("dbo.line")
    line.bootstrap()
    line.execute("UPDATE dbo.line SET qty = 3")
    assert line.changes().notes == ()
    assert "twice" not in line.bronze()[0]
    assert line.rebuilt() == line.source("id", "name", "qty")


def test_changes_of_the_clock_between_two_runs_are_no_restored_database(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    world.server.time_zone = "Europe/Berlin"
    world.server.clock.shift(timedelta(hours=1))
    world.insert(5)
    assert world.changes().counts.inserts == 1
