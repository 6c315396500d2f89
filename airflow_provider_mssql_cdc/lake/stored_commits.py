"""What bronze's commits say of snapshots, changes and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import unquote

from airflow_provider_mssql_cdc.lake.arrays import read_all
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import query
from airflow_provider_mssql_cdc.lake.log import (
    EVENT_KEY,
    Thinned,
    commit_actions,
    first_removal,
    removes_rows,
)
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.capture import ChangeCounts, Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn

SnapshotEvent = Literal["bootstrap", "resnapshot"]

_COMMITS_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot in bronze.

    :param version: the commit that made it complete; where the log has forgotten, the version looked at.
    :param commit_ts: UTC; None where it is unknown, to the server or by now.
    :param event: how its commit named it; ``bootstrap`` where the log has forgotten.
    """

    snapshot: Lsn
    rows: int
    version: int
    commit_ts: datetime | None
    event: SnapshotEvent


def stored_snapshot(bronze: Bronze, snapshot: Lsn) -> StoredSnapshot:
    """Rows from statistics, or counted where files are mixed; version and time from the log if it reaches."""
    rows = _rows_by_statistics(bronze, snapshot)
    commit = _commit_of(bronze, snapshot)
    return StoredSnapshot(
        snapshot=snapshot,
        rows=_rows_counted(bronze, snapshot) if rows is None else rows,
        version=bronze.version if commit is None else int(commit["version"]),
        commit_ts=_stamped_time(bronze, snapshot) if commit is None else _logged_time(commit),
        event="resnapshot" if commit is not None and commit["event"] == "resnapshot" else "bootstrap",
    )


def _rows_by_statistics(bronze: Bronze, snapshot: Lsn) -> int | None:
    """None when a file holds rows of this snapshot beside others, or says nothing."""
    actions = read_all(bronze.table.get_add_actions(flatten=True))
    needed = ("num_records", "min._snapshot", "max._snapshot", "null_count._snapshot")
    if not set(needed) <= set(actions.column_names):
        return 0 if actions.num_rows == 0 else None
    total = 0
    for records, low, high, nulls in zip(*(actions.column(name).to_pylist() for name in needed), strict=True):
        if records is None or nulls is None:
            return None
        if nulls == records or (low is not None and high is not None and not low <= snapshot.text <= high):
            continue
        if nulls or low != snapshot.text or high != snapshot.text:
            return None
        total += records
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
    """A commit of changes as the log and the rows tell of it."""

    event: Event
    window: Window
    instance: str
    batch: int


def recorded_commit_time(bronze: Bronze, lsn: Lsn) -> datetime | None:
    """The commit time (UTC) that some row of this LSN carries; None when there is no such row."""
    rows = query(
        bronze.table, f'SELECT "_commit_ts" AS t FROM stored WHERE "_start_lsn" = \'{lsn.text}\' LIMIT 1'
    )
    found: datetime | None = rows[0]["t"] if rows else None
    return None if found is None else found.replace(tzinfo=UTC)


def newest_lsn_beside_changes(bronze: Bronze, position: Lsn) -> Lsn | None:
    """The largest LSN at or below the position of any file that holds changes; by statistics, no row is read.

    Where an OPTIMIZE has put snapshot rows into the same file it may be theirs. A file that reaches above
    the position, as rows of a chunked snapshot may, and one without statistics say nothing.
    """
    actions = read_all(bronze.table.get_add_actions(flatten=True))
    needed = ("max._start_lsn", "null_count._snapshot")
    if not set(needed) <= set(actions.column_names):
        return None
    files = zip(*(actions.column(name).to_pylist() for name in needed), strict=True)
    highs = [high for high, nulls in files if high is not None and nulls and high <= position.text]
    return Lsn.parse(max(highs)) if highs else None


def newest_change_commit(bronze: Bronze, batch: int) -> StoredCommit | None:
    """The commit that carries this number; None where the log no longer reaches so far."""
    for commit in bronze.table.history(_CHANGE_COMMITS_SEARCHED):
        said = _described(commit)
        if commit.get(EVENT_KEY) in _CHANGE_EVENTS and said.get("batch") == batch:
            window = Window(Lsn.parse(said["after"]), Lsn.parse(said["until"]))
            return StoredCommit(commit[EVENT_KEY], window, said["capture_instance"], batch)
    return None


def counts_of_batch(bronze: Bronze, batch: int) -> ChangeCounts:
    """What rows of this number there are; a later repair may have replaced some."""
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
    """What a commit of changes says of itself in the log: for people, and for a facts row that is missing."""
    return {
        "capture_instance": instance,
        "after": window.after.text,
        "until": window.until.text,
        "batch": batch,
        "rows": rows,
        "run_id": run_id,
    }


_ABSENT = object()


class LogForgotten(Exception):
    """The log no longer holds what is asked for, or the files that it names are gone."""


@dataclass(frozen=True, slots=True)
class FilesSince:
    """What commits since a version did to a table's rows, as files, decoded, each once.

    :param added: files that brought rows.
    :param withdrawn: files whose rows were there before and were taken out, as a repair does.
    """

    added: tuple[str, ...]
    withdrawn: tuple[str, ...] = ()


def files_since(bronze: Bronze, version: int) -> FilesSince:
    """Files with rows that later versions up to the handle's brought or took out.

    Those are the files of actions with ``dataChange``. A file that was taken out by a commit which put its
    rows in anew, as a repair does, is left to that commit. One that an OPTIMIZE took out is read as it
    is while it is there; once vacuum has removed it, what the OPTIMIZE put in its place is read.

    :raises LogForgotten: a commit in between, or a file, is gone.
    :raises StateDamaged: another tool removed rows in between.
    """
    storage = TableStorage(bronze.location)
    history, infos, removing = _Moves(), list[dict[str, Any]](), set[int]()
    for number in range(version + 1, bronze.version + 1):
        actions = _actions(storage, number)
        history.follow(actions)
        infos.append({**next(iter(_of(actions, "commitInfo")), {}), "version": number})
        if removes_rows(actions):
            removing.add(number)
    _refuse_removal(bronze, first_removal(infos[::-1], removing.__contains__))
    added = dict.fromkeys(path for each in history.added for path in history.readable(each, storage))
    if gone := [path for path in history.withdrawn if storage.size(path) is None]:
        raise LogForgotten(f"file {gone[0]}, whose rows were taken out, is gone")
    return FilesSince(tuple(added), tuple(history.withdrawn))


def _refuse_removal(bronze: Bronze, removal: dict[str, Any] | None) -> None:
    """Also what came before a package that records it: its rows may not be in silver yet, or for good."""
    snapshot = bronze.state.snapshot
    if removal is not None and snapshot is not None:
        Thinned(snapshot, removal["version"], removal.get("operation")).refuse(bronze.location, snapshot)


class _Moves:
    """Files that brought rows, and where an OPTIMIZE has put them since."""

    def __init__(self) -> None:
        self.added: dict[str, object] = {}
        self.withdrawn: dict[str, None] = {}
        self.moved: dict[str, list[str]] = {}

    def follow(self, actions: list[dict[str, Any]]) -> None:
        """One commit."""
        adds, removes = _of(actions, "add"), _of(actions, "remove")
        rearranged = [unquote(add["path"]) for add in adds if not add.get("dataChange", True)]
        for remove in removes:
            path = unquote(remove["path"])
            if remove.get("dataChange", True):
                if self.added.pop(path, _ABSENT) is _ABSENT:
                    self.withdrawn[path] = None
            else:
                self.moved[path] = rearranged
        self.added.update((unquote(add["path"]), None) for add in adds if add.get("dataChange", True))

    def readable(self, path: str, storage: TableStorage) -> Iterator[str]:
        if storage.size(path) is not None:
            yield path
        elif path in self.moved:
            for moved in self.moved[path]:
                yield from self.readable(moved, storage)
        else:
            raise LogForgotten(f"file {path}, which brought rows, is gone")


def _of(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if kind in action]


def _actions(storage: TableStorage, version: int) -> list[dict[str, Any]]:
    actions = commit_actions(storage, version)
    if actions is None:
        raise LogForgotten(f"its log no longer holds version {version}")
    return actions
