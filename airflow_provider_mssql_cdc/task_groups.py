"""The whole bootstrap of one table as one task group: plan, read (mapped), complete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcChunkOperator,
    MssqlCdcCompleteOperator,
    MssqlCdcPlanOperator,
    MssqlCdcSnapshotOperator,
)
from airflow_provider_mssql_cdc.operators._base import wrong_arguments
from airflow_provider_mssql_cdc.operators.plan import unusable_in_mode
from airflow_provider_mssql_cdc.table import MssqlCdcTable

_DEFAULTS: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=30)}


def mssql_cdc_bootstrap(
    *,
    group_id: str,
    table: MssqlCdcTable,
    mode: str = "whole",
    max_ranges: int = 256,
    rows_per_range: int = 1_000_000,
    chunk_rows: int = 1_000_000,
    max_waves: int = 256,
    chunks_per_wave: int | None = None,
    max_seconds: int | None = None,
    min_headroom_hours: float | None = None,
    resnapshot: bool | str = False,
    wait_seconds: int = 600,
    verify_counts: bool = False,
    show_bounds: bool = False,
    pool: str | None = None,
    outlets: Any = None,
    asset_events: bool = True,
    default_args: dict[str, Any] | None = None,
    **task_arguments: Any,
) -> TaskGroup:
    """Load one table once: a task group of ``plan``, ``read`` (``chunk`` in chunked mode) and ``complete``.

    The snapshot's LSN is in the return value of ``<group_id>.complete``. Tasks are retried three times
    unless ``default_args``, here or on the DAG, or an argument say otherwise.

    :param group_id: id of the task group.
    :param table: what is loaded, from where and to where. (templated)
    :param mode: ``"whole"`` for a table that is read within CDC's retention; ``"chunked"`` for a larger one,
        in as many runs as it takes, with ``MssqlCdcChangesOperator`` running next to it.
    :param max_ranges: at most this many mapped tasks; ``whole``.
    :param rows_per_range: rows that one mapped task should read, when the table allows it; ``whole``.
    :param chunk_rows: rows of a chunk; ``chunked``, as are the following. See ``MssqlCdcPlanOperator``.
    :param max_waves: waves that one run maps at most.
    :param chunks_per_wave: chunks that one mapped task reads and commits.
    :param max_seconds: after which a run begins no further wave and ends well.
    :param min_headroom_hours: below which a run begins no further wave and ends well.
    :param resnapshot: take a new snapshot although bronze holds one. (templated)
    :param wait_seconds: how long a resnapshot waits for capture to pass the stored snapshot's LSN.
    :param verify_counts: count each range on the server after it was read, and fail on a difference that no
        change explains; ``whole``.
    :param show_bounds: show key bounds in the labels of the mapped tasks; ``whole``.
    :param pool: of all three tasks; a pool per source server limits the load on it.
        By default it is what ``default_args`` say.
    :param outlets: assets, of ``complete`` alone.
    :param asset_events: announce the completion on bronze's asset; see ``MssqlCdcCompleteOperator``.
    :param default_args: of the task group.
    :param task_arguments: any other argument of an Airflow operator, for all three tasks; those that
        only a mapped task knows, ``max_active_tis_per_dagrun`` for one, do no harm on the others.
    """
    given = {name: value for name, value in locals().items() if name != "task_arguments"}
    _refuse_wrong_arguments(group_id, given)
    group = TaskGroup(group_id)
    # A task group's default_args go over the DAG's; what the DAG says must stay above our defaults.
    group.default_args = {**_DEFAULTS, **group.dag.default_args, **group.default_args, **(default_args or {})}
    if pool is not None:  # given: it goes over default_args, which a default of ours must not
        task_arguments["pool"] = pool
    # The label of the mapped tasks alone: it cannot be rendered on the others, and would fail them.
    unmapped = {name: value for name, value in task_arguments.items() if name != "map_index_template"}
    given_outlets = {} if outlets is None else {"outlets": outlets}
    with group:
        plan = MssqlCdcPlanOperator(
            task_id="plan",
            table=table,
            mode=mode,
            max_ranges=max_ranges,
            rows_per_range=rows_per_range,
            chunk_rows=chunk_rows,
            max_waves=max_waves,
            chunks_per_wave=chunks_per_wave,
            max_seconds=max_seconds,
            min_headroom_hours=min_headroom_hours,
            resnapshot=resnapshot,
            wait_seconds=wait_seconds,
            **unmapped,
        )
        if mode == "chunked":
            read = MssqlCdcChunkOperator.partial(task_id="chunk", table=table, **task_arguments).expand(
                wave=plan.output
            )
        else:
            read = MssqlCdcSnapshotOperator.partial(
                task_id="read",
                table=table,
                verify_counts=verify_counts,
                show_bounds=show_bounds,
                **task_arguments,
            ).expand(key_range=plan.output)
        MssqlCdcCompleteOperator(
            task_id="complete",
            table=table,
            staged=read.output,
            asset_events=asset_events,
            **unmapped,
            **given_outlets,
        )
    return group


def _refuse_wrong_arguments(group_id: str, given: dict[str, Any]) -> None:
    """Those of the mapped task too, which Airflow makes when it runs: all of them when the DAG is parsed.

    :raises ConfigurationError: names each.
    """
    checks = {**MssqlCdcPlanOperator.field_checks, **MssqlCdcSnapshotOperator.field_checks}
    checks.update(MssqlCdcCompleteOperator.field_checks)
    problems = wrong_arguments(checks, given)
    chunked = {name: given[name] for name in ("max_seconds", "min_headroom_hours")}
    whole = {name: given[name] for name in ("verify_counts", "show_bounds")}
    problems += unusable_in_mode(given["mode"], chunked, whole)
    if problems:
        raise ConfigurationError(f"mssql_cdc_bootstrap {group_id!r}: " + "; ".join(problems))
