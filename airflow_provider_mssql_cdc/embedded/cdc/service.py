"""Change data capture of one engine: its log, its capture, its cleanup; registered on the engine's hooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from airflow_provider_mssql_cdc.embedded.cdc import functions, tracking
from airflow_provider_mssql_cdc.embedded.cdc import lsn as lsns
from airflow_provider_mssql_cdc.embedded.cdc.capture import (
    IDLE_TRANSACTION,
    Written,
    capture_commit,
    pending,
    queue_commit,
    write_mapping,
)
from airflow_provider_mssql_cdc.embedded.cdc.clock import ServerClock, to_ticks
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.images import CommandIds, KeyUpdates
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, find_instance, state_of
from airflow_provider_mssql_cdc.embedded.cdc.lsn import LogPosition
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction

CaptureMode = Literal["auto", "manual"]


class ChangeDataCapture:
    """Captures what the engine's sessions commit.

    ``capture_mode`` "auto" captures each commit together with it; "manual" only when ``capture`` is
    called, so that max_lsn lags behind the rows. ``running`` False is a stopped capture job: nothing is
    captured, whatever is called. ``key_updates`` says how an update of the clustering key is written: "pair"
    (1, 2), "images" (3, 4; trace flag 8207) or "inserts first" (2, then 1, as old builds did). ``commands``
    gives each row a command id of its own ("row"), or one to all rows of a statement ("statement").
    ``command_ids`` False makes new change tables without ``__$command_id``, as old builds do.
    """

    def __init__(self, engine: Engine, clock: ServerClock) -> None:
        self.engine, self.clock = engine, clock
        self.capture_mode: CaptureMode = "auto"
        self.running = True
        self.key_updates: KeyUpdates = "pair"
        self.commands: CommandIds = "row"
        self.command_ids = True
        self.retention = timedelta(minutes=4320)
        self._logs: dict[str, LogPosition] = {}
        engine.hooks.commit.append(self._on_commit)
        engine.hooks.drop_database.append(self.forget)

    def forget(self, database: str) -> None:
        """Find out again where the database's log goes on."""
        self._logs.pop(database.casefold(), None)

    def now_ticks(self) -> int:
        """The server's local time as ``datetime`` stores it."""
        return to_ticks(self.clock.local())

    def log(self, write: WriteTransaction, database: str) -> LogPosition:
        """Where the database's log goes on; found again from what it captured when the engine is new.

        Only for a holder of the database's writer lock.
        """
        position = self._logs.get(database.casefold())
        if position is None:
            position = self._logs[database.casefold()] = _recover(write)
        return position

    def capture(self, database: str, commits: int | None = None) -> int:
        """Carry queued commits (at most ``commits``, oldest first) into the change tables; how many."""
        if not self.running:
            return 0
        with self.engine.system_session(database) as session, session.write() as write:
            return self._drain(write, commits)

    def capture_everywhere(self) -> None:
        """Capture what waits in any database."""
        for name, _ in self.engine.databases_of():
            self.capture(name)

    def idle(self, database: str) -> bytes | None:
        """What the capture does on a quiet database about every five minutes: an entry without changes.

        Queued commits are captured first. None when the capture job is stopped.
        """
        if not self.running:
            return None
        with self.engine.system_session(database) as session, session.write() as write:
            self._drain(write, None)
            catalog = write.catalog()
            if not catalog.cdc_enabled:
                raise cdc_error(22901, database)
            log = self.log(write, database)
            entry = log.record()
            log.flush()
            now = self.now_ticks()
            write_mapping(write.connection, catalog, (entry, now, now, IDLE_TRANSACTION, lsns.ZERO))
            return entry

    def cleanup(
        self,
        database: str,
        instance: str | None = None,
        *,
        low_lsn: bytes | None = None,
        keep: timedelta | None = None,
        between: Callable[[], object] | None = None,
    ) -> bytes | None:
        """Raise low watermarks, call ``between``, then purge: two transactions, as SQL Server's job does.

        :param instance: one capture instance, or None for all of the database.
        :param low_lsn: the new low watermark; what is below it goes.
        :param keep: instead: keep the changes of the last ``keep`` (default: the job's retention).
        :return: the low watermark that was asked for; None when there was nothing to raise.
        """
        with self.engine.system_session(database) as session:
            with session.write() as write:
                if low_lsn is None:
                    low_lsn = self._low_by_time(write, self.retention if keep is None else keep)
                chosen = self._chosen(write, instance)
                if low_lsn is None or not chosen:
                    return None
                _raise_low(write, chosen, low_lsn)
            if between is not None:
                between()
            with session.write() as write:
                _purge(write, chosen)
        return low_lsn

    def _on_commit(self, session: Session, write: WriteTransaction) -> None:
        catalog = write.catalog()
        state = state_of(catalog)
        if not state.instances:
            return
        queued = queue_commit(
            write.connection,
            state,
            self.log(write, catalog.name),
            end_time=self.now_ticks(),
            transaction=session.transaction_number,
        )
        if queued and self.running and self.capture_mode == "auto":
            self._drain(write, None)

    def _drain(self, write: WriteTransaction, commits: int | None) -> int:
        catalog = write.catalog()
        if not catalog.cdc_enabled:
            return 0
        queue = pending(write.connection, commits)
        for commit in queue:
            written = Written(self.key_updates, self.commands)
            capture_commit(write.connection, catalog, commit, written=written)
        return len(queue)

    def _low_by_time(self, write: WriteTransaction, keep: timedelta) -> bytes | None:
        """The first entry within ``keep`` of the last one; the last one when all are older."""
        catalog = write.catalog()
        oldest = to_ticks(self.clock.local() - keep)
        within = functions.time_to_lsn(
            write.connection, catalog, relation="smallest greater than or equal", ticks=oldest
        )
        return within or functions.max_lsn(write.connection, catalog)

    def _chosen(self, write: WriteTransaction, instance: str | None) -> tuple[CaptureInstance, ...]:
        catalog = write.catalog()
        if instance is None:
            return state_of(catalog).instances
        found = find_instance(catalog, instance)
        if found is None:
            raise cdc_error(22920, instance, catalog.name)
        return (found,)


def _raise_low(write: WriteTransaction, instances: tuple[CaptureInstance, ...], low_lsn: bytes) -> None:
    catalog = write.catalog()
    newest = functions.max_lsn(write.connection, catalog)
    if newest is None or low_lsn > newest:
        raise cdc_error(
            22957, lsns.text(low_lsn), instances[0].name, lsns.text(lsns.ZERO), lsns.text(newest or lsns.ZERO)
        )
    tables = functions.storage(catalog, "change_tables")
    write.connection.executemany(
        f"UPDATE {tables} SET start_lsn = ?1 WHERE object_id = ?2 AND start_lsn < ?1",
        [(low_lsn, instance.object_id) for instance in instances],
    )


def _purge(write: WriteTransaction, instances: tuple[CaptureInstance, ...]) -> None:
    """Delete the change rows below each low watermark, and the entries below the lowest of all."""
    catalog = write.catalog()
    for instance in instances:
        low = functions.low_endpoint(write.connection, catalog, instance)
        table = functions.storage(catalog, instance.change_table)
        write.connection.execute(f'DELETE FROM {table} WHERE "__$start_lsn" < ?', (low,))
    lows = functions.storage(catalog, "change_tables")
    entries = functions.storage(catalog, "lsn_time_mapping")
    write.connection.execute(f"DELETE FROM {entries} WHERE start_lsn < (SELECT MIN(start_lsn) FROM {lows})")


def _recover(write: WriteTransaction) -> LogPosition:
    """Above every LSN that the database holds."""
    catalog = write.catalog()
    known = [instance.birth_lsn for instance in state_of(catalog).instances]
    known += [row[0] for row in write.connection.execute(f"SELECT start_lsn FROM {tracking.PENDING}")]
    newest = functions.max_lsn(write.connection, catalog)
    known += [newest] if newest else []
    position = LogPosition.at(max(known)) if known else LogPosition()
    if known:
        position.flush()
    return position
