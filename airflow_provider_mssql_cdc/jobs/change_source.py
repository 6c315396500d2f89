"""What one run of changes works on: its source on one session, its request, outcome and shared state."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import NotReadyYet, PreflightFailed, SourceObjectMissing
from airflow_provider_mssql_cdc.jobs.source_table import described_source, key_problems
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import (
    CaptureInstance,
    ChangeCounts,
    ChangesState,
    CommitStamp,
    InstanceMark,
    Window,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, StagedFile
from airflow_provider_mssql_cdc.model.source_table import Column, LakeColumn, PlannedColumn
from airflow_provider_mssql_cdc.model.state import Coverage, SourceIdentity
from airflow_provider_mssql_cdc.planning.keys import choose_key
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.planning.windows import DataInterval, InstanceChanges
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, described_columns
from airflow_provider_mssql_cdc.source.instances import refreshed, visible_instances
from airflow_provider_mssql_cdc.source.watermarks import low_and_captured
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.jobs.first_answers import FirstAnswers
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)


_COMMAND_ID = "__$command_id"


@dataclass(frozen=True, slots=True)
class RecordedColumns:
    """Describe the columns that one capture instance records, as its change table stores them.

    :param columns: planned as for a snapshot, so that a value is the same in snapshots and changes.
    :param recorded: (name, column id) of all of them, computed columns included.
    :param has_command_id: whether the change table has ``__$command_id``; old builds did not create it.
    """

    columns: tuple[PlannedColumn, ...]
    recorded: frozenset[tuple[str, int]]
    has_command_id: bool

    @property
    def lake_columns(self) -> tuple[LakeColumn, ...]:
        return tuple(column.lake for column in self.columns)


class ChangeSource:
    """Read one table's changes on one session; one object per run, so all answers come from one server."""

    def __init__(self, session: SourceSession, table: MssqlCdcTable) -> None:
        self.session, self.table = session, table
        self.description: SourceDescription = described_source(session, table)
        if problems := (*self.description.problems, *self._key_problems()):
            raise PreflightFailed(table.label, problems)
        self._recorded: dict[str, RecordedColumns] = {}
        self._siblings: tuple[CaptureInstance, ...] | None = None

    def _key_problems(self) -> tuple[str, ...]:
        """Check the key again: a cast added since the snapshot may map two keys of changes to one."""
        casts, allow = self.table.casts or {}, self.table.allow or ()
        key, _, _ = choose_key(self.description, self.table.key)
        planned = plan_columns(self.description.columns, casts, allow).columns
        return key_problems(self.description, planned, key or (), allow=allow)

    @property
    def instance(self) -> CaptureInstance:
        """Return the capture instance that the table names."""
        return self.description.instance

    @property
    def identity(self) -> SourceIdentity:
        source = self.description.table
        return SourceIdentity(
            conn_id=self.table.mssql_conn_id,
            database=source.database,
            schema=source.schema,
            table=source.name,
            object_id=source.object_id,
        )

    @property
    def siblings(self) -> tuple[CaptureInstance, ...]:
        """Return the table's other visible capture instances; queried once, on first use."""
        # No cached_property: before Python 3.12 one that waits for a server stops all threads that need it.
        if self._siblings is None:
            named = self.instance.source_schema, self.instance.source_table
            found = visible_instances(self.session, named)
            self._siblings = tuple(other for other in found if other.identity != self.instance.identity)
        return self._siblings

    def available(self, instance: CaptureInstance | None = None) -> InstanceChanges:
        """Return the LSN range that an instance can serve now; queries its low watermark again."""
        asked = instance or self.instance
        return InstanceChanges(asked, *low_and_captured(self.session, asked))

    def other_instances(self) -> list[InstanceChanges]:
        """Return the LSN ranges of the table's other instances, if the configured one is not sufficient.

        Instances that are not ready are skipped.
        """
        found = []
        for sibling in self.siblings:
            with contextlib.suppress(NotReadyYet):
                found.append(self.available(sibling))
        return found

    def still_there(self, instance: CaptureInstance) -> InstanceChanges:
        """Return the instance's LSN range after a read; checks that the change table is still the same.

        :raises NotReadyYet: the instance was dropped or recreated during the read.
        """
        try:
            return self.available(refreshed(self.session, instance))
        except SourceObjectMissing as exc:
            raise self._gone(instance) from exc

    def _gone(self, instance: CaptureInstance) -> NotReadyYet:
        return NotReadyYet(
            f"{self.table.label}: capture instance {instance.name} was dropped or created again while it was "
            "read; nothing of this window was committed. The next attempt uses the current instances"
        )

    def recorded(self, instance: CaptureInstance) -> RecordedColumns:
        """Return the columns that the instance records; queried once per instance.

        :raises PreflightFailed: a column cannot be planned.
        """
        if instance.identity not in self._recorded:
            self._recorded[instance.identity] = self._plan(instance)
        return self._recorded[instance.identity]

    def _plan(self, instance: CaptureInstance) -> RecordedColumns:
        ids = dict(self._recorded_ids(instance))
        stored = described_columns(self.session, instance.change_table_id)
        if not stored:  # every change table has technical columns
            raise self._gone(instance)
        source = {(column.name, column.column_id): column for column in self.description.columns}
        columns = [
            _as_recorded(column, source.get((column.name, ids[column.name])))
            for column in stored
            if column.name in ids
        ]
        known = {column.name.casefold() for column in columns}
        casts = {name: to for name, to in (self.table.casts or {}).items() if name.casefold() in known}
        allow = [name for name in self.table.allow or () if name.casefold() in known]
        plan = plan_columns(columns, casts, allow)
        if plan.problems:
            raise PreflightFailed(f"{self.table.label}, capture instance {instance.name},", plan.problems)
        return RecordedColumns(
            columns=plan.columns,
            recorded=frozenset(ids.items()),
            has_command_id=any(column.name == _COMMAND_ID for column in stored),
        )

    def _recorded_ids(self, instance: CaptureInstance) -> frozenset[tuple[str, int]]:
        if instance.identity == self.instance.identity:  # described already, on this session
            return self.description.recorded
        rows = self.session.rows(cdc.captured_columns(instance.name), doing="asking for captured columns")
        return frozenset((row["column_name"], int(row["column_id"])) for row in rows)


def _as_recorded(stored: Column, source: Column | None) -> Column:
    """Combine the change table's type with attributes of the source column; None: it was dropped."""
    if source is None:
        return stored
    facts: dict[str, Any] = {
        "computed": source.computed,
        "masked": source.masked,
        "encrypted": source.encrypted,
        "column_set": source.column_set,
    }
    return replace(stored, column_id=source.column_id, nullable=True, **facts)


def mark_of(instance: CaptureInstance) -> InstanceMark:
    """Return the identity of a capture instance that bronze stores after a read."""
    return InstanceMark(instance.change_table_id & 0xFFFFFFFF, instance.create_date)


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Hold the rows of a window as staged files, not yet visible to readers.

    :param window: the range that was read; it may end before the requested end.
    :param until: the commit at its end with its time; None when it has no entry in ``cdc.lsn_time_mapping``.
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
    """Combine two adjacent windows into one."""
    return replace(
        other,
        window=Window(one.window.after, other.window.until),
        files=one.files + other.files,
        counts=one.counts.plus(other.counts),
        read_seconds=one.read_seconds + other.read_seconds,
        read_mb=one.read_mb + other.read_mb,
    )


WINDOW_COMMITS = 100_000
"""Default maximum of database commits per window."""

QUIET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """Parameters of one run of changes.

    :param interval: the run's data interval; None for a run without one.
    :param to_interval_end: read up to the interval's end, and repair an interval that was read before,
        instead of reading up to what capture has processed.
    :param start_now: without coverage, start it at the LSN that capture has reached.
    :param max_commits: database commits per window, and so per Delta commit; None for no limit.
    :param accept_nulls: add columns that bronze lacks, with NULL in existing rows.
    :param quiet_seconds: advance the position without rows once its commit time is this old, or older than a
        quarter of the retention period.
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
class ChangesDone:
    """Result of one run of changes.

    :param event: ``changes`` or ``repair``.
    :param after: the position before the run, or the start of the repaired window.
    :param until: the position after the run, or the end of the repaired window.
    :param windows: number of Delta commits.
    :param until_ts: commit time of ``until`` (UTC); None when it has no entry in ``cdc.lsn_time_mapping``.
    :param notes: messages for the user, one sentence each.
    :param version: bronze version at the end of the run.
    :param committed: whether this Airflow run committed rows to bronze, in this try or an earlier one.
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
        """Return JSON types; times are ISO 8601 in UTC."""
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
    """State of one run: its request, session and bronze handle, which is reloaded after each commit."""

    request: ChangesRequest
    session: SourceSession
    source: ChangeSource
    bronze: Bronze
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    first: FirstAnswers | None = None
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
        """Add a sentence to the outcome and log it; use INFO when no action is needed."""
        if sentence not in self.notes:
            self.notes.append(sentence)
            log.log(level, "%s: %s", self.table.label, sentence)
