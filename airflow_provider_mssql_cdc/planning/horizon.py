"""Whether changes have passed a snapshot's horizon, as far as bronze itself can tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_mssql_cdc.model.changes import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether the state at a position is the source's, row by row, and why."""

    passed: bool
    reason: str


def consistency(horizon: ReadHorizon | None, position: Lsn, *, stamp: CommitStamp | None) -> Consistency:
    """E is past the horizon when an entry above its LSN, more than a second later, is at or below E.

    :param horizon: of the snapshot's reads; None when nothing was read, so that nothing can be mixed.
    :param position: E, how far the changes in bronze reach.
    :param stamp: the newest commit at or below E whose time bronze recorded.
    """
    if horizon is None:
        return Consistency(True, "no row of the snapshot can be newer than it")
    needed = horizon.time + _SECOND
    awaited = f"an entry above {horizon.lsn} that was committed after {needed.isoformat()}"
    if position <= horizon.lsn:
        return Consistency(False, f"changes are at {position} and have not passed {awaited}")
    if stamp is None:
        return Consistency(
            False,
            f"changes are at {position}, of which bronze has no commit time (this login may not read "
            f"cdc.lsn_time_mapping), so it cannot be told whether they have passed {awaited}",
        )
    if stamp.lsn > horizon.lsn and stamp.time > needed:
        return Consistency(True, f"changes are at {position}, {stamp.time.isoformat()}, past the horizon")
    return Consistency(
        False, f"changes are at {position}, {stamp.time.isoformat()}, and have not passed {awaited}"
    )
