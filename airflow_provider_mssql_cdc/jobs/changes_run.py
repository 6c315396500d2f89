"""A run of changes: request, outcome, rows of a window, and what its steps share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.jobs.change_source import ChangeSource
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import ChangeCounts, ChangesState, CommitStamp, Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.staged import StagedFile
from airflow_provider_mssql_cdc.model.state import Coverage
from airflow_provider_mssql_cdc.planning.windows import DataInterval
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of a window as files that nobody sees yet.

    :param window: what was read; it may end earlier than asked for.
    :param until: the commit at its end with its time; None where that is no mapped commit.
    """

    window: Window
    instance: CaptureInstance
    files: tuple[StagedFile, ...]
    counts: ChangeCounts
    until: CommitStamp | None
    batch: int
    read_seconds: float = 0.0
    read_mb: float = 0.0


def merged(one: WindowRows, other: WindowRows) -> WindowRows:
    """Two windows that touch, as one."""
    return replace(
        other,
        window=Window(one.window.after, other.window.until),
        files=one.files + other.files,
        counts=one.counts.plus(other.counts),
        read_seconds=one.read_seconds + other.read_seconds,
        read_mb=one.read_mb + other.read_mb,
    )


log = logging.getLogger(__name__)

WINDOW_COMMITS = 100_000
"""Commits of the database after which a window ends when nothing else is asked for."""

QUIET_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """What a run of changes is asked for.

    :param interval: the run's data interval; None in a run without one.
    :param to_interval_end: read up to the interval's end, and repair one that has been read, instead of
        reading up to what capture has reached.
    :param start_now: where there is no coverage let it begin at what capture has reached.
    :param max_commits: commits of the database per window, and so per Delta commit; None leaves it open.
    :param accept_nulls: columns that bronze does not have are added, NULL in the rows so far.
    :param quiet_seconds: a position is moved without rows when its commit time is this much older.
    """

    table: MssqlCdcTable
    attempt: Attempt
    interval: DataInterval | None = None
    to_interval_end: bool = False
    start_now: bool = False
    max_commits: int | None = None
    accept_nulls: bool = False
    quiet_seconds: float = QUIET_SECONDS


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing was done and nothing is wrong: why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Capture has not passed this instant; ``reason`` tells how far it is."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class ChangesDone:
    """What a run did.

    :param event: ``changes`` or ``repair``.
    :param after: where the position was, or the repaired window begins.
    :param until: where it is now, or the repaired window ends.
    :param windows: Delta commits.
    :param until_ts: commit time of ``until`` (UTC), None where it is no mapped commit.
    :param notes: what a person should know, one sentence each.
    :param version: of bronze, when the run was over.
    :param committed: this Airflow run has put rows into bronze, in this try or an earlier one.
    """

    event: str
    after: Lsn
    until: Lsn
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    windows: int = 0
    until_ts: datetime | None = None
    notes: tuple[str, ...] = ()
    version: int | None = None
    committed: bool = False

    def to_xcom(self) -> dict[str, Any]:
        """JSON types; times are ISO 8601 in UTC."""
        return {
            "event": self.event,
            "after": self.after.text,
            "until": self.until.text,
            "until_ts": None if self.until_ts is None else self.until_ts.isoformat(),
            "rows": self.counts.rows,
            "deletes": self.counts.deletes,
            "inserts": self.counts.inserts,
            "updates": self.counts.updates,
            "windows": self.windows,
            "version": self.version,
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class ChangesRun:
    """One run: a request, one session, and the handle on bronze that is reloaded after each commit."""

    request: ChangesRequest
    session: SourceSession
    source: ChangeSource
    bronze: Bronze
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    notes: list[str] = field(default_factory=list)
    judged: set[str] = field(default_factory=set)

    @property
    def table(self) -> MssqlCdcTable:
        return self.request.table

    @property
    def coverage(self) -> Coverage:
        coverage = self.bronze.state.coverage
        if coverage is None:
            raise NotReadyYet(
                f"{self.bronze.location} has no coverage any more; the next attempt looks again"
            )
        return coverage

    @property
    def position(self) -> Lsn:
        return self.coverage.changes

    @property
    def state(self) -> ChangesState:
        return read_changes_state(self.bronze.table)

    def note(self, sentence: str, *, level: int = logging.WARNING) -> None:
        """Keep a sentence for the outcome, and log it now: what nothing needs to be done about as INFO."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            log.log(level, "%s: %s", self.table.label, sentence)
