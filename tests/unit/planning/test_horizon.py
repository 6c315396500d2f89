"""Whether changes have passed a snapshot's horizon: an LSN, and a time with a second to spare."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_mssql_cdc.model.capture import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.planning.coverage import consistency

READ = datetime(2024, 5, 11, 2, tzinfo=UTC)
HORIZON = ReadHorizon(Lsn(100), READ)


def stamp(lsn: int, seconds: float) -> CommitStamp:
    return CommitStamp(Lsn(lsn), READ + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("horizon", "position", "newest", "passed"),
    [
        (None, 50, None, True),
        (HORIZON, 101, stamp(101, 1.1), True),
        (HORIZON, 200, stamp(150, 60), True),
        (HORIZON, 101, stamp(101, 1.0), False),
        (HORIZON, 100, stamp(100, 60), False),
        (HORIZON, 200, stamp(100, 60), False),
        (HORIZON, 200, stamp(150, -60), False),
        (HORIZON, 200, None, False),
        (HORIZON, 50, None, False),
    ],
    ids=[
        "nothing was read",
        "just past both",
        "past both, and no time for the very position",
        "not by more than a second",
        "at the LSN",
        "the commit whose time is known is at the LSN",
        "above the LSN and earlier",
        "no time is known",
        "changes have not come so far",
    ],
)
def test_both_the_lsn_and_the_time_have_to_be_passed(
    horizon: ReadHorizon | None, position: int, newest: CommitStamp | None, passed: bool
) -> None:
    told = consistency(horizon, Lsn(position), stamp=newest)
    assert told.passed is passed
    assert told.reason
