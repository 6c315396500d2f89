"""The page's content as JSON: pure functions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_provider_mssql_cdc.model.facts import FactsRow, json_value
from airflow_provider_mssql_cdc.model.task_error import TaskError
from airflow_provider_mssql_cdc.planning.overview import TableOverview
from airflow_provider_mssql_cdc.ui.remedies import remedy_of

Level = Literal["bad", "warn", "busy", "good"]

LITTLE_HEADROOM_HOURS = 12.0
"""Below this headroom a followed table is a warning: a night without a run would lose changes."""

_REMEDIES = {
    "gap": "Changes were lost. Trigger the load with resnapshot=True; until then silver stays as it was.",
    "failed": "Open the task, read its error, and clear it when the cause is gone.",
    "not loaded": "Open the task, read its error, and clear it when the cause is gone.",
    "silver differs": "Rows of silver do not equal the source's; the reconcile table names them. Find out "
    "what else writes silver, then trigger the load with resnapshot=True.",
    "loading": "Nothing to do. If no run is going, trigger the load again: it continues where it stopped.",
    "loaded": "No change has come since the snapshot: none was made, or the changes operator does not run.",
    "little headroom": "Run changes more often, or raise CDC's retention (sys.sp_cdc_change_job).",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTask:
    """A task instance that failed.

    :param ended: False while it waits for its next try.
    :param at: when it failed.
    :param operator: name of its operator's class.
    :param error: what it stored of its error; None when its process was ended, or failed otherwise.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    ended: bool = True
    at: datetime | None = None
    try_number: int | None = None
    operator: str = ""
    is_of_newest_run: bool = True
    error: TaskError | None = None

    def to_json(self) -> dict[str, Any]:
        """What identifies it, JSON types."""
        names = ("dag_id", "run_id", "task_id", "map_index", "try_number", "at", "ended")
        return {name: json_value(getattr(self, name)) for name in names}


def failed_of(table: TableOverview, failed: Iterable[FailedTask]) -> list[FailedTask]:
    """Return the failed tasks that worked on a table, in their order.

    A stored error names its table. One of several tables, or a task without a stored error, belongs to a
    table when it writes the table's facts; without an error also when it shares a task group with one that
    does: tasks that read ranges write no facts.
    """
    groups = {(dag_id, _group(task_id)) for dag_id, task_id in table.tasks if _group(task_id)}

    def belongs(task: FailedTask) -> bool:
        if task.error is not None and task.error.bronze is not None:
            return task.error.bronze == table.bronze
        if (task.dag_id, task.task_id) in table.tasks:
            return True
        ours = task.error is None and task.operator.startswith(_OPERATORS)
        return ours and (task.dag_id, _group(task.task_id)) in groups

    return [task for task in failed if belongs(task)]


def never_loaded(
    failed: Iterable[FailedTask], *, known: Collection[str], facts: Collection[str]
) -> list[TableOverview]:
    """Return tables that only their errors tell of: what failed before its first commit has no facts row.

    :param known: bronze tables that have facts.
    :param facts: the facts tables that were read.
    """
    found: dict[str, TableOverview] = {}
    for task in failed:
        error = task.error
        if error is None or error.bronze is None or error.bronze in known or error.facts not in facts:
            continue
        dag_id, tasks = task.dag_id, ((task.dag_id, task.task_id),)
        one = TableOverview(
            source=error.subject, bronze=error.bronze, state="not loaded", dag_id=dag_id, tasks=tasks
        )
        found.setdefault(error.bronze, one)
    return list(found.values())


_OPERATORS = "MssqlCdc"


def _group(task_id: str) -> str:
    return task_id.rpartition(".")[0]


def errors_view(failed: Iterable[FailedTask], *, may_read_logs: Collection[str]) -> list[dict[str, Any]]:
    """Return errors with their remedies.

    :param may_read_logs: DAGs whose task logs the user may read; of others the message is left out.
    """
    return [_error(task, with_message=task.dag_id in may_read_logs) for task in failed]


def _error(task: FailedTask, *, with_message: bool) -> dict[str, Any]:
    error = task.error
    remedy = None if error is None else remedy_of(error.error)
    return {
        **task.to_json(),
        "error": None if error is None else error.error,
        "message": None if error is None or not with_message else error.message,
        "remedy": remedy[0] if remedy else None,
        "help": remedy[1] if remedy else None,
    }


def table_id(table: TableOverview) -> str:
    """Return 16 hex digits that identify a bronze table in the page's URLs."""
    return hashlib.sha256(table.bronze.encode()).hexdigest()[:16]


def is_visible(table: TableOverview, readable: Collection[str]) -> bool:
    """Return whether a user may see a table: the user must be able to read a DAG that wrote its facts."""
    return any(dag_id in readable for dag_id in table.dag_ids)


def table_view(table: TableOverview, *, failed: Iterable[FailedTask], at: datetime) -> dict[str, Any]:
    """Return one line of the page.

    ``state`` is the displayed word, ``level`` its urgency, ``remedy`` the recommended action, and
    ``failed_task`` the first of the failed tasks that ended in the newest run of its DAG.

    :param failed: failed tasks of the DAGs that write the table's facts.
    """
    ended = [task for task in failed_of(table, failed) if task.ended and task.is_of_newest_run]
    first = ended[0] if ended else None
    state, level = _state(table, first)
    return {
        **table.to_json(at),
        "id": table_id(table),
        "dags": sorted(table.dag_ids),
        "state": state,
        "level": level,
        "remedy": _remedy(state, first),
        "failed_task": None if first is None else first.to_json(),
        "error": None if first is None or first.error is None else first.error.error,
    }


_LEVELS: tuple[Level, ...] = ("bad", "warn", "busy", "good")
_WORST_FIRST = ("gap", "silver differs", "failed", "not loaded")


def sorted_views(views: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return views worst first: wrong rows before missing ones; ties by what CDC's cleanup reaches first."""

    def urgency(view: Mapping[str, Any]) -> tuple[int, int, float, str]:
        state, hours = view["state"], view["headroom_hours"]
        place = _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)
        left = float("inf") if hours is None else hours
        return _LEVELS.index(view["level"]), place, left, view["source"]

    return sorted(views, key=urgency)


def _remedy(state: str, failed: FailedTask | None) -> str | None:
    """What to do: about a failure, what its error's class asks for."""
    known = None if failed is None or failed.error is None else remedy_of(failed.error.error)
    if known is None or state not in ("failed", "not loaded"):
        return _REMEDIES.get(state)
    return f"{known[0][0].upper()}{known[0][1:]}."


def _state(table: TableOverview, failed: FailedTask | None) -> tuple[str, Level]:
    if table.state in ("gap", "not loaded"):
        return table.state, "bad"
    if failed is not None:
        return "failed", "bad"
    if table.differences:
        return "silver differs", "bad"
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
