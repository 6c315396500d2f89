"""Runs a DAG in this process, and again in part, as somebody who presses "Clear" does.

``dag.test()`` runs a whole run; it cannot clear one mapped index of it, so :func:`clear_and_rerun`
clears what it is told to and drives the same run to its end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG

RUNS_AT_MOST_SECONDS = 120


def sync(dag: DAG) -> DAG:
    """Make a DAG that a test defined known to the database, as the DAG processor would."""
    from airflow import settings
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG

    session = settings.Session()
    DagBundlesManager().sync_bundles_to_db(session=session)
    session.commit()
    SerializedDAG.bulk_write_to_db("dags-folder", None, [dag], session=session)
    SerializedDagModel.write_dag(
        LazyDeserializedDAG.from_dag(dag), bundle_name="dags-folder", session=session
    )
    session.commit()
    return dag


def run(dag: DAG, *, conf: dict[str, Any] | None = None) -> Any:
    """A manual run, without a logical date, to its end; the DagRun, whatever its state."""
    sync(dag)
    return dag.test(logical_date=None, run_conf=conf)


def clear_and_rerun(dag: DAG, run_id: str, task_ids: Sequence[str | tuple[str, int]]) -> Any:
    """Clear exactly these tasks (or mapped indexes) of a run and drive it to its end."""
    from airflow import settings
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.state import DagRunState
    from sqlalchemy import select

    session = settings.Session()
    serialized = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    serialized.clear(
        run_id=run_id, task_ids=list(task_ids), dag_run_state=DagRunState.RUNNING, session=session
    )
    session.commit()
    dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == run_id))
    dag_run.dag = serialized
    deadline = time.monotonic() + RUNS_AT_MOST_SECONDS
    while dag_run.state == DagRunState.RUNNING:
        assert time.monotonic() < deadline, f"run {run_id} does not end"
        for task_instance in _schedulable(dag_run, session):
            _run_task(ti=task_instance, task=dag.task_dict[task_instance.task_id], run_triggerer=True)
    return dag_run


def _schedulable(dag_run: Any, session: Any) -> list[Any]:
    from airflow.sdk import timezone
    from airflow.utils.state import TaskInstanceState

    session.expire_all()
    ready, _ = dag_run.update_state(session=session)
    for task_instance in ready:
        if task_instance.state != TaskInstanceState.UP_FOR_RESCHEDULE:
            task_instance.try_number += 1
        task_instance.state = TaskInstanceState.SCHEDULED
        task_instance.scheduled_dttm = timezone.utcnow()
    session.commit()
    scheduled = [
        ti for ti in dag_run.get_task_instances(session=session) if ti.state == TaskInstanceState.SCHEDULED
    ]
    if not scheduled:
        time.sleep(0.2)
    return scheduled


def states(dag_run: Any) -> dict[tuple[str, int], str]:
    """``{(task_id, map_index): state}`` of a run."""
    return {(ti.task_id, ti.map_index): str(ti.state) for ti in dag_run.get_task_instances()}


def returned(dag_run: Any, task_id: str, map_index: int = -1) -> Any:
    """The return value of a task, from the database as another process would read it."""
    return pushed(dag_run, task_id, "return_value", map_index)


def pushed(dag_run: Any, task_id: str, key: str, map_index: int = -1) -> Any:
    """What a task pushed under a key."""
    from airflow import settings
    from airflow.models.xcom import XComModel

    query = XComModel.get_many(
        run_id=dag_run.run_id,
        dag_ids=dag_run.dag_id,
        task_ids=task_id,
        map_indexes=map_index,
        key=key,
    )
    value = settings.Session().scalars(query).first()
    return None if value is None else XComModel.deserialize_value(value)


def labels(dag_run: Any, task_id: str) -> list[str | None]:
    """What the UI calls the mapped tasks of a run, in the order of their indexes."""
    found = {
        ti.map_index: ti.rendered_map_index for ti in dag_run.get_task_instances() if ti.task_id == task_id
    }
    return [label for _, label in sorted(found.items())]
