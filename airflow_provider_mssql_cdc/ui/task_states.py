"""Failed tasks in the newest runs of each DAG, from Airflow's metadata database."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import and_, func, select

from airflow_provider_mssql_cdc.model.task_error import KEY, TaskError
from airflow_provider_mssql_cdc.ui.views import FailedTask

MOST_SHOWN = 1_000


def failed_tasks(dag_ids: Collection[str], *, runs: int = 1) -> list[FailedTask]:
    """Return tasks that failed in the newest ``runs`` runs of each DAG, newest run first, by map index.

    A task that waits for its next try is included as not ended; one in state upstream_failed is not.
    """
    if not dag_ids:
        return []
    place = func.row_number().over(partition_by=DagRun.dag_id, order_by=DagRun.id.desc())
    ranked = (
        select(DagRun.dag_id, DagRun.run_id, DagRun.id, place.label("place"))
        .where(DagRun.dag_id.in_(dag_ids))
        .subquery()
    )
    one = TaskInstance
    query = (
        select(
            *(one.dag_id, one.run_id, one.task_id, one.map_index, one.state, one.end_date, one.try_number),
            *(one.operator, ranked.c.place, XComModel.value),
        )
        .join(ranked, and_(ranked.c.dag_id == one.dag_id, ranked.c.run_id == one.run_id))
        .outerjoin(XComModel, _error_of(one))
        .where(ranked.c.place <= runs)
        .where(one.state.in_([TaskInstanceState.FAILED, TaskInstanceState.UP_FOR_RETRY]))
        .order_by(ranked.c.id.desc(), one.task_id, one.map_index)
        .limit(MOST_SHOWN)
    )
    with create_session() as session:
        return [_failed(row) for row in session.execute(query)]


def dags_with_errors(dag_ids: Collection[str]) -> set[str]:
    """Return those of some DAGs that have a stored error in any run."""
    stored = select(XComModel.dag_id).where(XComModel.key == KEY).distinct()
    with create_session() as session:
        return set(session.scalars(stored)) & set(dag_ids)


def _error_of(one: type[TaskInstance]) -> Any:
    """The condition that joins a task instance with the error that it pushed."""
    return and_(
        XComModel.key == KEY,
        XComModel.dag_id == one.dag_id,
        XComModel.run_id == one.run_id,
        XComModel.task_id == one.task_id,
        XComModel.map_index == one.map_index,
    )


def _failed(row: Any) -> FailedTask:
    return FailedTask(
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        ended=row.state == TaskInstanceState.FAILED,
        at=row.end_date,
        try_number=row.try_number,
        operator=row.operator or "",
        is_of_newest_run=row.place == 1,
        error=TaskError.from_xcom(XComModel.deserialize_value(row)),
    )
