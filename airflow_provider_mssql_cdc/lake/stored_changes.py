"""What bronze still tells about changes in it: a commit's time, and what the newest commit of them held."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deltalake import QueryBuilder

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.log_checks import EVENT_KEY
from airflow_provider_mssql_cdc.model.changes import ChangeCounts, Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn

_COMMITS_SEARCHED = 200
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
    rows = _query(bronze, f'SELECT "_commit_ts" AS t FROM bronze WHERE "_start_lsn" = \'{lsn.text}\' LIMIT 1')
    found: datetime | None = rows[0]["t"] if rows else None
    return None if found is None else found.replace(tzinfo=UTC)


def newest_change_commit(bronze: Bronze, batch: int) -> StoredCommit | None:
    """The commit that carries this number; None where the log no longer reaches so far."""
    for commit in bronze.table.history(_COMMITS_SEARCHED):
        said = _said(commit)
        if commit.get(EVENT_KEY) in _CHANGE_EVENTS and said.get("batch") == batch:
            window = Window(Lsn.parse(said["after"]), Lsn.parse(said["until"]))
            return StoredCommit(commit[EVENT_KEY], window, said["capture_instance"], batch)
    return None


def counts_of_batch(bronze: Bronze, batch: int) -> ChangeCounts:
    """What rows of this number there are; a later repair may have replaced some."""
    counted = _query(
        bronze,
        'SELECT "_operation" AS o, count(*) AS n, min("_start_lsn") AS low, max("_start_lsn") AS high '
        f'FROM bronze WHERE "_batch_id" = {int(batch)} GROUP BY "_operation"',
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


def change_metadata(window: Window, *, instance: str, batch: int, run_id: str) -> dict[str, Any]:
    """What a commit of changes says of itself in the log: for people, and for a facts row that is missing."""
    return {
        "capture_instance": instance,
        "after": window.after.text,
        "until": window.until.text,
        "batch": batch,
        "run_id": run_id,
    }


def _said(commit: dict[str, Any]) -> dict[str, Any]:
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _query(bronze: Bronze, sql: str) -> list[dict[str, Any]]:
    result = QueryBuilder().register("bronze", bronze.table).execute(sql)
    rows: list[dict[str, Any]] = read_all(result.read_all()).to_pylist()
    return rows
