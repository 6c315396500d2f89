"""Failed tasks in the newest run of each DAG, from Airflow's metadata database."""

from __future__ import annotations

from collections.abc import Collection

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import and_, func, select

from airflow_provider_mssql_cdc.ui.views import FailedTask


def failed_tasks(dag_ids: Collection[str]) -> dict[tuple[str, str], FailedTask]:
    """Return tasks that failed in their DAG's newest run, by DAG and task; of a mapped task the first index.

    A task in state upstream_failed is not included.
    """
    if not dag_ids:
        return {}
    newest = (
        select(DagRun.dag_id, func.max(DagRun.id).label("id"))
        .where(DagRun.dag_id.in_(dag_ids))
        .group_by(DagRun.dag_id)
        .subquery()
    )
    query = (
        select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
        .join(DagRun, and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id))
        .join(newest, newest.c.id == DagRun.id)
        .where(TaskInstance.state == TaskInstanceState.FAILED)
        .order_by(TaskInstance.map_index.desc())
    )
    with create_session() as session:
        return {(row.dag_id, row.task_id): FailedTask(*row) for row in session.execute(query)}
