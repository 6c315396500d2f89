"""How far capture has come, and when: asked on the session whose answers belong together."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

from airflow_provider_mssql_cdc.errors import PermissionDenied, SourceObjectMissing, StatementFailed
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon
from airflow_provider_mssql_cdc.planning.intervals import GRID_STEP, WallClock, grid_start, wall_cut
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.watermarks import newest_capture, zone_of
from airflow_provider_mssql_cdc.tsql import cdc, changes

STALE_SECONDS = 30 * 60
"""Age of capture's newest entry from which on the capture job is said to look stopped."""

_ASKING = "asking how far capture has come"


def captured(session: SourceSession) -> Lsn | None:
    """The last LSN that capture has processed, of the whole database; None when it never did."""
    return Lsn.from_server(session.value(cdc.max_lsn(), doing=_ASKING))


def is_read_only(session: SourceSession) -> bool:
    """Whether the copy of the database that answers is a replica."""
    answer: str | None = session.value(changes.updateability(), doing=_ASKING)
    return answer == "READ_ONLY"


def local_cut(session: SourceSession, at: datetime) -> datetime:
    """The server's local time below which every commit before ``at`` lies."""
    zone = zone_of(session)
    if zone.name is None:
        clock = session.rows(cdc.server_clock(), doing=_ASKING)[0]
        return wall_cut(at, WallClock.shifted(at, timedelta(minutes=int(clock["utc_offset_minutes"]))))
    base = grid_start(at)
    rows = session.rows(changes.wall_clock(base.replace(tzinfo=None), zone.name), doing=_ASKING)
    ticks = [(base + GRID_STEP * int(row["step"]), datetime.fromisoformat(row["local_time"])) for row in rows]
    return wall_cut(at, WallClock(tuple(ticks)))


def commits_before(session: SourceSession, at: datetime) -> tuple[Lsn | None, Lsn | None]:
    """The last commit before an instant, and the first entry at or after it.

    The second is None until capture has passed the instant; the first when no commit that early is known.
    """
    row = session.rows(changes.commits_around(local_cut(session, at)), doing=_ASKING)[0]
    return Lsn.from_server(row["before_lsn"]), Lsn.from_server(row["passed_lsn"])


def entry_past(session: SourceSession, horizon: ReadHorizon) -> Lsn | None:
    """The first entry past a snapshot's horizon: changes read up to it make the rebuilt state equal.

    Above the horizon's LSN, with a commit time above its time plus one second; None while there is none.
    """
    passed = (horizon.time.astimezone(UTC) + timedelta(seconds=1)).replace(microsecond=0)
    local = local_cut(session, passed + timedelta(seconds=1))
    return Lsn.from_server(session.value(changes.first_entry_past(horizon.lsn, local), doing=_ASKING))


def capture_trouble(session: SourceSession, *, stale_seconds: float = STALE_SECONDS) -> str | None:
    """What is wrong with capture as far as this login can tell; None when it works."""
    with contextlib.suppress(PermissionDenied, SourceObjectMissing, StatementFailed):
        newest, age_seconds = newest_capture(session)
        if age_seconds is None:
            return (
                "whether the capture job runs cannot be told: cdc.lsn_time_mapping is empty or this login "
                "may not read it"
            )
        if age_seconds <= stale_seconds:
            return None
        return (
            f"capture last wrote {age_seconds / 60:.0f} minutes ago ({newest}): the capture job looks "
            "stopped (EXEC sys.sp_cdc_start_job); after a failover it has to be made on the new primary, and "
            "a paused serverless database does not capture"
        )
    return "whether the capture job runs cannot be told with this login's rights"
