"""Many tables in one task: each is loaded, completed or followed by the single-table jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.database import DatabaseTable
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.complete_waves import complete_waves
from airflow_provider_mssql_cdc.jobs.each_table import ASKED_AHEAD, Done, Worker, each_table, failure_of
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.jobs.read_wave import read_wave
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze
from airflow_provider_mssql_cdc.lake.facts import facts_together
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, WaveOutcome
from airflow_provider_mssql_cdc.model.database_items import PackOutcome, ReadItem, TableRef, ToComplete
from airflow_provider_mssql_cdc.model.plan import Attempt, PlannedRange, StagedRange

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)


def read_item(worker: Worker, item: ReadItem) -> PackOutcome:
    """Process one item of the plan. Never raises for a table's failure: the outcome records it."""
    with facts_together():
        if item.kind == "range":
            return _read_part(worker, item, _stage_range)
        if item.kind == "wave":
            return _read_part(worker, item, _read_wave)
        if item.kind == "cut":
            return each_table(worker, item.tables, _cut_chunks)
        return each_table(worker, item.tables, load_table)


def complete_tables(
    worker: Worker, tables: Iterable[ToComplete], results: Mapping[int, Mapping[str, Any]]
) -> PackOutcome:
    """Complete each table whose ranges or waves are all present, and follow it at once.

    :param results: results of ``read`` by item number; only those of this plan.
    """
    by_name = {one.table.name: one for one in tables}

    def do(worker: Worker, one: DatabaseTable, ref: TableRef, done: Done) -> None:
        wanted = by_name[one.name]
        staged = [results[number]["staged"] for number in wanted.items if _is_staged(results.get(number))]
        if len(staged) < len(wanted.items) and not wanted.chunked:
            # read has reported why; bronze is unchanged, and the next run takes a new snapshot
            log.warning("%s: %d of %d ranges were read", one.name, len(staged), len(wanted.items))
            return
        _complete(worker, one, staged, done, chunked=wanted.chunked)

    with facts_together():
        return each_table(worker, [one.table for one in by_name.values()], do)


def follow_tables(worker: Worker, tables: Iterable[TableRef]) -> PackOutcome:
    """Read changes and merge, for each table."""
    with facts_together():
        return each_table(
            worker, tables, lambda worker, one, _, done: follow_table(worker, one, done), ahead=ASKED_AHEAD
        )


def load_table(worker: Worker, one: DatabaseTable, ref: TableRef, done: Done) -> None:
    """Plan, read, complete, follow and merge one table. Idempotent: finished steps are not repeated."""
    connect, table = worker.connect(one), one.table
    request = PlanRequest(
        table=table,
        attempt=worker.attempt,
        max_ranges=one.options.max_ranges,
        rows_per_range=one.options.rows_per_range,
        resnapshot=ref.resnapshot,
        wait_seconds=one.options.wait_seconds,
    )
    staged = [
        read_range(
            table,
            planned,
            attempt=worker.attempt,
            connect=connect,
            verify_counts=one.options.verify_counts,
        )
        for planned in plan_snapshot(request, connect=connect)
    ]
    completed = complete_snapshot(table, staged, attempt=worker.attempt, connect=connect)
    _loaded(worker, one, completed, done)


def follow_table(worker: Worker, one: DatabaseTable, done: Done) -> None:
    """Append new CDC changes to bronze, then merge into silver."""
    connect, options = worker.connect(one), one.options
    request = ChangesRequest(
        table=one.table,
        attempt=worker.attempt,
        max_commits=options.max_commits,
        accept_nulls=options.new_columns == "null",
        quiet_seconds=options.quiet_seconds,
    )
    bronze = open_bronze(TableLocation.bronze_of(one.table))
    changes = run_changes(request, connect=connect, bronze=bronze)
    if isinstance(changes, Skipped | Waiting):
        done.told["note"] = changes.reason
        return
    done.told |= {"changes": changes.counts.rows, "until": changes.until.text}
    if changes.notes:
        done.told["notes"] = list(changes.notes)
    if changes.committed:
        extra = {"lsn": changes.until.text, "version": changes.version, "rows": changes.counts.rows}
        done.committed(one.table.bronze, extra)
    if one.silver is not None:
        order = MergeOrder(
            one.table,
            one.silver,
            worker.attempt,
            wait_consistent=options.wait_consistent,
            min_changed_share=options.min_changed_share,
            max_delay_seconds=options.max_delay_seconds,
        )
        _merge(order, connect, done, bronze=bronze)


def _merge(order: MergeOrder, connect: Connect, done: Done, *, bronze: Bronze | None) -> None:
    merged = merge_silver(order, connect=connect, bronze=bronze)
    if not isinstance(merged, MergedSilver):
        done.told |= {"silver": None, "reason": merged.reason}
        return
    done.told |= {"silver": merged.rows, "consistent": merged.consistency.passed}
    if merged.committed:
        extra = {"lsn": merged.position.changes.text, "version": merged.version, "rows": merged.rows}
        done.committed(merged.silver, extra)


def _loaded(worker: Worker, one: DatabaseTable, completed: CompletedSnapshot, done: Done) -> None:
    """Follow a table right after its load, so that silver exists after the first run."""
    done.told |= {"loaded": completed.rows, "snapshot": completed.snapshot.text}
    if completed.committed:
        extra = {"lsn": completed.snapshot.text, "version": completed.version, "rows": completed.rows}
        done.committed(completed.bronze, extra)
    follow_table(worker, one, done)


def _complete(worker: Worker, one: DatabaseTable, staged: list[Any], done: Done, *, chunked: bool) -> None:
    connect, attempt = worker.connect(one), worker.attempt
    completed: CompletedSnapshot | Skipped
    if chunked:
        waves = [WaveOutcome.from_xcom(item) for item in staged]
        completed = complete_waves(one.table, waves, attempt=attempt, connect=connect)
    else:
        ranges = [StagedRange.from_xcom(item) for item in staged]
        completed = complete_snapshot(one.table, ranges, attempt=attempt, connect=connect)
    if isinstance(completed, Skipped):
        done.told["note"] = completed.reason
    else:
        _loaded(worker, one, completed, done)


Stage = Callable[[Worker, DatabaseTable, Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any] | None]]


def _read_part(worker: Worker, item: ReadItem, stage: Stage) -> PackOutcome:
    """Read one range or wave of a table; ``complete`` commits a whole snapshot's ranges."""
    outcome = PackOutcome()
    (ref,) = item.tables
    try:
        told, outcome.staged = stage(worker, worker.table_of(ref), item.work or {})
        outcome.tables[ref.name] = told
    except Exception as exc:  # noqa: BLE001 - as for the tables of a pack
        outcome.failures[ref.name] = failure_of(ref.name, exc)
    return outcome


def _stage_range(
    worker: Worker, one: DatabaseTable, work: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    staged = read_range(
        one.table,
        PlannedRange.from_xcom(work),
        attempt=worker.attempt,
        connect=worker.connect(one),
        verify_counts=one.options.verify_counts,
    )
    return {"read": staged.rows}, staged.to_xcom()


def _read_wave(
    worker: Worker, one: DatabaseTable, work: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    outcome = read_wave(
        one.table,
        PlannedWave.from_xcom(work),
        attempt=worker.attempt,
        connect=worker.connect(one),
    )
    if isinstance(outcome, Skipped):
        return {"note": outcome.reason}, None
    return {"read": outcome.rows}, outcome.to_xcom()


def _cut_chunks(worker: Worker, one: DatabaseTable, ref: TableRef, done: Done) -> None:
    """Open a chunked snapshot and store its bounds; the next run reads its waves."""
    request = chunked_request(worker.attempt, one, ref, max_waves=one.options.max_waves)
    planned = plan_chunks(request, connect=worker.connect(one))
    if isinstance(planned, Skipped):
        done.told["note"] = planned.reason
    else:
        done.told |= {"waves": planned[0].waves, "note": "its chunks are planned; the next run reads them"}


def chunked_request(attempt: Attempt, one: DatabaseTable, ref: TableRef, *, max_waves: int) -> ChunkedRequest:
    """Return the chunk options of a table."""
    options = one.options
    return ChunkedRequest(
        table=one.table,
        attempt=attempt,
        chunk_rows=options.chunk_rows,
        max_waves=max_waves,
        chunks_per_wave=options.chunks_per_wave,
        resnapshot=ref.resnapshot,
        wait_seconds=options.wait_seconds,
        max_seconds=options.max_seconds,
        min_headroom_hours=options.min_headroom_hours,
    )


def _is_staged(result: Mapping[str, Any] | None) -> bool:
    return result is not None and result.get("staged") is not None
