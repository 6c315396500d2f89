"""Run a job for each table of a task, concurrently on request; a failed table does not stop the others."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.database import DatabaseTable, MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import (
    ConnectionBroken,
    LoginFailed,
    MssqlCdcError,
    ServerUnreachable,
)
from airflow_provider_mssql_cdc.jobs.task import storage_failed
from airflow_provider_mssql_cdc.model.database_items import (
    Announcement,
    PackOutcome,
    TableFailure,
    TableRef,
)
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.source.gathered import SourceName, gather_ahead
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.task_memory import shared_by

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect, TaskSessions

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Done:
    """Work already done for one table; it is kept when a later step fails.

    :param told: values for the result; JSON types.
    """

    told: dict[str, Any] = field(default_factory=dict)
    announcements: list[Announcement] = field(default_factory=list)

    def committed(self, uri: str, extra: Mapping[str, Any]) -> None:
        self.announcements.append(Announcement(canonical_uri(uri), extra))


Job = Callable[["Worker", DatabaseTable, TableRef, Done], None]
"""The work at one table of a pack."""


ASKED_AHEAD = 25
"""Tables per catalog query of ``follow``; the answers expire after a minute."""

_ALL_TABLES_SHARE = (ServerUnreachable, LoginFailed)
"""Errors that end the task's loop: every further table would fail after the same timeout."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Resources shared by the jobs of one task.

    :param sessions: returns the calling thread's session for an isolation level; sessions are reused.
    :param with_storage: returns a table with the options of its object store.
    :param tables_at_once: number of tables processed concurrently, each on its own session.
    """

    database: MssqlCdcDatabase
    attempt: Attempt
    sessions: TaskSessions
    with_storage: Callable[[MssqlCdcTable], MssqlCdcTable]
    tables_at_once: int = 1

    def table_of(self, ref: TableRef) -> DatabaseTable:
        return self.with_options(self.database.table_of(ref.name, ref.instance))

    def with_options(self, one: DatabaseTable) -> DatabaseTable:
        return replace(one, table=self.with_storage(one.table))

    def connect(self, one: DatabaseTable) -> Connect:
        return self.sessions(one.table.isolation)

    def ask_ahead(self, refs: Iterable[TableRef]) -> None:
        """Prefetch catalog answers for many tables at once. Errors are ignored: each job queries again."""
        by_isolation: dict[str | None, list[SourceName]] = {}
        try:
            for table in (self.database.table_of(ref.name, ref.instance).table for ref in refs):
                name = SourceName(table.capture_instance, table.source)
                by_isolation.setdefault(table.isolation, []).append(name)
            for isolation, names in by_isolation.items():
                with self.sessions(isolation)() as session:
                    gather_ahead(session, names)
        except MssqlCdcError as exc:
            log.debug("prefetch failed, tables are queried one by one: %s", exc)


def each_table(
    worker: Worker, tables: Iterable[TableRef], job: Job, *, ahead: int | None = None
) -> PackOutcome:
    """Run the job for every table; a failed table does not prevent the others.

    :param ahead: tables per catalog prefetch; None to let each job query its own table.
    """
    refs = list(tables)
    threads = min(worker.tables_at_once, len(refs))
    turns = _Turns(worker, job, refs, ahead=ahead, threads=threads)
    if threads <= 1:
        turns.take()
    else:
        _at_once(turns, threads)
    return turns.outcome()


def _at_once(turns: _Turns, threads: int) -> None:
    """Run the jobs on several threads.

    Python runs signal handlers on the main thread only, so that thread just waits. When the wait is
    interrupted (``execution_timeout`` raises from the handler), it cancels the sessions, which ends the
    threads.
    """
    sessions = turns.worker.sessions
    with (
        shared_by(threads, has_ended=lambda: sessions.cancelled),
        ThreadPoolExecutor(threads, "tables") as pool,
    ):
        try:
            # A new thread has none of the caller's context variables, such as the buffer of facts_together.
            # Python runs signal handlers in the main thread only (Python docs, "signal", Signals and
            # threads).
            running = [pool.submit(contextvars.copy_context().run, turns.take) for _ in range(threads)]
            for one in running:
                one.result()
        except BaseException:
            sessions.cancel()
            raise


class _Turns:
    """Queue of the tables still to process, and the outcomes so far; thread-safe."""

    def __init__(
        self, worker: Worker, job: Job, refs: Sequence[TableRef], *, ahead: int | None, threads: int
    ) -> None:
        self.worker, self._job, self._refs, self._ahead = worker, job, refs, ahead
        # Where threads share the tables no thread takes many at once: the others would be done long before.
        size = 1 if not ahead else max(1, min(ahead, len(refs) // (4 * threads) if threads > 1 else ahead))
        self._left = deque(refs[at : at + size] for at in range(0, len(refs), size))
        self._done: dict[str, Done] = {}
        self._failed: dict[str, TableFailure] = {}
        self._shared: TableFailure | None = None

    def take(self) -> None:
        """Process tables until the queue is empty; runs on any thread."""
        for part in self._parts():
            if self._ahead and self._not_worth_trying() is None:
                self.worker.ask_ahead(part)
            for ref in part:
                self._take_one(ref)

    def outcome(self) -> PackOutcome:
        """Return the outcomes in the order of the plan, independent of completion order."""
        outcome = PackOutcome()
        for ref in self._refs:
            done = self._done.get(ref.name, Done())
            if done.told:
                outcome.tables[ref.name] = done.told
            if ref.name in self._failed:
                outcome.failures[ref.name] = self._failed[ref.name]
            outcome.announcements += done.announcements
        return outcome

    def _parts(self) -> Iterator[Sequence[TableRef]]:
        with contextlib.suppress(IndexError):
            while True:
                yield self._left.popleft()

    def _take_one(self, ref: TableRef) -> None:
        if (failure := self._not_worth_trying()) is not None:
            self._failed[ref.name] = failure
            return
        done = self._done[ref.name] = Done()
        try:
            self._job(self.worker, self.worker.table_of(ref), ref, done)
        except Exception as exc:  # noqa: BLE001 - any failure must leave the next table its turn
            failure = self._failed[ref.name] = failure_of(ref.name, exc)
            if isinstance(exc, _ALL_TABLES_SHARE):
                self._shared = failure

    def _not_worth_trying(self) -> TableFailure | None:
        if self.worker.sessions.cancelled:
            return TableFailure.of(ConnectionBroken("the task was killed before this table's turn"))
        return self._shared


def failure_of(name: str, exc: Exception) -> TableFailure:
    """Log the error and return it in the form that ``report`` prints."""
    if isinstance(exc, OSError):
        exc = storage_failed(name, exc)
    failure = TableFailure.of(exc)
    log.error("%s: %s: %s", name, failure.error, failure.message)
    if not isinstance(exc, MssqlCdcError):  # not foreseen: the frames say more than the message
        log.error("%s: where it failed", name, exc_info=exc)
    return failure
