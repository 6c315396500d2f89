"""Another history: two servers that go on differently from one database, and healthy ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import RetentionGap, StateDamaged
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import newest_lsn_beside_changes
from airflow_provider_mssql_cdc.model.lsn import Lsn
from tests.support.changes_world import ChangesWorld

DRIVERS = ("mssql-python", "pymssql")
MORNING = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)


@pytest.fixture(params=DRIVERS)
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(MORNING)
        world = ChangesWorld(server, tmp_path, driver=request.param)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        yield world


@contextmanager
def restored(world: ChangesWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A server that begins with the database as it is now; it answers once what is given has been called."""
    driver = "pymssql" if "pymssql" in world.connection else "mssql-python"
    with EmbeddedSqlServer(database="shop") as other:
        other.clock.freeze(MORNING + timedelta(hours=2, minutes=7, seconds=3))
        other.restore(world.server)

        def answer() -> None:
            world.server = other
            extra = {"mssql_cdc": {"driver": driver}}
            monkeypatch.setenv("AIRFLOW_CONN_ERP", other.airflow_connection(extra=extra))

        yield answer


def refused_everywhere(world: ChangesWorld, match: str) -> None:
    before = world.bronze()
    with pytest.raises(StateDamaged, match=match):
        world.changes()
    with pytest.raises(StateDamaged, match="load into a new bronze path"):
        world.bootstrap(run_id="other")
    with pytest.raises(StateDamaged, match="no snapshot can repair that"):
        world.bootstrap(run_id="again", resnapshot=True)
    assert world.bronze() == before


def mapped(world: ChangesWorld, lsn: str) -> bool:
    found = world.execute(
        "SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn = CONVERT(binary(10), ?, 1)", lsn
    )
    return bool(found)


def test_a_restored_database_in_which_no_lsn_coincides_is_refused(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    with restored(world, monkeypatch) as answer:
        world.insert(5, 6)
        world.changes()
        answer()
        position = world.position()
        world.execute("UPDATE dbo.orders SET name = 'of the new history'")  # four rows in one commit
        world.execute("DELETE FROM dbo.orders WHERE id < 3")
        for number in range(70, 90):
            if world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0] > position:
                break
            world.insert(number)
        assert not mapped(world, position)
        refused_everywhere(world, "is not a commit of this server")


def test_a_restored_database_in_which_the_lsn_coincides_is_refused(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    with restored(world, monkeypatch) as answer:
        world.insert(5)
        world.changes()
        answer()
        world.insert(50, 60)
        assert mapped(world, world.position())
        refused_everywhere(world, "assigned the LSN to another commit")


def test_a_restored_database_that_is_still_below_the_position_is_refused(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    with restored(world, monkeypatch) as answer:
        world.insert(4, 5)
        world.changes()
        answer()
        world.server.idle()
        refused_everywhere(world, "the server is only at")


def test_a_position_that_both_histories_share_is_gone_on_from(
    world: ChangesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    with restored(world, monkeypatch) as answer:
        world.insert(5)  # nobody read it
        answer()
        world.execute("DELETE FROM dbo.orders WHERE id = 4")
        world.changes()
        assert world.rebuilt() == world.source()


def test_a_mapping_that_was_trimmed_by_hand_proves_nothing(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    world.insert(5)
    world.execute(
        "DELETE FROM cdc.lsn_time_mapping WHERE start_lsn <= CONVERT(binary(10), ?, 1)", world.position()
    )
    world.changes()
    assert world.rebuilt() == world.source()


@pytest.mark.parametrize("question", [r"@smallest binary", r"sp_cdc_help_change_data_capture"])
def test_a_cleanup_between_the_questions_proves_nothing(world: ChangesWorld, question: str) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    world.insert(5, 6)
    newest = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    world.server.faults.run(question, lambda: world.server.cleanup(up_to=newest))
    with pytest.raises(RetentionGap):
        world.changes()


def test_a_snapshot_below_the_first_lsn_of_a_quiet_instance_is_gone_on_from(world: ChangesWorld) -> None:
    world.bootstrap()
    world.changes()
    world.bootstrap()
    world.tick(400)
    world.changes()
    world.insert(4)
    world.changes()
    assert world.rebuilt() == world.source()


def test_the_newest_rows_below_the_position_are_told_from_statistics_alone(world: ChangesWorld) -> None:
    """Also where an OPTIMIZE has put all rows into one file: a large bronze is not read in every run."""
    world.bootstrap()
    world.insert(4)
    world.changes()
    newest = max(row["_start_lsn"] for row in world.bronze("_operation > 0"))
    table = DeltaTable(world.table.bronze)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    bronze = open_existing(TableLocation.bronze_of(world.table))
    assert len(bronze.table.file_uris()) == 1
    for uri in bronze.table.file_uris():
        Path(uri).unlink()
    coverage = bronze.state.coverage
    assert coverage is not None
    assert newest_lsn_beside_changes(bronze, coverage.changes) == Lsn.parse(newest)


def test_rows_above_the_position_are_not_asked_for(world: ChangesWorld) -> None:
    world.bootstrap()
    world.insert(4)
    world.changes()
    position = world.position()
    world.insert(5)
    world.bootstrap(resnapshot=True, run_id="again")
    DeltaTable(world.table.bronze).optimize.compact()
    bronze = open_existing(TableLocation.bronze_of(world.table))
    assert newest_lsn_beside_changes(bronze, Lsn.parse(position)) is None
    world.changes()
    assert world.rebuilt() == world.source()
