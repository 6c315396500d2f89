"""The capture: a commit is queued under its LSN, then carried from the stages into the change tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_mssql_cdc.embedded.cdc import tracking
from airflow_provider_mssql_cdc.embedded.cdc.images import CommandIds, KeyUpdates, RowChange, change_rows
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, CdcState, Clustering, state_of
from airflow_provider_mssql_cdc.embedded.cdc.lsn import LogPosition
from airflow_provider_mssql_cdc.embedded.cdc.tracking import staged_ids
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog

IDLE_TRANSACTION = b"\x00"


@dataclass(frozen=True, slots=True)
class Written:
    """How the capture writes what the log leaves open."""

    key_updates: KeyUpdates = "pair"
    commands: CommandIds = "row"


@dataclass(frozen=True, slots=True)
class Pending:
    """The rows of one table that one commit changed: those after ``first`` up to ``last`` of its stage."""

    start_lsn: bytes
    object_id: int
    first: int
    last: int
    begin_lsn: bytes
    end_time: int
    transaction: int


def touched(connection: sqlite3.Connection, state: CdcState) -> list[tuple[int, int, int]]:
    """What the open transaction staged: (object id, rows up to here are older, last row)."""
    found = []
    for object_id in state.tracked():
        (last,) = connection.execute(
            f"SELECT COALESCE(MAX(row), 0) FROM {tracking.stage_name(object_id)}"
        ).fetchone()
        (seen,) = connection.execute(
            f"SELECT COALESCE(MAX(last_row), 0) FROM {tracking.PENDING} WHERE object_id = ?", (object_id,)
        ).fetchone()
        if last > seen:
            found.append((object_id, seen, last))
    return found


def queue_commit(
    connection: sqlite3.Connection, state: CdcState, log: LogPosition, *, end_time: int, transaction: int
) -> bool:
    """Give the open transaction its LSNs and queue it; False when it changed no tracked table."""
    tables = touched(connection, state)
    if not tables:
        return False
    begin_lsn = log.record()
    log.skip(sum(2 * (last - first) for _, first, last in tables))
    start_lsn = log.record()
    log.flush()
    connection.executemany(
        f"INSERT INTO {tracking.PENDING} VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(start_lsn, oid, first, last, begin_lsn, end_time, transaction) for oid, first, last in tables],
    )
    return True


def pending(connection: sqlite3.Connection, commits: int | None = None) -> list[list[Pending]]:
    """The queue, oldest commit first; at most ``commits`` of them."""
    queue: list[list[Pending]] = []
    for row in connection.execute(f"SELECT * FROM {tracking.PENDING} ORDER BY start_lsn, object_id"):
        change = Pending(*row)
        if queue and queue[-1][0].start_lsn == change.start_lsn:
            queue[-1].append(change)
        elif len(queue) == commits:
            break
        else:
            queue.append([change])
    return queue


def capture_commit(
    connection: sqlite3.Connection, catalog: Catalog, commit: list[Pending], *, written: Written
) -> None:
    """Write one commit's change rows and its entry in lsn_time_mapping, and take it off the queue."""
    log = LogPosition.at(commit[0].begin_lsn)
    log.record()
    for change in commit:
        # Each instance reads the same log records: a row change has one seqval, whoever captures it.
        for instance in state_of(catalog).of_table(change.object_id):
            if instance.birth_lsn <= change.start_lsn:
                _capture(connection, catalog, instance, change=change, log=replace(log), written=written)
        log.skip(2 * (change.last - change.first))
        connection.execute(
            f"DELETE FROM {tracking.stage_name(change.object_id)} WHERE row <= ?", (change.last,)
        )
    head = commit[0]
    number = head.transaction.to_bytes(6, "big")
    write_mapping(connection, catalog, (head.start_lsn, head.end_time, head.end_time, number, head.begin_lsn))
    connection.execute(f"DELETE FROM {tracking.PENDING} WHERE start_lsn = ?", (head.start_lsn,))


def _capture(
    connection: sqlite3.Connection,
    catalog: Catalog,
    instance: CaptureInstance,
    *,
    change: Pending,
    log: LogPosition,
    written: Written,
) -> None:
    column_ids = staged_ids(connection, change.object_id)
    clustering = Clustering.of(catalog.by_id(change.object_id))
    rows = change_rows(
        _changes(connection, change, column_ids, log=log),
        instance.shape(column_ids, clustering),
        start_lsn=change.start_lsn,
        key_updates=written.key_updates,
        commands=written.commands,
        moving=_moving(connection, change, clustering, column_ids=column_ids),
    )
    target = catalog.require(("cdc", instance.change_table))
    width = len(target.columns)
    if not instance.command_ids:
        rows = (row[:-1] for row in rows)
    marks = ", ".join("?" * width)
    connection.executemany(f"INSERT INTO {tracking.quote(target.storage)} VALUES ({marks})", rows)


def _moving(
    connection: sqlite3.Connection, change: Pending, clustering: Clustering, *, column_ids: list[int]
) -> set[int]:
    key = [i for i in clustering.column_ids if i in column_ids]
    query = tracking.select_moving(change.object_id, key)
    return {row[0] for row in connection.execute(query, (change.first, change.last))}


def _changes(
    connection: sqlite3.Connection, change: Pending, column_ids: list[int], *, log: LogPosition
) -> Iterator[RowChange]:
    width = len(column_ids)
    cursor = connection.execute(
        tracking.select_changes(change.object_id, column_ids), (change.first, change.last)
    )
    for row in cursor:
        old, new = row[2 : 2 + width], row[2 + width :]
        yield RowChange(row[0], row[1], old, new, log.record(), log.record())


def write_mapping(connection: sqlite3.Connection, catalog: Catalog, entry: tuple[Any, ...]) -> None:
    """Add an entry to cdc.lsn_time_mapping."""
    name = catalog.require(("cdc", "lsn_time_mapping")).storage
    connection.execute(f"INSERT INTO {tracking.quote(name)} VALUES (?, ?, ?, ?, ?)", entry)
