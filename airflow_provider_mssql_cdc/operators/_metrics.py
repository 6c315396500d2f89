"""Metrics by Airflow's own Stats, from the facts rows that a task writes and the errors it ends with."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any

from airflow.sdk import conf

from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.reconcile import FAILURES

log = logging.getLogger(__name__)

PREFIX = "mssql_cdc"
_NO_SEGMENT = re.compile(r"[^A-Za-z0-9_-]")
_HOMES = ("airflow.sdk.observability.stats", "airflow.observability.stats", "airflow.stats")


def emit_facts(rows: Iterable[FactsRow]) -> None:
    """Emit what some facts rows say, for the table of each; never fails a task.

    ``mssql_cdc.rows`` and ``mssql_cdc.bytes`` are counters, ``mssql_cdc.duration`` is a timer in
    milliseconds, ``mssql_cdc.lag_seconds``, ``mssql_cdc.headroom_seconds`` and ``mssql_cdc.differences`` are
    gauges. docs/metrics.md lists them.
    """
    for row in rows:
        _emit(partial(_of_row, row=row))


def emit_failure(error: str, *, source: str) -> None:
    """Count a failure, ``mssql_cdc.failures``.

    :param error: name of the error class.
    :param source: the table, or the database of a task that failed as a whole.
    """
    _emit(lambda stats: _send(stats.incr, "failures", 1, {"error": error, "table": source}))


def _emit(send: Callable[[Any], None]) -> None:
    try:
        if (stats := _stats()) is not None:
            send(stats)
    except Exception as exc:  # noqa: BLE001 - a metric is never worth a task
        log.debug("a metric was not sent: %s", exc)


def _stats() -> Any:
    """What this Airflow counts with: a module of functions in 3.3, a class in 3.2; else None."""
    # Airflow 3.3 initializes its module in the task's process (task_runner.py of the task SDK) and keeps
    # Stats only as a name that warns; 3.2 has Stats alone.
    for home in _HOMES:
        try:
            module = import_module(home)
        except ImportError:
            continue
        return module if hasattr(module, "incr") else module.Stats
    return None


def _of_row(stats: Any, *, row: FactsRow) -> None:
    tags = {"table": row.source or row.target, "event": row.event}
    if row.rows is not None:
        _send(stats.incr, "rows", row.rows, tags)
    detail = row.detail or {}
    size = detail.get("bytes_added") or (None if row.read_mb is None else round(row.read_mb * 1_000_000))
    if size:
        _send(stats.incr, "bytes", size, tags)
    if row.duration_ms is not None:
        _send(stats.timing, "duration", float(row.duration_ms), tags)
    if row.end_commit_ts is not None:
        lag = (datetime.now(UTC) - _aware(row.end_commit_ts)).total_seconds()
        _send(stats.gauge, "lag_seconds", max(0.0, lag), {"table": tags["table"]})
    if row.retention_headroom_hours is not None:
        _send(stats.gauge, "headroom_seconds", row.retention_headroom_hours * 3600, {"table": tags["table"]})
    if row.event == "reconcile":
        failed = sum(detail.get(name, 0) for name in FAILURES)
        _send(stats.gauge, "differences", failed, {"table": tags["table"]})


def _send(emit: Callable[..., None], name: str, value: float, tags: dict[str, str]) -> None:
    """With tags where the backend has them; elsewhere their values are parts of the name."""
    parts = {key: _segment(text) for key, text in tags.items()}
    if _has_tags():
        emit(f"{PREFIX}.{name}", value, tags=parts)
    else:
        emit(".".join([PREFIX, name, *parts.values()]), value)


def _has_tags() -> bool:
    """Whether Airflow sends its metrics to a backend with tags: Datadog, InfluxDB or OpenTelemetry."""
    # Airflow docs, "Metrics Configuration". Plain StatsD drops tags silently.
    options = ("statsd_datadog_enabled", "statsd_influxdb_enabled", "otel_on")
    return any(conf.getboolean("metrics", option, fallback=False) for option in options)


def _segment(text: str) -> str:
    """A tag's value, or a part of a name: StatsD separates parts by dots and takes no blanks or colons."""
    return _NO_SEGMENT.sub("_", text)


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
