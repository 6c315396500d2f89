"""Guards that several jobs share: retention and gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.jobs.change_facts import write_change_facts
from airflow_provider_mssql_cdc.jobs.changes_run import ChangesRun
from airflow_provider_mssql_cdc.lake.stored_commits import recorded_commit_time
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.planning.coverage import is_proven_gap
from airflow_provider_mssql_cdc.planning.windows import Reach
from airflow_provider_mssql_cdc.source.watermarks import commit_time, is_retained, low
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


_NOTHING_PURGED = timedelta(minutes=10)
"""The first change of an instance is at most this much younger than the instance itself, as a rule."""


def refuse_unretained(session: SourceSession, instance: CaptureInstance, *, position: Lsn, label: str) -> Lsn:
    """The low watermark; fail when CDC cleanup has purged changes just above ``position``.

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
    return lowest


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


REMEDY = "mssql_cdc_bootstrap(resnapshot=True)"


def refuse_gap(run: ChangesRun, reach: Reach, *, position: Lsn) -> None:
    """Fail when changes just above the position have been purged, with a ``gap`` facts row.

    :param reach: of the instance that is to lead on, or has just been read, seen on this session now.
    :raises RetentionGap: with what was lost and the way back.
    """
    if reach.keeps(position):
        return
    if position != run.position:
        raise RetentionGap(
            f"{run.table.label}: changes above {position} were purged while they were read again (the lowest "
            f"one kept is at {reach.low}). Bronze is left as it is, it still holds what was read then"
        )
    _record_gap(run, reach, position)
    raise RetentionGap(
        f"{run.table.label}: changes above {position} have been purged, or were never recorded: the lowest "
        f"one that capture instance {reach.instance.name} keeps is at {reach.low}. Changes between the two "
        f"are lost to bronze, so its position stays where it is. The way back is a new snapshot, {REMEDY}; "
        "changes go on from it. If runs are further apart than retention, raise it: sys.sp_cdc_change_job "
        "@job_type = 'cleanup', @retention = minutes"
    )


def _record_gap(run: ChangesRun, reach: Reach, position: Lsn) -> None:
    stamp = run.state.stamp
    lost_from = stamp.time if stamp is not None and stamp.lsn == position else None
    low_time = commit_time(run.session, reach.low)
    row = FactsRow(
        event="gap",
        target=run.bronze.location.uri,
        capture_instance=reach.instance.name,
        end_lsn=position,
        end_commit_ts=lost_from,
        max_lsn=reach.low,
        max_commit_ts=low_time,
        lost_from_ts=lost_from or _known_time(run, position),
        lost_to_ts=low_time or reach.instance.create_date.replace(tzinfo=UTC),
        detail={"position": position.text, "low": reach.low.text, "remedy": REMEDY},
    )
    write_change_facts(run, row, identifier=facts_identifier(row.target, "gap", position))


def _known_time(run: ChangesRun, position: Lsn) -> datetime | None:
    """The server's word, then bronze's; at last the newest commit time that bronze recorded below it."""
    stamp = run.state.stamp
    known = commit_time(run.session, position) or recorded_commit_time(run.bronze, position)
    return known or (None if stamp is None else stamp.time)
