"""What bronze's log and rows record about snapshots and changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.arrow_types import one_text
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import query, stored_files
from airflow_provider_mssql_cdc.lake.log import (
    EVENT_KEY,
)
from airflow_provider_mssql_cdc.lake.storage import TableStorage, file_batches, may_hold_snapshot
from airflow_provider_mssql_cdc.model.capture import ChangeCounts, Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn

SnapshotEvent = Literal["bootstrap", "resnapshot", "fold"]

_COMMITS_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot in bronze.

    :param version: the commit that completed it; this handle's version if the log was cleaned up.
    :param commit_ts: UTC; None when unknown.
    :param event: its commit's event; ``bootstrap`` if the log was cleaned up, ``fold`` if it was made from
        an older one.
    """

    snapshot: Lsn
    rows: int
    version: int
    commit_ts: datetime | None
    event: SnapshotEvent


def stored_snapshot(bronze: Bronze, snapshot: Lsn) -> StoredSnapshot:
    """Return rows from statistics, or counted in mixed files; version and time from the log if available."""
    rows = _rows_by_statistics(bronze, snapshot)
    commit = _commit_of(bronze, snapshot)
    return StoredSnapshot(
        snapshot=snapshot,
        rows=_rows_counted(bronze, snapshot) if rows is None else rows,
        version=bronze.version if commit is None else int(commit["version"]),
        commit_ts=_stamped_time(bronze, snapshot) if commit is None else _logged_time(commit),
        event=_event_of(bronze, commit),
    )


def _event_of(bronze: Bronze, commit: dict[str, Any] | None) -> SnapshotEvent:
    if bronze.fold is not None:
        return "fold"
    return "resnapshot" if commit is not None and commit["event"] == "resnapshot" else "bootstrap"


def _rows_by_statistics(bronze: Bronze, snapshot: Lsn) -> int | None:
    """Return the row count; None when a file mixes this snapshot's rows with others or has no statistics."""
    total = 0
    for file in stored_files(bronze.table, ("_snapshot",)):
        nulls = file.nulls.get("_snapshot")
        if file.records is None or nulls is None:
            return None
        if nulls == file.records or not may_hold_snapshot(file.bounds, snapshot):
            continue
        if nulls or file.bounds.get("_snapshot") != (snapshot.text, snapshot.text):
            return None
        total += file.records
    return total


def _rows_counted(bronze: Bronze, snapshot: Lsn) -> int:
    where = f'"_snapshot" = \'{snapshot.text}\' AND "_operation" = 0'
    return int(query(bronze.table, f"SELECT count(*) AS n FROM stored WHERE {where}")[0]["n"])


def _stamped_time(bronze: Bronze, snapshot: Lsn) -> datetime | None:
    where = f'"_start_lsn" = \'{snapshot.text}\' AND "_operation" = 0'
    found = query(bronze.table, f'SELECT "_commit_ts" AS t FROM stored WHERE {where} LIMIT 1')
    time: datetime | None = found[0]["t"] if found else None
    return None if time is None else time.replace(tzinfo=UTC)


def _commit_of(bronze: Bronze, snapshot: Lsn) -> dict[str, Any] | None:
    for commit in bronze.table.history(_COMMITS_SEARCHED):
        described = _described(commit)
        if described.get("lsn") == snapshot.text and "snapshot" in described:
            return {**described, "version": commit["version"], "event": commit.get(EVENT_KEY)}
    return None


def _described(commit: dict[str, Any]) -> dict[str, Any]:
    try:
        described = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}


def _logged_time(commit: dict[str, Any]) -> datetime | None:
    text = commit.get("commit_ts")
    return datetime.fromisoformat(text) if text else None


_CHANGE_COMMITS_SEARCHED = 200
_CHANGE_EVENTS: tuple[Event, ...] = ("changes", "repair")


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """A commit of changes, as described in the log."""

    event: Event
    window: Window
    instance: str
    batch: int


def recorded_commit_time(bronze: Bronze, lsn: Lsn) -> datetime | None:
    """Return the commit time (UTC) recorded with some row of this LSN; None when there is no such row.

    Every run of changes calls it, so it reads the files that may contain the LSN, by the statistics of log
    and footers. A query would use delta-rs' engine, which takes 25 MB before it reads a row.
    """
    storage, columns = TableStorage(bronze.location), pa.schema([bronze.schema.field(n) for n in _STAMPED])
    for file in stored_files(bronze.table, _STAMPED[:1]):
        if not _may_hold(file.bounds, lsn):
            continue
        for batch in file_batches(storage, file.path, columns, wanted=lambda bounds: _may_hold(bounds, lsn)):
            found = pc.index(batch.column("_start_lsn"), one_text(lsn.text)[0]).as_py()
            if found >= 0:
                time: datetime | None = batch.column("_commit_ts")[found].as_py()
                return None if time is None else time.replace(tzinfo=UTC)
    return None


_STAMPED = ("_start_lsn", "_commit_ts")


def _may_hold(bounds: Mapping[str, tuple[Any, Any]], lsn: Lsn) -> bool:
    low, high = bounds.get("_start_lsn", (None, None))
    return low is None or high is None or low <= lsn.text <= high


def newest_lsn_beside_changes(bronze: Bronze, position: Lsn) -> Lsn | None:
    """Return the largest LSN up to the position in files with changes, from statistics only.

    After an OPTIMIZE it may come from snapshot rows in the same file. Files that reach above the position,
    such as rows of a chunked snapshot, and files without statistics are ignored.
    """
    files = stored_files(bronze.table, ("_start_lsn", "_snapshot"))
    highs = [
        file.bounds["_start_lsn"][1]
        for file in files
        if "_start_lsn" in file.bounds and file.nulls.get("_snapshot")
    ]
    highs = [high for high in highs if high <= position.text]
    return Lsn.parse(max(highs)) if highs else None


def newest_change_commit(bronze: Bronze, batch: int) -> StoredCommit | None:
    """Return the commit with this number; None when the log no longer has it."""
    for commit in bronze.table.history(_CHANGE_COMMITS_SEARCHED):
        said = _described(commit)
        if commit.get(EVENT_KEY) in _CHANGE_EVENTS and said.get("batch") == batch:
            window = Window(Lsn.parse(said["after"]), Lsn.parse(said["until"]))
            return StoredCommit(commit[EVENT_KEY], window, said["capture_instance"], batch)
    return None


def counts_of_batch(bronze: Bronze, batch: int) -> ChangeCounts:
    """Count the rows of this batch number; a later repair may have replaced some."""
    counted = query(
        bronze.table,
        'SELECT "_operation" AS o, count(*) AS n, min("_start_lsn") AS low, max("_start_lsn") AS high '
        f'FROM stored WHERE "_batch_id" = {int(batch)} GROUP BY "_operation"',
    )
    numbers = {row["o"]: row["n"] for row in counted}
    return ChangeCounts(
        rows=sum(numbers.values()),
        deletes=numbers.get(1, 0),
        inserts=numbers.get(2, 0),
        updates=numbers.get(4, 0),
        min_lsn=min((Lsn.parse(row["low"]) for row in counted), default=None),
        max_lsn=max((Lsn.parse(row["high"]) for row in counted), default=None),
    )


def change_metadata(window: Window, *, instance: str, batch: int, rows: int, run_id: str) -> dict[str, Any]:
    """Return what a commit of changes records in the log, also for rebuilding a missing facts row."""
    return {
        "capture_instance": instance,
        "after": window.after.text,
        "until": window.until.text,
        "batch": batch,
        "rows": rows,
        "run_id": run_id,
    }
