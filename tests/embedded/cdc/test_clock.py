from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_mssql_cdc.embedded.cdc.clock import ServerClock, to_ticks


def test_a_clock_without_wishes_shows_the_real_time():
    before, shown, after = datetime.now(UTC), ServerClock().utc(), datetime.now(UTC)
    assert before <= shown <= after


def test_a_shifted_clock_goes_on_from_the_new_moment():
    clock = ServerClock()
    clock.shift(timedelta(days=4))
    assert timedelta(days=4) <= clock.utc() - datetime.now(UTC) + timedelta(seconds=1)


def test_a_frozen_clock_stands_still_and_can_be_shifted_and_run():
    clock = ServerClock()
    clock.freeze(datetime(2026, 3, 1, 12, tzinfo=UTC))
    clock.shift(timedelta(minutes=5))
    assert clock.utc() == clock.utc() == datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
    clock.run()
    assert clock.utc() > datetime(2026, 3, 1, 12, 5, tzinfo=UTC)


def test_local_time_repeats_an_hour_in_autumn():
    clock = ServerClock("Europe/Berlin")
    clock.freeze(datetime(2025, 10, 26, 0, 30, tzinfo=UTC))
    first = clock.local()
    clock.shift(timedelta(hours=1))
    assert first == clock.local() == datetime(2025, 10, 26, 2, 30)


def test_a_moment_without_a_zone_is_the_servers_local_time():
    clock = ServerClock("America/New_York")
    clock.freeze(datetime(2026, 1, 1, 7))
    assert clock.utc() == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time", "ticks"),
    [
        (datetime(1900, 1, 1), 0),
        (datetime(1900, 1, 1, 0, 0, 0, 1_000), 0),
        (datetime(1900, 1, 1, 0, 0, 0, 2_000), 1),
        (datetime(1900, 1, 1, 0, 0, 0, 6_000), 2),
        (datetime(1900, 1, 1, 0, 0, 0, 999_000), 300),
    ],
)
def test_datetime_counts_in_ticks_of_a_three_hundredth_second(time, ticks):
    assert to_ticks(time) == ticks
