"""What bronze still tells about the snapshot it holds: for a ``complete`` that comes second."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from deltalake import QueryBuilder

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.log_checks import EVENT_KEY
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
    return int(_query(bronze, f"SELECT count(*) AS n FROM bronze WHERE {where}")[0]["n"])


def _stamped_time(bronze: Bronze, snapshot: Lsn) -> datetime | None:
    where = f'"_start_lsn" = \'{snapshot.text}\' AND "_operation" = 0'
    found = _query(bronze, f'SELECT "_commit_ts" AS t FROM bronze WHERE {where} LIMIT 1')
    time: datetime | None = found[0]["t"] if found else None
    return None if time is None else time.replace(tzinfo=UTC)


def _query(bronze: Bronze, sql: str) -> list[dict[str, Any]]:
    result = QueryBuilder().register("bronze", bronze.table).execute(sql)
    rows: list[dict[str, Any]] = read_all(result).to_pylist()
    return rows


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
