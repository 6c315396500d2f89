"""Where capture is: NULL and zero are never a position, and S is the larger of two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import SourceObjectMissing
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source import watermarks
from airflow_provider_mssql_cdc.source.instances import choose_instance, visible_instances
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.unit.source.conftest import settings_for, settings_from

Connect = Callable[[], SourceSession]


@pytest.fixture
def fresh() -> Iterator[EmbeddedSqlServer]:
    """A database on which capture has not yet run."""
    with EmbeddedSqlServer(database="shop") as server:
        server.capture_mode = "manual"
        server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, v int)")
        server.execute("INSERT INTO dbo.orders VALUES (1, 1)")
        server.enable_cdc("dbo.orders")
        yield server


@pytest.fixture
def session(fresh: EmbeddedSqlServer, driver: str) -> Iterator[SourceSession]:
    with SourceSession(settings_for(fresh, driver)) as opened:
        yield opened


def the_instance(session: SourceSession, name: str = "dbo_orders") -> CaptureInstance:
    found = choose_instance(visible_instances(session), name)
    assert found is not None
    return found


def test_on_a_database_that_never_captured_s_is_just_below_the_instance_s_start(
    session: SourceSession,
) -> None:
    instance = the_instance(session)
    assert instance.start_lsn is not None
    assert session.value(Statement("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS m")) is None
    assert watermarks.now(session, instance) == instance.start_lsn.decremented()


def test_a_fresh_instance_s_start_is_above_max_lsn_on_a_quiet_database(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    fresh.execute("UPDATE dbo.orders SET v = 2")
    fresh.capture()
    fresh.execute("CREATE TABLE dbo.later (id int NOT NULL PRIMARY KEY)")
    fresh.enable_cdc("dbo.later")
    later = the_instance(session, "dbo_later")
    assert later.start_lsn is not None
    reached = Lsn.from_server(
        session.value(Statement("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS m"))
    )
    assert reached is not None
    assert reached < later.start_lsn
    assert watermarks.now(session, later) == later.start_lsn.decremented()


def test_once_capture_has_passed_the_start_s_is_max_lsn(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    instance = the_instance(session)
    before = watermarks.now(session, instance)
    fresh.execute("UPDATE dbo.orders SET v = 3")
    assert watermarks.now(session, instance) == before, "capture lags: the commit is not in it yet"
    fresh.capture()
    assert watermarks.now(session, instance) > before


def test_the_position_just_below_the_start_is_retained_and_the_one_below_it_is_not(
    session: SourceSession,
) -> None:
    instance = the_instance(session)
    lowest = watermarks.low(session, instance)
    assert lowest == instance.start_lsn
    assert watermarks.is_retained(lowest.decremented(), lowest)
    assert not watermarks.is_retained(lowest.decremented().decremented(), lowest)


def test_cleanup_raises_the_low_watermark_of_an_instance_that_was_described_before(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    instance = the_instance(session)
    snapshot = watermarks.now(session, instance)
    for value in range(3):
        fresh.execute("UPDATE dbo.orders SET v = ?", value + 10)
    fresh.capture()
    assert watermarks.is_retained(snapshot, watermarks.low(session, instance))
    fresh.cleanup("dbo_orders", up_to=watermarks.now(session, instance).text)
    assert not watermarks.is_retained(snapshot, watermarks.low(session, instance))


def test_the_low_watermark_is_per_instance(fresh: EmbeddedSqlServer, session: SourceSession) -> None:
    fresh.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    fresh.enable_cdc("dbo.other")
    orders = the_instance(session)
    before = watermarks.low(session, orders)
    fresh.execute("INSERT INTO dbo.other VALUES (1); INSERT INTO dbo.other VALUES (2)")
    fresh.capture()
    fresh.cleanup("dbo_other", up_to=watermarks.now(session, orders).text)
    assert watermarks.low(session, orders) == before
    assert watermarks.low(session, the_instance(session, "dbo_other")) > before


def test_an_instance_that_goes_away_is_no_low_watermark(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    instance = the_instance(session)
    fresh.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = 'dbo', @source_name = 'orders', "
        "@capture_instance = 'dbo_orders'"
    )
    with pytest.raises(SourceObjectMissing, match="is not the one that this run began with"):
        watermarks.low(session, instance)


def test_an_instance_that_is_enabled_anew_is_another_one(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    instance = the_instance(session)
    fresh.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = 'dbo', @source_name = 'orders', "
        "@capture_instance = 'dbo_orders'"
    )
    fresh.enable_cdc("dbo.orders")
    assert the_instance(session).identity != instance.identity


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
def test_a_commit_time_is_utc_whatever_the_server_s_zone(driver: str, zone: str) -> None:
    with EmbeddedSqlServer(database="shop", time_zone=zone) as server:
        server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, v int)")
        server.enable_cdc("dbo.orders")
        before = datetime.now(UTC)
        server.execute("INSERT INTO dbo.orders VALUES (1, 1)")
        with SourceSession(settings_for(server, driver)) as session:
            instance = the_instance(session)
            committed = watermarks.commit_time(session, watermarks.now(session, instance))
            horizon = watermarks.horizon(session, instance)
            status = watermarks.retention_status(
                session, instance, position=watermarks.now(session, instance)
            )
    assert committed is not None
    assert abs(committed - before) < timedelta(seconds=30)
    assert committed.utcoffset() == timedelta(0)
    assert abs(horizon.time - datetime.now(UTC)) < timedelta(seconds=30)
    assert status.newest_commit_ts == committed
    assert status.capture_lag_seconds is not None
    assert abs(status.capture_lag_seconds) < 60


def test_an_lsn_that_is_no_commit_has_no_time(session: SourceSession) -> None:
    assert watermarks.commit_time(session, watermarks.now(session, the_instance(session))) is None


def test_the_horizon_of_a_database_that_never_captured_is_s(session: SourceSession) -> None:
    instance = the_instance(session)
    assert watermarks.horizon(session, instance).lsn == watermarks.now(session, instance)


def test_the_horizon_bears_what_its_clock_cannot(driver: str) -> None:
    noon = datetime(2026, 5, 11, 12, tzinfo=UTC)
    with EmbeddedSqlServer(database="shop", time_zone="Asia/Tokyo") as server:
        server.execute("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, v int)")
        server.enable_cdc("dbo.orders")
        server.clock.freeze(noon)
        replica = server.replica()
        for listener, zone_fails, expected in (
            (server.airflow_connection(), 0, noon),
            (replica.airflow_connection(), 0, noon + timedelta(minutes=5)),
            (server.airflow_connection(), 1, noon + timedelta(hours=1)),
            (replica.airflow_connection(), 1, noon + timedelta(hours=1, minutes=5)),
        ):
            server.faults.fail("CURRENT_TIMEZONE_ID", 195, times=zone_fails)
            with SourceSession(settings_from(listener, driver)) as session:
                assert watermarks.horizon(session, the_instance(session)).time == expected
            server.faults.clear()


def test_headroom_is_the_log_s_time_between_the_low_watermark_and_the_position(
    fresh: EmbeddedSqlServer, session: SourceSession
) -> None:
    instance = the_instance(session)
    fresh.execute("UPDATE dbo.orders SET v = 4")
    fresh.capture()
    first = watermarks.now(session, instance)
    fresh.cleanup("dbo_orders", up_to=first.text)
    fresh.execute("UPDATE dbo.orders SET v = 5")
    fresh.capture()
    status = watermarks.retention_status(session, instance, position=watermarks.now(session, instance))
    assert status.low == first
    assert status.watermark_ts is not None
    assert status.headroom_hours is not None
    assert 0 <= status.headroom_hours < 0.1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-11T02:00:00", datetime(2024, 5, 11, 2, tzinfo=UTC)),
        ("2024-05-11T02:00:00.003", datetime(2024, 5, 11, 2, 0, 0, 3000, tzinfo=UTC)),
        ("2024-05-11T02:00:00.1234567", datetime(2024, 5, 11, 2, 0, 0, 123456, tzinfo=UTC)),
        (None, None),
    ],
)
def test_a_time_that_the_server_rendered_is_read_to_the_microsecond(
    text: str | None, expected: datetime | None
) -> None:
    assert watermarks.utc_of(text) == expected
