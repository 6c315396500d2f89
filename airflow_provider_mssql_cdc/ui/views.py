"""The page's content as JSON: pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_provider_mssql_cdc.model.facts import FactsRow, json_value
from airflow_provider_mssql_cdc.planning.overview import TableOverview

Level = Literal["bad", "warn", "busy", "good"]

LITTLE_HEADROOM_HOURS = 12.0
"""Below this headroom a followed table is a warning: a night without a run would lose changes."""

_REMEDIES = {
    "gap": "Changes were lost. Trigger the load with resnapshot=True; until then silver stays as it was.",
    "failed": "Open the task, read its error, and clear it when the cause is gone.",
    "loading": "Nothing to do. If no run is going, trigger the load again: it continues where it stopped.",
    "loaded": "No change has come since the snapshot: none was made, or the changes operator does not run.",
    "little headroom": "Run changes more often, or raise CDC's retention (sys.sp_cdc_change_job).",
}


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task instance that failed in its DAG's newest run."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


def table_id(table: TableOverview) -> str:
    """Return 16 hex digits that identify a bronze table in the page's URLs."""
    return hashlib.sha256(table.bronze.encode()).hexdigest()[:16]


def is_visible(table: TableOverview, readable: Collection[str]) -> bool:
    """Return whether a user may see a table: the user must be able to read a DAG that wrote its facts."""
    return any(dag_id in readable for dag_id in table.dag_ids)


def table_view(table: TableOverview, *, failed: FailedTask | None, at: datetime) -> dict[str, Any]:
    """Return one line of the page.

    ``state`` is the displayed word, ``level`` its urgency, ``remedy`` the recommended action.
    """
    state, level = _state(table, failed)
    return {
        **table.to_json(at),
        "id": table_id(table),
        "dags": sorted(table.dag_ids),
        "state": state,
        "level": level,
        "remedy": _REMEDIES.get(state),
        "failed_task": None if failed is None else asdict(failed),
    }


_LEVELS: tuple[Level, ...] = ("bad", "warn", "busy", "good")


def sorted_views(views: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return views worst first; ties by the table whose changes are purged first."""

    def urgency(view: Mapping[str, Any]) -> tuple[int, float, str]:
        hours = view["headroom_hours"]
        return _LEVELS.index(view["level"]), float("inf") if hours is None else hours, view["source"]

    return sorted(views, key=urgency)


def _state(table: TableOverview, failed: FailedTask | None) -> tuple[str, Level]:
    if table.state == "gap":
        return "gap", "bad"
    if failed is not None:
        return "failed", "bad"
    hours = table.headroom_hours
    if table.state == "following" and hours is not None and hours < LITTLE_HEADROOM_HOURS:
        return "little headroom", "warn"
    return table.state, {"loading": "busy"}.get(table.state, "good")  # type: ignore[return-value]


def detail_view(rows: Sequence[FactsRow], readable: Collection[str]) -> dict[str, Any]:
    """Return a table's page: its newest facts of readable DAGs, and series for its charts, oldest first."""
    mine = [row for row in rows if row.dag_id in readable]
    return {
        "facts": [_fact(row) for row in mine],
        "series": {
            "rows": _series(mine, "changes", "rows"),
            "lag": _series(mine, "changes", "capture_lag_seconds"),
            "duration": _series(mine, "changes", "duration_ms"),
            "headroom": _series(mine, "changes", "retention_headroom_hours"),
            "merge": _series(mine, "merge", "duration_ms"),
        },
    }


def _series(rows: Sequence[FactsRow], event: str, name: str) -> list[dict[str, Any]]:
    points = [
        {"at": row.written_at.isoformat(), "value": value}
        for row in rows
        if row.event == event and row.written_at is not None and (value := getattr(row, name)) is not None
    ]
    return points[::-1]


_SHOWN = (
    "event",
    "written_at",
    "rows",
    "inserts",
    "updates",
    "deletes",
    "snapshot",
    "end_lsn",
    "end_commit_ts",
    "duration_ms",
    "read_mb",
    "capture_lag_seconds",
    "retention_headroom_hours",
    "lost_from_ts",
    "lost_to_ts",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "try_number",
)


def _fact(row: FactsRow) -> dict[str, Any]:
    return {name: json_value(getattr(row, name)) for name in _SHOWN}
