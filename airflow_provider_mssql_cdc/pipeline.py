"""A whole database as one task group: plan, read and complete, follow, report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import AssetAlias, TaskGroup

from airflow_provider_mssql_cdc.database import MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators.database import (
    MssqlCdcDatabaseCompleteOperator,
    MssqlCdcDatabaseFollowOperator,
    MssqlCdcDatabasePlanOperator,
    MssqlCdcDatabaseReadOperator,
    MssqlCdcDatabaseReportOperator,
)

_DEFAULTS: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=30)}
_PARTS = ("load", "follow")


def mssql_cdc_pipeline(
    *,
    group_id: str,
    database: MssqlCdcDatabase,
    parts: Sequence[str] = _PARTS,
    max_tasks: int = 256,
    max_waves: int = 64,
    follow_tasks: int = 4,
    complete_tasks: int = 2,
    max_failed_tables: int = 0,
    pool: str | None = None,
    sessions_per_task: int = 1,
    asset_events: bool = True,
    default_args: dict[str, Any] | None = None,
    **task_arguments: Any,
) -> TaskGroup:
    """Load and follow every tracked table of a database that its patterns choose, run after run.

    ``plan`` looks at all tables; ``read`` and ``complete`` load those that are not loaded; ``follow`` brings
    the changes of the others to bronze and silver, and waits for neither; ``report`` says what became of
    each table, and its state is the run's. A table that fails keeps no other from its turn.

    :param group_id: id of the task group.
    :param database: which tables, from where and to where. (templated)
    :param parts: ``("load", "follow")`` in one DAG, or each in its own DAG: then a long load, whose DAG
        has ``max_active_runs=1``, keeps no run of the other one waiting. With tables in ``mode="chunked"``
        always the latter.
    :param max_tasks: mapped tasks of ``read`` in one run, for all tables together.
    :param max_waves: waves of all chunked tables together in one run, among those.
    :param follow_tasks: mapped tasks of ``follow``; the tables are shared out among them.
    :param complete_tasks: mapped tasks of ``complete``.
    :param max_failed_tables: how many tables may fail in a run that ends well.
    :param pool: of all tasks; a pool per source server limits the load on it.
    :param sessions_per_task: how many tables a task of ``read`` (a pack), ``complete`` or ``follow`` has in
        work at the same time, each on its own session: the server serves up to the pool's slots times
        this many. They share the memory that one table may take.
    :param asset_events: announce what was committed on the asset of each Delta table.
    :param default_args: of the task group.
    :param task_arguments: any other argument of an Airflow operator, for all tasks.
    """
    _refuse_wrong_arguments(
        group_id, {key: value for key, value in locals().items() if key != "task_arguments"}
    )
    group = TaskGroup(group_id)
    # A task group's default_args go over the DAG's; what the DAG says must stay above our defaults.
    group.default_args = {**_DEFAULTS, **group.dag.default_args, **group.default_args, **(default_args or {})}
    if pool is not None:
        task_arguments["pool"] = pool
    outlets = [AssetAlias(f"mssql_cdc {database.bronze}")] if asset_events else []
    unmapped = {name: value for name, value in task_arguments.items() if name != "map_index_template"}
    slots = {"complete_slots": complete_tasks, "follow_slots": follow_tasks}
    with group:
        plan = MssqlCdcDatabasePlanOperator(
            task_id="plan",
            database=database,
            parts=tuple(parts),
            max_tasks=max_tasks,
            max_waves=max_waves,
            **slots,
            **unmapped,
        )
        mapped = {
            "database": database,
            "plan_task_id": plan.task_id,
            "sessions_per_task": sessions_per_task,
            "outlets": outlets,
            **task_arguments,
        }
        ends: list[Any] = [plan]
        task_ids: dict[str, str | None] = {"read": None, "complete": None, "follow": None}
        if "load" in parts:
            read = MssqlCdcDatabaseReadOperator.partial(task_id="read", **mapped).expand(item=plan.output)
            # Over its own slots: what expands over a task that failed is never run, whatever its rule.
            complete = MssqlCdcDatabaseCompleteOperator.partial(
                task_id="complete",
                read_task_id=read.task_id,
                **{**mapped, "trigger_rule": "all_done"},
            ).expand(slot=list(range(complete_tasks)))
            read >> complete
            ends += [read, complete]
            task_ids |= {"read": read.task_id, "complete": complete.task_id}
        if "follow" in parts:
            follow = MssqlCdcDatabaseFollowOperator.partial(task_id="follow", **mapped).expand(
                slot=list(range(follow_tasks))
            )
            plan >> follow
            ends.append(follow)
            task_ids["follow"] = follow.task_id
        report = MssqlCdcDatabaseReportOperator(
            task_id="report",
            database=database,
            plan_task_id=plan.task_id,
            read_task_id=task_ids["read"],
            complete_task_id=task_ids["complete"],
            follow_task_id=task_ids["follow"],
            max_failed_tables=max_failed_tables,
            **slots,
            **{**unmapped, "trigger_rule": "all_done", "retries": 0},
        )
        ends >> report
    return group


def _refuse_wrong_arguments(group_id: str, given: dict[str, Any]) -> None:
    """All of them at once, when the DAG is parsed.

    :raises ConfigurationError: names each.
    """
    problems = []
    database, parts = given["database"], given["parts"]
    if not isinstance(database, MssqlCdcDatabase):
        problems.append(f"database must be an MssqlCdcDatabase, got {type(database).__name__}")
    if isinstance(parts, str) or not parts or not set(parts) <= set(_PARTS):
        problems.append(f'parts must be "load", "follow" or both in a tuple, got {parts!r}')
    least = {"max_tasks": 4, "max_failed_tables": 0}
    least |= dict.fromkeys(("max_waves", "follow_tasks", "complete_tasks", "sessions_per_task"), 1)
    for name, fewest in least.items():
        value = given[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < fewest:
            problems.append(f"{name} must be an integer >= {fewest}, got {value!r}")
    if not isinstance(given["asset_events"], bool):
        problems.append(f"asset_events must be True or False, got {given['asset_events']!r}")
    if not problems and set(parts) == set(_PARTS) and database.chunked:
        problems.append(
            f'{", ".join(database.chunked)} in mode="chunked" must be loaded in a DAG of its own: '
            'parts=("load",) there, with max_active_runs=1, and parts=("follow",) in another one, which '
            "reads their changes while they are loaded"
        )
    if problems:
        raise ConfigurationError(f"mssql_cdc_pipeline {group_id!r}: " + "; ".join(problems))
