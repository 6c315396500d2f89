"""Task groups of one table: ``mssql_cdc_bootstrap`` loads it, ``mssql_cdc_reconcile`` proves its silver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcChunkOperator,
    MssqlCdcCompleteOperator,
    MssqlCdcPlanOperator,
    MssqlCdcReconcileOperator,
    MssqlCdcReconcilePlanOperator,
    MssqlCdcSnapshotOperator,
)
from airflow_provider_mssql_cdc.operators._base import table_problems, wrong_arguments
from airflow_provider_mssql_cdc.operators.plan import unusable_in_mode
from airflow_provider_mssql_cdc.operators.reconcile import refuse_wrong_group
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

    ``<group_id>.complete`` returns the snapshot's LSN. Tasks have three retries unless ``default_args``,
    here or on the DAG, or an argument set another number.

    :param group_id: id of the task group.
    :param table: the source table and its Delta tables. (templated)
    :param mode: ``"whole"`` for a table that is read within CDC's retention; ``"chunked"`` for a larger one,
        loaded in several runs while ``MssqlCdcChangesOperator`` runs in another DAG.
    :param max_ranges: limit of mapped tasks; ``whole``.
    :param rows_per_range: target rows per mapped task; ``whole``.
    :param chunk_rows: target rows per chunk; ``chunked``, as are the following. See
        ``MssqlCdcPlanOperator``.
    :param max_waves: limit of waves that one run maps.
    :param chunks_per_wave: chunks that one mapped task reads and commits.
    :param max_seconds: seconds after which a run begins no further wave and succeeds early.
    :param min_headroom_hours: retention headroom below which a run begins no further wave and succeeds
        early.
    :param resnapshot: take a new snapshot although bronze holds one. (templated)
    :param wait_seconds: seconds that a resnapshot waits for capture to pass the stored snapshot's LSN.
    :param verify_counts: count each range on the server after the read, and fail on a difference that no
        change explains; ``whole``.
    :param show_bounds: show key bounds in the labels of the mapped tasks; ``whole``.
    :param pool: pool of all three tasks, by default that of ``default_args``; a pool per source server
        limits the load on it.
    :param outlets: assets of ``complete``.
    :param asset_events: emit an event on bronze's asset; see ``MssqlCdcCompleteOperator``.
    :param default_args: default arguments of the task group.
    :param task_arguments: other arguments of an Airflow operator, for all three tasks; an argument that
        only affects mapped tasks, like ``max_active_tis_per_dagrun``, is ignored by the others.
    """
    given = {name: value for name, value in locals().items() if name != "task_arguments"}
    _refuse_wrong_arguments(group_id, given)
    group = _group(group_id, default_args)
    if pool is not None:  # an argument overrides default_args, which our default must not do
        task_arguments["pool"] = pool
    # Only mapped tasks can render the label; on the others it would fail the task.
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


def mssql_cdc_reconcile(
    *,
    group_id: str,
    table: MssqlCdcTable,
    silver: str,
    share: float = 1 / 30,
    rows_per_tile: int = 100_000,
    sample_keys: bool = True,
    columns: Sequence[str] | None = None,
    counts_only: bool = False,
    show_keys: bool = False,
    fail_on_difference: bool = True,
    wait_seconds: int = 21_600,
    poll_seconds: int = 60,
    deferrable: bool = True,
    pool: str | None = None,
    default_args: dict[str, Any] | None = None,
    **task_arguments: Any,
) -> TaskGroup:
    """Compare a share of silver with the source: a task group of ``plan`` and ``compare`` (mapped).

    ``compare`` waits until silver is past what it has read, so changes and merges have to go on in another
    DAG, or in another run of this one. See ``MssqlCdcReconcilePlanOperator`` and
    ``MssqlCdcReconcileOperator`` for the parameters.

    :param group_id: id of the task group.
    :param table: the source table and its Delta tables. (templated)
    :param silver: path or URI of the Delta table to prove. (templated)
    :param share: of the tiles, and of silver's keys, that one run compares.
    :param rows_per_tile: target rows of one tile.
    :param sample_keys: look some of silver's keys up in the source as well.
    :param columns: columns to compare; None compares all that can be.
    :param counts_only: compare which keys there are, and no other column.
    :param show_keys: report keys that fail as they are; else as salted hashes.
    :param fail_on_difference: fail when something differs.
    :param wait_seconds: seconds to wait at most for silver.
    :param poll_seconds: seconds between two checks.
    :param deferrable: False waits on the worker.
    :param pool: pool of both tasks, by default that of ``default_args``.
    :param default_args: default arguments of the task group.
    :param task_arguments: other arguments of an Airflow operator, for both tasks.
    """
    given = {name: value for name, value in locals().items() if name != "task_arguments"}
    refuse_wrong_group(group_id, given)
    group = _group(group_id, default_args)
    if pool is not None:
        task_arguments["pool"] = pool
    unmapped = {name: value for name, value in task_arguments.items() if name != "map_index_template"}
    with group:
        plan = MssqlCdcReconcilePlanOperator(
            task_id="plan",
            table=table,
            silver=silver,
            share=share,
            rows_per_tile=rows_per_tile,
            sample_keys=sample_keys,
            **unmapped,
        )
        MssqlCdcReconcileOperator.partial(
            task_id="compare",
            table=table,
            silver=silver,
            columns=columns,
            counts_only=counts_only,
            show_keys=show_keys,
            fail_on_difference=fail_on_difference,
            wait_seconds=wait_seconds,
            poll_seconds=poll_seconds,
            deferrable=deferrable,
            **task_arguments,
        ).expand(item=plan.output)
    return group


def _group(group_id: str, default_args: dict[str, Any] | None) -> TaskGroup:
    group = TaskGroup(group_id)
    # A task group's default_args override the DAG's, and the DAG's must override our defaults.
    group.default_args = {**_DEFAULTS, **group.dag.default_args, **group.default_args, **(default_args or {})}
    return group


def _refuse_wrong_arguments(group_id: str, given: dict[str, Any]) -> None:
    """Check all arguments when the DAG is parsed, also those of the mapped task.

    :raises ConfigurationError: names each wrong argument.
    """
    # Airflow creates the operator of a mapped task when it runs, so its own checks come too late.
    checks = {**MssqlCdcPlanOperator.field_checks, **MssqlCdcSnapshotOperator.field_checks}
    checks.update(MssqlCdcCompleteOperator.field_checks)
    problems = [*table_problems(given["table"]), *wrong_arguments(checks, given)]
    chunked = {name: given[name] for name in ("max_seconds", "min_headroom_hours")}
    whole = {name: given[name] for name in ("verify_counts", "show_bounds")}
    problems += unusable_in_mode(given["mode"], chunked, whole)
    if problems:
        raise ConfigurationError(f"mssql_cdc_bootstrap {group_id!r}: " + "; ".join(problems))
