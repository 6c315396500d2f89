"""Upkeep of a facts table: join its small files, and drop old rows of events that come again and again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.arrow_types import naive_utc, several
from airflow_provider_mssql_cdc.lake.compact import is_own
from airflow_provider_mssql_cdc.lake.delta_table import (
    LakeTable,
    StoredFile,
    open_table,
    query,
    stored_files,
)
from airflow_provider_mssql_cdc.lake.join_files import FilesTaken, JoinedFiles, join_files, replace_files
from airflow_provider_mssql_cdc.lake.schema import plain_schema, refuse_deletion_vectors
from airflow_provider_mssql_cdc.lake.silver.files import TARGET_BYTES
from airflow_provider_mssql_cdc.lake.staged_files import discarding_on_failure, rewrite_prefix
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage, file_batches
from airflow_provider_mssql_cdc.model.facts import Event

log = logging.getLogger(__name__)

TRIM_EVENT = "trim"
TRIMMED: tuple[Event, ...] = ("changes", "repair", "merge", "reconcile")
"""Events that come with every run; rows of the others are few, and are kept for ever."""

_TIMES_LOST = 5


class FactsTable(LakeTable):
    """A handle on one version of a facts table."""

    def _take(self, table: DeltaTable) -> None:
        self.table = table


def open_facts(location: TableLocation) -> FactsTable | None:
    """Open the facts table at its newest version; None if it does not exist."""
    table = open_table(location)
    return None if table is None else FactsTable(location, table)


def compact_facts(facts: FactsTable, *, run_id: str, target_bytes: int = TARGET_BYTES) -> JoinedFiles:
    """Join files of a facts table, in the order in which they were written."""
    return join_files(
        facts,
        lambda: sorted(filter(is_own, stored_files(facts.table)), key=lambda file: file.modified),
        sort=lambda rows: pc.sort_indices(rows, sort_keys=[("written_at", "ascending")]),
        target_bytes=target_bytes,
        user_metadata={"run_id": run_id},
    )


def trim_facts(facts: FactsTable, *, before: datetime, run_id: str) -> int:
    """Remove rows of :data:`TRIMMED` events that were written before this instant; return how many.

    The newest row of each table and event stays, however old: the page and the command line show it. A row
    that was removed is not written again, because its identifier stays in the table's transactions.

    :param before: UTC.
    """
    refuse_deletion_vectors(facts.table)
    for _ in range(_TIMES_LOST - 1):
        try:
            return _trim_once(facts, naive_utc(before), run_id)
        except FilesTaken as exc:
            log.info("%s: %s; looking again", facts.location, exc)
            facts.reload()
    return _trim_once(facts, naive_utc(before), run_id)


def _trim_once(facts: FactsTable, before: datetime, run_id: str) -> int:
    newest = _newest_rows(facts)
    storage, schema = TableStorage(facts.location), plain_schema(pa.schema(facts.table.schema()))
    judged = pa.schema([schema.field(name) for name in ("target", "event", "written_at")])
    doomed: list[StoredFile] = []
    removed = 0
    for file in filter(is_own, stored_files(facts.table)):
        rows = sum(
            pc.sum(_is_doomed(batch, newest, before)).as_py() or 0
            for batch in file_batches(storage, file.path, judged)
        )
        if rows:
            doomed.append(file)
            removed += rows
    if not doomed:
        return 0
    kept = _kept_rows(storage, doomed, schema, newest=newest, before=before)
    prefix = rewrite_prefix(TRIM_EVENT, facts.version)
    staged = stage(facts.location, WholeRows(schema), kept, prefix=prefix, target_bytes=TARGET_BYTES)
    with discarding_on_failure(facts, staged):
        replace_files(facts, doomed, staged, event=TRIM_EVENT, data_change=True, told={"run_id": run_id})
    return removed


def _newest_rows(facts: FactsTable) -> dict[tuple[str, str], datetime]:
    """Return when the newest row of each table and event was written, naive UTC."""
    told = query(facts.table, "SELECT target, event, max(written_at) AS t FROM stored GROUP BY target, event")
    return {(row["target"], row["event"]): row["t"].replace(tzinfo=None) for row in told}


def _is_doomed(
    rows: pa.RecordBatch, newest: Mapping[tuple[str, str], datetime], before: datetime
) -> pa.Array:
    told = zip(*(rows.column(name).to_pylist() for name in ("target", "event", "written_at")), strict=True)
    return several(
        [
            event in TRIMMED and written_at < before and written_at < newest[target, event]
            for target, event, written_at in told
        ],
        pa.int32(),
    ).cast(pa.bool_())


def _kept_rows(
    storage: TableStorage,
    files: Sequence[StoredFile],
    schema: pa.Schema,
    *,
    newest: Mapping[tuple[str, str], datetime],
    before: datetime,
) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in file_batches(storage, file.path, schema):
            kept = batch.filter(pc.invert(_is_doomed(batch, newest, before)))
            if kept.num_rows:
                yield kept
