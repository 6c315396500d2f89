"""What a run of changes asks first, in one round trip; a table without changes needs no other."""

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
    """How the server stood when the run began, all of it from one session.

    :param position: that bronze had; the other answers are about what lies above it.
    :param position_time: commit time of the position; None where it is not a mapped commit.
    :param available: what the configured instance can give.
    :param is_quiet: it has no change in ``(position, available.captured]``, and none was purged from there.
    :param newest: the newest entry that capture wrote.
    :param kept_since: commit time of the oldest change that is kept.
    :param trouble: what is wrong with capture.
    """

    position: Lsn
    position_time: datetime | None
    available: InstanceChanges
    is_quiet: bool
    newest: CommitStamp | None
    kept_since: datetime | None
    trouble: CaptureTrouble | None

    def has_nothing_up_to(self, bound: Lsn, *, position: Lsn) -> bool:
        """Whether these answers prove that ``(position, bound]`` holds no change of the table."""
        captured = self.available.captured
        return self.is_quiet and position == self.position and captured is not None and bound <= captured


def ask_first(
    session: SourceSession, instance: CaptureInstance, *, bronze: Bronze, label: str
) -> FirstAnswers:
    """Ask everything that a run without changes needs to know, in this order, outside any transaction.

    1. Whether the server's history is bronze's: fails before anything else is concluded.
    2. What capture wrote last, then how far it has come: both are lower bounds of what it has reached when
       the rest is asked.
    3. Whether there is a change above the position. Capture writes changes before the entry that lets
       ``max_lsn`` reach them, so all up to 2 are there to be seen.
    4. Whether it is still the same change table, then its low end. Cleanup raises that before it deletes:
       where the position is retained now, nothing was purged when 3 was asked.

    :raises ReplicaBehind: the server is a replica that is behind bronze.
    :raises StateDamaged: another history is proven.
    :raises NotReadyYet: no low watermark is known.
    """
    coverage, zone = bronze.state.coverage, zone_of(session)
    assert coverage is not None
    position = coverage.changes
    question = history_question(session, instance, bronze=bronze)
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
    """Whether the instance that was described is among those of its table."""
    if listed.error is not None:
        return False
    return any(instance_of(row).identity == instance.identity for row in listed.found)


def available_now(run: ChangesRun) -> InstanceChanges:
    """What the configured instance can give; as it was asked first, until the position moves."""
    if run.first is not None and run.first.position == run.position:
        return run.first.available
    return run.source.available()


def position_time(run: ChangesRun) -> datetime | None:
    """The commit time of the position, asked for where neither the run nor bronze knows it."""
    if run.first is not None and run.first.position == run.position:
        return run.first.position_time
    stamp = run.state.stamp
    if stamp is not None and stamp.lsn == run.position:
        return stamp.time
    return commit_time(run.session, run.position)


def rests(run: ChangesRun, bound: Lsn) -> bool:
    """Whether the first answers show that there is nothing to read, and the position need not move.

    One that has to move takes the way of rows: the columns are looked at, and a change of the table noticed.
    """
    first = run.first
    if first is None or not first.has_nothing_up_to(bound, position=run.position):
        return False
    if bound <= run.position:
        return True
    newest = first.newest
    return stays(run, newest if newest and newest.lsn == bound else stamp_at(run.session, bound))


def stays(run: ChangesRun, until: CommitStamp | None) -> bool:
    """Whether a position stays where it is when there is no change up to ``until``."""
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
    """The LSN with its commit time; None where it is not a mapped commit."""
    time = commit_time(session, lsn)
    return None if time is None else CommitStamp(lsn, time)
