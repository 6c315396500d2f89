"""Whether changes still lead on from a position, asked on the session that needs it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.planning.coverage import is_proven_gap
from airflow_provider_mssql_cdc.source.watermarks import commit_time, is_retained, low
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession

_NOTHING_PURGED = timedelta(minutes=10)
"""The first change of an instance is at most this much younger than the instance itself, as a rule."""


def refuse_unretained(
    session: SourceSession, instance: CaptureInstance, *, position: Lsn, label: str
) -> None:
    """Fail when CDC cleanup has purged changes just above ``position``.

    :raises RetentionGap: with the position, the low watermark and the remedy.
    """
    lowest = low(session, instance)
    if not is_retained(position, lowest):
        raise RetentionGap(
            f"{label}: the snapshot's LSN {position} has left CDC's retention (the lowest change kept is "
            f"at {lowest}), so no change can lead on from it. Nothing was committed. Start a new run; if "
            "reading takes longer than retention, raise it (sys.sp_cdc_change_job @job_type = 'cleanup', "
            "@retention = minutes) or load in chunks"
        )


def refuse_lost_changes(
    session: SourceSession, instance: CaptureInstance, *, state: BronzeState, label: str
) -> None:
    """Fail when changes just above the position that bronze has reached have been purged.

    What a chunked snapshot has loaded stays; changes that would lead on from it are gone.

    :raises RetentionGap: with the position, the low watermark and the remedy.
    """
    lowest = low(session, instance)
    if state.coverage is not None and is_proven_gap(state.coverage, lowest):
        raise RetentionGap(
            f"{label}: changes above {state.coverage.changes}, where the changes in bronze end, have left "
            f"CDC's retention (the lowest one kept is at {lowest}), so nothing can lead on from it. Nothing "
            "was committed, and nothing that was loaded is lost. Run the changes operator next to the load, "
            "more often than retention; raise retention (sys.sp_cdc_change_job @job_type = 'cleanup', "
            "@retention = minutes). The way on from here is a new snapshot: resnapshot=True"
        )


def headroom_hours(session: SourceSession, instance: CaptureInstance, *, position: Lsn) -> float | None:
    """Hours of the log that cleanup would have to purge to reach ``position``.

    None while cleanup has purged nothing of this instance: what it would reach then lies in the future.
    None too where the server does not say when something was committed.
    """
    lowest = low(session, instance)
    reached, kept_since = commit_time(session, position), commit_time(session, lowest)
    local = session.value(cdc.commit_time(lowest), doing="asking since when changes are kept")
    if reached is None or kept_since is None or local is None:
        return None
    if datetime.fromisoformat(local) <= instance.create_date + _NOTHING_PURGED:
        return None
    return (reached - kept_since).total_seconds() / 3600
