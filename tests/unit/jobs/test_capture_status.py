"""How far capture is, and why it is no further, as far as the login can tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError, MssqlCdcError
from airflow_provider_mssql_cdc.jobs.status import CaptureAnswer, look_at_capture
from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from tests.support.changes_world import ChangesWorld

NOON = datetime(2026, 5, 11, 12, tzinfo=UTC)


@pytest.fixture(params=["UTC", "Asia/Kathmandu"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop", time_zone=request.param) as server:
        server.clock.freeze(NOON)
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        server.enable_cdc("dbo.orders")
        world.insert(1)
        yield world


def look(world: ChangesWorld, **target: Any) -> CaptureAnswer:
    with world.session() as session:
        return look_at_capture(session, CaptureTarget(**target), capture_instance="dbo_orders")


def newest(world: ChangesWorld) -> Lsn:
    return Lsn.parse(world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0])


@pytest.mark.parametrize(("seconds", "passed"), [(-1, True), (0, True), (1, False), (3600, False)], ids=str)
def test_a_time_is_passed_by_an_entry_at_or_after_it(world: ChangesWorld, seconds: int, passed: bool) -> None:
    assert (look(world, time=NOON + timedelta(seconds=seconds)).passed is not None) is passed


def test_an_idle_entry_passes_a_time_as_well(world: ChangesWorld) -> None:
    assert look(world, time=NOON + timedelta(minutes=4)).passed is None
    world.tick(300)
    assert look(world, time=NOON + timedelta(minutes=4)).passed == newest(world)


@pytest.mark.parametrize(("above", "passed"), [(-1, True), (0, True), (1, False)])
def test_an_lsn_is_passed_when_capture_has_processed_it(
    world: ChangesWorld, above: int, passed: bool
) -> None:
    lsn = Lsn(newest(world).value + above)
    assert look(world, lsn=lsn).passed == (newest(world) if passed else None)


@pytest.mark.parametrize(
    ("seconds_later", "passed"),
    [pytest.param(1, False, id="one second is not above it"), pytest.param(2, True, id="two are")],
)
def test_a_horizon_is_passed_by_an_entry_above_its_lsn_and_a_second_above_its_time(
    world: ChangesWorld, seconds_later: int, passed: bool
) -> None:
    horizon = ReadHorizon(newest(world), NOON + timedelta(milliseconds=300))
    world.tick(seconds_later)
    assert (look(world, horizon=horizon).passed is not None) is passed
    same_lsn = ReadHorizon(newest(world), NOON - timedelta(hours=1))
    assert look(world, horizon=same_lsn).passed is None, "an entry at its LSN is not above it"


def test_a_stopped_capture_job_is_said(world: ChangesWorld) -> None:
    world.server.stop_capture()
    world.server.clock.shift(timedelta(hours=2))
    assert "looks stopped" in look(world, time=NOON + timedelta(hours=1)).reason


def test_that_this_login_cannot_tell_is_said(world: ChangesWorld) -> None:
    world.server.faults.fail(
        "newest|ORDER BY m.start_lsn DESC", 229, text="The SELECT permission was denied.", times=None
    )
    assert "cannot be told" in look(world, time=NOON + timedelta(hours=1)).reason


def test_an_instance_that_is_not_there_ends_the_wait(world: ChangesWorld) -> None:
    with world.session() as session, pytest.raises(MssqlCdcError, match="dbo_nothing") as caught:
        look_at_capture(session, CaptureTarget(lsn=Lsn(1)), capture_instance="dbo_nothing")
    assert not caught.value.retryable


AFTER = {"lsn": "0x00000025000005A80003", "commit_time": "2026-05-11T12:00:01+00:00"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"lsn": "0x00000025000005A80003", "time": None, "consistent_after": None},
        {"lsn": None, "time": "2026-05-11T14:00:00+02:00", "consistent_after": None},
        {"lsn": None, "time": NOON, "consistent_after": None},
        {"lsn": None, "time": None, "consistent_after": AFTER},
        {
            "lsn": None,
            "time": None,
            "consistent_after": {"lsn": AFTER["lsn"], "rows": 5, "consistent_after": AFTER},
        },
    ],
)
def test_what_is_waited_for_comes_through_json_as_it_went(arguments: dict[str, Any]) -> None:
    target = CaptureTarget.of(**arguments)
    assert CaptureTarget.from_json(target.to_json()) == target
    if target.time is not None:
        assert target.time == NOON
    if target.horizon is not None:
        assert target.horizon.consistent_after() == AFTER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"lsn": AFTER["lsn"], "time": NOON}, "exactly one"),
        ({"lsn": "0x00"}, "the target of the wait cannot be used"),
        ({"time": "2026-05-11T14:00:00"}, "zone"),
        ({"time": "noon"}, "the target of the wait cannot be used"),
        ({"consistent_after": "{}"}, "complete.output"),
        ({"consistent_after": {"lsn": AFTER["lsn"]}}, "commit_time"),
    ],
)
def test_what_cannot_be_waited_for_is_said(arguments: dict[str, Any], message: str) -> None:
    given = {"lsn": None, "time": None, "consistent_after": None, **arguments}
    with pytest.raises(ConfigurationError, match=message):
        CaptureTarget.of(**given)
