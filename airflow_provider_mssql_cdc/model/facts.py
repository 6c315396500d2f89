"""A facts row: the record of one event, for logs and dashboards. No decision is based on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from airflow_provider_mssql_cdc.model.lsn import Lsn

Event = Literal[
    "snapshot_open",
    "snapshot_plan",
    "snapshot_wave",
    "bootstrap",
    "resnapshot",
    "changes",
    "repair",
    "merge",
    "reconcile",
    "fold",
    "gap",
    "schema_change",
    "capture_instance_switched",
]
EVENTS: frozenset[str] = frozenset(get_args(Event))


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRow:
    """Hold one event of one bronze table; the fields are the columns of the facts table, None is NULL.

    Times have a zone. ``rows`` counts every row written; ``deletes``, ``inserts`` and ``updates`` count
    only changes, an update once.

    :param target: canonical path or URI of the bronze table; of the silver table for ``merge``.
    :param source: label of the source table: connection, database, schema and table.
    :param snapshot: S, for events of a snapshot.
    :param min_lsn: smallest LSN of the rows; on a finished snapshot min = max = end = S.
    :param end_lsn: the position that the event reached.
    :param consistent_after: ``{"lsn", "commit_time"}`` that changes must pass.
    :param read_mb: megabytes of Arrow data read from the server.
    :param retention_headroom_hours: from the low watermark to the position.
    :param lost_from_ts: with ``lost_to_ts``, the period whose changes a gap lost.
    :param detail: further values; plain JSON types, never a key value.
    """

    event: Event
    target: str
    source: str | None = None
    capture_instance: str | None = None
    snapshot: Lsn | None = None
    batch_id: int | None = None
    rows: int | None = None
    deletes: int | None = None
    inserts: int | None = None
    updates: int | None = None
    min_lsn: Lsn | None = None
    min_commit_ts: datetime | None = None
    max_lsn: Lsn | None = None
    max_commit_ts: datetime | None = None
    end_lsn: Lsn | None = None
    end_commit_ts: datetime | None = None
    consistent_after: Mapping[str, Any] | None = None
    started_at: datetime | None = None
    duration_ms: int | None = None
    read_seconds: float | None = None
    read_mb: float | None = None
    isolation: str | None = None
    driver: str | None = None
    retention_watermark_ts: datetime | None = None
    retention_headroom_hours: float | None = None
    source_max_commit_ts: datetime | None = None
    capture_lag_seconds: float | None = None
    lost_from_ts: datetime | None = None
    lost_to_ts: datetime | None = None
    detail: Mapping[str, Any] | None = None
    written_at: datetime | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None

    def __post_init__(self) -> None:
        if self.event not in EVENTS:
            raise ValueError(f"event must be a known facts event, got {self.event!r}")
        if not self.target:
            raise ValueError("target must be the URI of a Delta table, got an empty string")


def json_value(value: Any) -> Any:
    """Return a field of facts as a JSON type: an LSN as its text, a time in ISO 8601 with its zone."""
    if isinstance(value, Lsn):
        return value.text
    return value.isoformat() if isinstance(value, datetime) else value


def facts_identifier(target: str, event: Event, snapshot: Lsn, wave: int | None = None) -> str:
    """Return the identifier by which an event is written once: ``<target>#<event>.<S>[.<wave>]``."""
    suffix = "" if wave is None else f".{wave}"
    return f"{target}#{event}.{snapshot.text}{suffix}"


_watched: ContextVar[list[FactsRow] | None] = ContextVar("facts_watched", default=None)


@contextlib.contextmanager
def facts_watched() -> Iterator[list[FactsRow]]:
    """The rows that are written inside, also by threads that copy this context; not those that were there."""
    rows: list[FactsRow] = []
    token = _watched.set(rows)
    try:
        yield rows
    finally:
        _watched.reset(token)


def watch(row: FactsRow) -> None:
    """Add a row that has been written to those of :func:`facts_watched`, if anybody watches."""
    if (watched := _watched.get()) is not None:
        watched.append(row)
