"""What a run says: warnings for what needs a person, where capture is, and how far a long read has come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.jobs.read_range import ReadMeter
from airflow_provider_mssql_cdc.jobs.status import look_at_capture
from airflow_provider_mssql_cdc.jobs.task import Waiting
from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.coverage import CAPTURE_MOVES
from tests.support.changes_world import ChangesWorld

NOON = datetime(2026, 5, 11, 12, tzinfo=UTC)


@pytest.fixture(params=["mssql-python", "pymssql"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        server.clock.freeze(NOON)
        world = ChangesWorld(server, tmp_path, driver=request.param)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        yield world


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def nothing(world: ChangesWorld) -> None:
    """A database in which nothing was ever captured: capture's list of commits is empty."""


def idle(world: ChangesWorld) -> None:
    world.server.idle()


def other_table(world: ChangesWorld) -> None:
    world.execute("INSERT INTO dbo.other (n) VALUES (1)")


@pytest.mark.parametrize("between", [nothing, idle, other_table])
@pytest.mark.parametrize("recorded", [{}, {"captured_column_list": "id, name"}])
def test_runs_on_a_quiet_database_that_works_log_no_warning(
    world: ChangesWorld,
    caplog: pytest.LogCaptureFixture,
    between: Callable[[ChangesWorld], None],
    recorded: dict[str, str],
) -> None:
    world.execute("CREATE TABLE dbo.other (id int IDENTITY NOT NULL PRIMARY KEY, n int NOT NULL)")
    world.server.enable_cdc("dbo.other")
    world.server.enable_cdc("dbo.orders", **recorded)
    world.bootstrap()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            between(world)
            world.changes(quiet_seconds=0)
    assert warnings(caplog) == []
    assert "0 rows in" in caplog.text


def test_capture_that_has_stopped_is_a_warning(world: ChangesWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.server.enable_cdc("dbo.orders")
    world.insert(1)
    world.bootstrap()
    world.server.clock.shift(timedelta(hours=1))
    with caplog.at_level(logging.INFO):
        done = world.changes()
    assert ["the capture job looks stopped" in each for each in warnings(caplog)] == [True]
    assert len(done.notes) == 1


def test_a_column_that_came_after_the_capture_instance_is_a_warning(
    world: ChangesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.enable_cdc("dbo.orders")
    world.bootstrap()
    world.execute("ALTER TABLE dbo.orders ADD colour nvarchar(9) NULL")
    world.insert(1)
    with caplog.at_level(logging.INFO):
        world.changes()
    assert ["column(s) colour" in each for each in warnings(caplog)] == [True]


def test_a_wait_on_a_quiet_database_says_what_moves_capture(world: ChangesWorld) -> None:
    world.server.enable_cdc("dbo.orders")
    world.insert(1)
    world.bootstrap()
    waiting = world.interval(NOON, NOON + timedelta(hours=1))
    assert isinstance(waiting, Waiting)
    assert "capture is at 0x" in waiting.reason
    assert CAPTURE_MOVES in waiting.reason
    with world.session() as session:
        target = CaptureTarget(lsn=Lsn.parse("0x" + "F" * 20))
        answer = look_at_capture(session, target, capture_instance="dbo_orders")
    assert answer.passed is None
    assert CAPTURE_MOVES in answer.reason


def test_a_resnapshot_on_a_quiet_database_says_what_moves_capture(world: ChangesWorld) -> None:
    world.server.enable_cdc("dbo.orders")
    world.bootstrap()
    with pytest.raises(NotReadyYet) as raised:
        world.bootstrap(resnapshot=True, run_id="again")
    assert str(raised.value).endswith(CAPTURE_MOVES)
    assert "commit something in a tracked table" in CAPTURE_MOVES
    assert "idle entry" in CAPTURE_MOVES
    assert "look at the capture job" in CAPTURE_MOVES


# -- progress


class Clock:
    """Moves by ``step`` seconds with every look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def batches(number: int, rows: int = 100) -> Iterator[pa.RecordBatch]:
    return iter([pa.record_batch({"secret": ["a key value"] * rows})] * number)


def read(caplog: pytest.LogCaptureFixture, meter: ReadMeter, number: int) -> list[str]:
    with caplog.at_level(logging.INFO, logger="airflow_provider_mssql_cdc.jobs.read_range"):
        assert sum(batch.num_rows for batch in meter.watched(batches(number))) == number * 100
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("step", "number", "lines"), [(1, 10, 0), (1, 16, 1), (5, 9, 3), (30, 3, 3), (1000, 2, 2), (15, 2, 2)]
)
def test_a_long_read_logs_a_line_every_30_seconds_and_a_short_one_none(
    caplog: pytest.LogCaptureFixture, step: float, number: int, lines: int
) -> None:
    assert len(read(caplog, ReadMeter("dbo.orders, range 1 of 2", clock=Clock(step)), number)) == lines


def test_a_line_of_progress_holds_rows_pace_and_the_share_where_it_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = read(caplog, ReadMeter("dbo.orders, wave 3", expected=250, clock=Clock(25)), 3)
    assert said == [
        "dbo.orders, wave 3: 100 rows read so far, 40% of it, 2 rows/s",
        "dbo.orders, wave 3: 200 rows read so far, 80% of it, 2 rows/s",
        "dbo.orders, wave 3: 300 rows read so far, 2 rows/s",
    ]


def test_the_lines_of_one_read_go_on_over_its_pieces(caplog: pytest.LogCaptureFixture) -> None:
    meter = ReadMeter("dbo.orders, wave 0", clock=Clock(10))
    assert read(caplog, meter, 1) == []
    assert read(caplog, meter, 1) == ["dbo.orders, wave 0: 200 rows read so far, 3 rows/s"]
    assert (meter.rows, meter.seconds) == (200, 40)
