"""Guards that several jobs share: retention, gaps, and another history of the source."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import (
    PermissionDenied,
    ReplicaBehind,
    RetentionGap,
    SourceObjectMissing,
    StateDamaged,
)
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRun
from airflow_provider_mssql_cdc.jobs.facts import write_change_facts
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.stored_commits import newest_lsn_beside_changes, recorded_commit_time
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, CommitStamp
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState
from airflow_provider_mssql_cdc.planning.coverage import HistoryAnswers, is_proven_gap, other_history
from airflow_provider_mssql_cdc.planning.windows import InstanceChanges
from airflow_provider_mssql_cdc.source.instances import visible_instances
from airflow_provider_mssql_cdc.source.watermarks import (
    captured,
    commit_time,
    is_read_only,
    is_retained,
    low,
    utc_of,
    zone_of,
)
from airflow_provider_mssql_cdc.tsql import cdc
from airflow_provider_mssql_cdc.tsql.statement import Statement

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import Answer, SourceSession


log = logging.getLogger(__name__)

_ASKING = "asking whether the server's history is the one that bronze was read from"

WAY_ON = (
    "the database was restored to an earlier point, or a failover lost commits. Bronze may hold changes that "
    "the source no longer has, and no snapshot can repair that, not even resnapshot=True: load into a new "
    "bronze path (docs/operations.md, The source was restored)"
)


def refuse_other_history(
    session: SourceSession, instance: CaptureInstance, *, bronze: Bronze, label: str
) -> None:
    """Fail when bronze's changes come from a history that the server does not have; one round trip.

    Call it outside any transaction: under SNAPSHOT all queries would see one fixed point in time.

    :raises ReplicaBehind: a replica has not caught up yet; retryable.
    :raises StateDamaged: the server provably has another history.
    """
    if bronze.state.coverage is None:
        return
    asked = history_question(session, instance, bronze=bronze)
    (answer,) = session.answers([asked.statement], doing=_ASKING)
    judge_history(session, instance, asked, answer, label=label)


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """Query that distinguishes the server's history from another one.

    :param position: the position of bronze's changes.
    :param above: LSN of the newest snapshot, if it is above the position.
    :param stored: LSNs in bronze with their commit times, in the order of the statement's entries.
    """

    position: Lsn
    above: tuple[Lsn, ...]
    stored: tuple[CommitStamp, ...]
    statement: Statement


def history_question(session: SourceSession, instance: CaptureInstance, *, bronze: Bronze) -> HistoryQuestion:
    """Build the query for a bronze with coverage; run it outside any transaction."""
    coverage, newest = bronze.state.coverage, bronze.state.newest
    assert coverage is not None
    above = (newest,) if newest is not None and newest > coverage.changes else ()
    stored = tuple(_stored(bronze, coverage.changes, above))
    statement = cdc.history(instance.name, [stamp.lsn for stamp in stored], zone_of(session))
    return HistoryQuestion(coverage.changes, above, stored, statement)


def judge_history(
    session: SourceSession, instance: CaptureInstance, asked: HistoryQuestion, answer: Answer, *, label: str
) -> None:
    """Check the answer to :func:`history_question`.

    :raises ReplicaBehind: a replica has not caught up yet; retryable.
    :raises StateDamaged: the server provably has another history.
    """
    stored = asked.stored
    row = _answered(session, answer, entries=len(stored))
    reached = _reached(instance, Lsn.from_server(row["max_lsn"]))
    # A replica may lag behind what another server answered before; on a primary a lower LSN means that
    # history was lost.
    is_replica = row["updateability"] == "READ_ONLY"
    needed = asked.position if is_replica else max([asked.position, *asked.above])
    if reached is None or needed > reached:
        reached = _reached_by_any(session, instance, reached)
        _refuse_ahead(needed, reached, label, is_replica=is_replica)
    assert reached is not None
    lows = [lsn for lsn in (Lsn.from_server(row["low"]), instance.start_lsn) if lsn is not None]
    answers = HistoryAnswers(
        reached=reached,
        entries=[
            (stamp, _entry(stamp, row[f"entry_{number}"]))
            for number, stamp in enumerate(stored)
            # Of a replica, LSNs that its redo has not reached are left out: a missing entry proves nothing
            # there.
            if stamp.lsn <= reached
        ],
        smallest=Lsn.from_server(row["smallest"]),
        low=max(lows, default=None),
    )
    if proof := other_history(answers):
        raise StateDamaged(f"{label}: {proof}: {WAY_ON}")


def refuse_snapshot_ahead(session: SourceSession, reached: Lsn, *, snapshot: Lsn, label: str) -> None:
    """Fail when the server has not reached the S that the rows were read under; works with an empty bronze.

    :param reached: ``now()`` of this session.
    :raises ReplicaBehind: a replica has not caught up yet.
    :raises StateDamaged: the database was restored, or lost commits, after the rows were read.
    """
    if snapshot <= reached:
        return
    if is_read_only(session):
        raise ReplicaBehind(
            f"{label}: the replica that answers is at {reached}, behind the snapshot's LSN {snapshot}; it "
            "catches up, or another one answers at the next attempt"
        )
    raise StateDamaged(
        f"{label}: the snapshot was read at {snapshot}, and the server is only at {reached}: the database "
        "was restored to an earlier point, or a failover lost commits, since then. Nothing of this snapshot "
        "is committed; start a new run"
    )


def _refuse_ahead(position: Lsn, reached: Lsn | None, label: str, *, is_replica: bool) -> None:
    if reached is not None and position <= reached:
        return
    if is_replica:
        raise ReplicaBehind(
            f"{label}: the replica that answers is at {reached}, behind the position {position} that changes "
            "have reached; it catches up, or another one answers at the next attempt"
        )
    raise StateDamaged(
        f"{label}: what was read up to {position} is in bronze, and the server is only at {reached}: {WAY_ON}"
    )


def _stored(bronze: Bronze, position: Lsn, above: Iterable[Lsn]) -> list[CommitStamp]:
    """Return LSNs whose commit times bronze recorded: the position, and rows below and above it."""
    stamp = read_changes_state(bronze.table).stamp
    found = {} if stamp is None else {stamp.lsn: stamp}
    newest = newest_lsn_beside_changes(bronze, position)
    others: Iterable[Lsn | None] = ((position if stamp is None else None), newest, *above)
    for lsn in others:
        if lsn is not None and lsn not in found:
            time = recorded_commit_time(bronze, lsn)
            if time is not None:
                found[lsn] = CommitStamp(lsn, time)
    return list(found.values())


def _answered(session: SourceSession, answer: Answer, *, entries: int) -> dict[str, Any]:
    """Return the answers; for a login without access to the mapping, only those that need no permission."""
    try:
        return answer.row
    except (PermissionDenied, SourceObjectMissing) as exc:
        log.warning("commits cannot be compared with the server's (%s)", exc)
    reached = captured(session)
    return {
        "max_lsn": None if reached is None else reached.text,
        "smallest": None,
        "low": None,
        "updateability": "READ_ONLY" if is_read_only(session) else "READ_WRITE",
        **{f"entry_{number}": None for number in range(entries)},
    }


def _entry(stamp: CommitStamp, text: str | None) -> CommitStamp | None:
    time = utc_of(text)
    return None if time is None else CommitStamp(stamp.lsn, time)


def _reached(instance: CaptureInstance, max_lsn: Lsn | None) -> Lsn | None:
    start = None if instance.start_lsn is None else instance.start_lsn.decremented()
    return max((lsn for lsn in (max_lsn, start) if lsn is not None), default=None)


def _reached_by_any(session: SourceSession, instance: CaptureInstance, reached: Lsn | None) -> Lsn | None:
    """Include the start of newer instances: max LSN may stay below it until capture processes a commit."""
    of_table = visible_instances(session, (instance.source_schema, instance.source_table))
    starts = [other.start_lsn.decremented() for other in of_table if other.start_lsn is not None]
    return max((lsn for lsn in (reached, *starts) if lsn is not None), default=None)


_NOTHING_PURGED = timedelta(minutes=10)
"""Assumed maximum delay between the creation of an instance and its first retained change."""


def refuse_unretained(lowest: Lsn, *, position: Lsn, label: str) -> None:
    """Fail when CDC cleanup has purged changes just above ``position``.

    :param lowest: the low watermark, queried on this session.
    :raises RetentionGap: with the position, the low watermark and the remedy.
    """
    if not is_retained(position, lowest):
        raise RetentionGap(
            f"{label}: CDC cleanup has already purged changes after the snapshot's LSN {position} (oldest "
            f"retained: {lowest}); the snapshot cannot be continued. Nothing was committed. Start a new run; "
            "if reading takes longer than retention, raise it (sys.sp_cdc_change_job @job_type = 'cleanup', "
            "@retention = minutes) or load in chunks"
        )


def refuse_lost_changes(
    session: SourceSession, instance: CaptureInstance, *, state: BronzeState, label: str
) -> None:
    """Fail when changes just above bronze's position have been purged.

    The committed rows of a chunked snapshot stay valid, but the changes that would continue them are gone.

    :raises RetentionGap: with the position, the low watermark and the remedy.
    """
    lowest = low(session, instance)
    if state.coverage is not None and is_proven_gap(state.coverage, lowest):
        raise RetentionGap(
            f"{label}: CDC cleanup has already purged changes after {state.coverage.changes}, where the "
            f"changes in bronze end (oldest retained: {lowest}); they cannot be continued. Nothing was "
            "committed, and nothing that was loaded is lost. Take a new snapshot: resnapshot=True. Then run "
            "the changes operator next to the load, more often than retention, or raise retention "
            "(sys.sp_cdc_change_job @job_type = 'cleanup', @retention = minutes)"
        )


def headroom_hours(session: SourceSession, instance: CaptureInstance, *, position: Lsn) -> float | None:
    """Return how many hours of log cleanup would have to purge to reach ``position``.

    None while cleanup has purged nothing of this instance: its first purge lies in the future. Also None
    when the server does not provide the commit times.
    """
    lowest = low(session, instance)
    reached, kept_since = commit_time(session, position), commit_time(session, lowest)
    local = session.value(cdc.commit_time(lowest), doing="asking since when changes are kept")
    if reached is None or kept_since is None or local is None:
        return None
    # create_date is server-local time, like the commit times of the mapping.
    if datetime.fromisoformat(local) <= instance.create_date + _NOTHING_PURGED:
        return None
    return (reached - kept_since).total_seconds() / 3600


REMEDY = "mssql_cdc_bootstrap(resnapshot=True)"


def refuse_gap(run: ChangesRun, available: InstanceChanges, *, position: Lsn) -> None:
    """Fail when changes just above the position have been purged, and write a ``gap`` facts row.

    :param available: range of the instance to read, or just read, queried on this session.
    :raises RetentionGap: with the lost range and the remedy.
    """
    if available.continues(position):
        return
    if position != run.position:
        raise RetentionGap(
            f"{run.table.label}: CDC cleanup purged changes above {position} while they were read again (the "
            f"oldest retained is at {available.low}). Bronze is unchanged and still holds what was read"
        )
    _record_gap(run, available, position)
    raise RetentionGap(
        f"{run.table.label}: CDC cleanup has purged changes above {position}, or they were never "
        f"recorded: the oldest change of capture instance {available.instance.name} is at {available.low}. "
        f"Bronze keeps its position. Take a new snapshot, {REMEDY}; changes continue from it. If runs are "
        "further apart than retention, raise it: sys.sp_cdc_change_job @job_type = 'cleanup', "
        "@retention = minutes"
    )


def _record_gap(run: ChangesRun, available: InstanceChanges, position: Lsn) -> None:
    stamp = run.state.stamp
    lost_from = stamp.time if stamp is not None and stamp.lsn == position else None
    low_time = commit_time(run.session, available.low)
    row = FactsRow(
        event="gap",
        target=run.bronze.location.uri,
        capture_instance=available.instance.name,
        end_lsn=position,
        end_commit_ts=lost_from,
        max_lsn=available.low,
        max_commit_ts=low_time,
        lost_from_ts=lost_from or _known_time(run, position),
        lost_to_ts=low_time or available.instance.create_date.replace(tzinfo=UTC),
        detail={"position": position.text, "low": available.low.text, "remedy": REMEDY},
    )
    write_change_facts(run, row, identifier=facts_identifier(row.target, "gap", position))


def _known_time(run: ChangesRun, position: Lsn) -> datetime | None:
    """Return the position's commit time from the server or bronze; else the newest recorded below it."""
    stamp = run.state.stamp
    known = commit_time(run.session, position) or recorded_commit_time(run.bronze, position)
    return known or (None if stamp is None else stamp.time)
