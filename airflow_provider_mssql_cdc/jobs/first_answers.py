"""The first queries of a run of changes, in one round trip; a table without changes needs no further one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.jobs.guards import history_question, judge_history
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.transactions import read_horizon
from airflow_provider_mssql_cdc.model.capture import CaptureInstance, CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.windows import InstanceChanges, moves_without_rows
from airflow_provider_mssql_cdc.source.instances import instance_of
from airflow_provider_mssql_cdc.source.watermarks import (
    CaptureTrouble,
    capture_trouble,
    commit_time,
    low_of,
    stamp_of,
    time_of,
    zone_of,
)
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.change_source import ChangesRun
    from airflow_provider_mssql_cdc.source.session import Answer, SourceSession

_ASKING = "asking for what is new"


@dataclass(frozen=True, slots=True)
class FirstAnswers:
    """State of the server at the start of the run; all values come from one session.

    :param position: bronze's position; the other values describe what lies above it.
    :param position_time: commit time of the position; None when it has no entry in ``cdc.lsn_time_mapping``.
    :param available: LSN range that the configured instance can serve.
    :param is_quiet: the instance has no change in ``(position, available.captured]``, and none was purged
        there.
    :param newest: the newest entry that capture wrote.
    :param kept_since: commit time of the oldest retained change.
    :param trouble: problem with the capture job, if any.
    """

    position: Lsn
    position_time: datetime | None
    available: InstanceChanges
    is_quiet: bool
    newest: CommitStamp | None
    kept_since: datetime | None
    trouble: CaptureTrouble | None

    def has_nothing_up_to(self, bound: Lsn, *, position: Lsn) -> bool:
        """Return whether these answers prove that ``(position, bound]`` holds no change of the table."""
        captured = self.available.captured
        return self.is_quiet and position == self.position and captured is not None and bound <= captured


def ask_first(
    session: SourceSession, instance: CaptureInstance, *, bronze: Bronze, label: str
) -> FirstAnswers:
    """Query everything that a run without changes needs, in this order, outside any transaction.

    1. Whether bronze belongs to the server's history. A mismatch fails before anything else is decided.
    2. The newest capture entry, then max LSN: both are lower bounds for what capture has reached when the
       later queries run.
    3. Whether there is a change above the position. Capture writes change rows before the entry that raises
       ``max_lsn``, so all changes up to 2 are visible.
    4. Whether the change table is still the same, then its low watermark. Cleanup raises the watermark
       before it deletes rows: if the position is retained now, nothing was purged when 3 ran.

    :raises ReplicaBehind: the server is a replica that is behind bronze.
    :raises StateDamaged: the server has another history.
    :raises NotReadyYet: no low watermark is known.
    """
    coverage, zone = bronze.state.coverage, zone_of(session)
    assert coverage is not None
    position = coverage.changes
    question = history_question(session, instance, bronze=bronze)
    # The order of the list is the order of the docstring; do not sort it.
    history, newest, captured, changed, listed, low, time, kept = session.answers(
        [
            question.statement,
            cdc.newest_mapping(zone),
            cdc.max_lsn(),
            cdc.any_change(instance.name, after=position),
            cdc.instances((instance.source_schema, instance.source_table)),
            cdc.min_lsn(instance.name),
            cdc.commit_time(position, zone),
            cdc.first_mapping_kept(instance.name, zone),
        ],
        doing=_ASKING,
    )
    judge_history(session, instance, question, history, label=label)
    lowest, kept_from = low_of(session, instance, low.row["min_lsn"]), stamp_of(session, kept)
    available = InstanceChanges(instance, lowest, Lsn.from_server(captured.row["max_lsn"]))
    none_seen = changed.error is None and not changed.found
    return FirstAnswers(
        position=position,
        position_time=time_of(session, position, time),
        available=available,
        is_quiet=none_seen and _is_there(instance, listed) and available.continues(position),
        newest=stamp_of(session, newest),
        kept_since=None if kept_from is None else kept_from.time,
        trouble=capture_trouble(session, told=newest),
    )


def _is_there(instance: CaptureInstance, listed: Answer) -> bool:
    """Return whether the described instance still exists among those of its table."""
    if listed.error is not None:
        return False
    return any(instance_of(row).identity == instance.identity for row in listed.found)


def available_now(run: ChangesRun) -> InstanceChanges:
    """Return the LSN range of the configured instance; uses the first answers until the position moves."""
    if run.first is not None and run.first.position == run.position:
        return run.first.available
    return run.source.available()


def position_time(run: ChangesRun) -> datetime | None:
    """Return the commit time of the position; queries the server if neither the run nor bronze knows it."""
    if run.first is not None and run.first.position == run.position:
        return run.first.position_time
    stamp = run.state.stamp
    if stamp is not None and stamp.lsn == run.position:
        return stamp.time
    return commit_time(run.session, run.position)


def rests(run: ChangesRun, bound: Lsn) -> bool:
    """Return whether the first answers show that there is nothing to read and the position need not move.

    If it has to move, the run takes the normal path: it checks the columns and notices changes of the table.
    """
    first = run.first
    if first is None or not first.has_nothing_up_to(bound, position=run.position):
        return False
    if bound <= run.position:
        return True
    newest = first.newest
    return stays(run, newest if newest and newest.lsn == bound else stamp_at(run.session, bound))


def stays(run: ChangesRun, until: CommitStamp | None) -> bool:
    """Return whether the position stays unchanged when there is no change up to ``until``."""
    snapshot, stamp = run.bronze.state.snapshot, run.state.stamp
    return not moves_without_rows(
        run.position,
        until,
        stamp=stamp,
        horizon=None if snapshot is None else read_horizon(run.bronze.table, snapshot),
        quiet_seconds=run.request.quiet_seconds,
        kept_since=None if run.first is None else run.first.kept_since,
    )


def stamp_at(session: SourceSession, lsn: Lsn) -> CommitStamp | None:
    """Return the LSN with its commit time; None when it has no entry in ``cdc.lsn_time_mapping``."""
    time = commit_time(session, lsn)
    return None if time is None else CommitStamp(lsn, time)
