"""The facts table: one row per event, written exactly once."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.arrow_types import one
from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake.delta_table import create_table, open_table, until_committed, write_rows
from airflow_provider_mssql_cdc.lake.schema import (
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    exact_statistics_columns,
    same_type,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.facts import FactsRow, watch
from airflow_provider_mssql_cdc.model.lsn import Lsn

log = logging.getLogger(__name__)

FACTS_SCHEMA = pa.schema(
    [
        commented("event", pa.string(), "What happened, for instance bootstrap, changes, gap"),
        commented("target", pa.string(), "Canonical path or URI of the bronze table"),
        commented("source", pa.string(), "Source table: connection, database, schema and table"),
        commented("capture_instance", pa.string(), "CDC capture instance that was read"),
        commented("snapshot", pa.string(), "LSN that identifies the snapshot"),
        commented("batch_id", pa.int64(), "Number of the changes commit, as bronze's _batch_id has it"),
        commented("rows", pa.int64(), "Rows written"),
        commented("deletes", pa.int64(), "Deletes among the changes"),
        commented("inserts", pa.int64(), "Inserts among the changes"),
        commented("updates", pa.int64(), "Updates among the changes; both images count as one"),
        commented("min_lsn", pa.string(), "Smallest LSN of the rows"),
        commented("min_commit_ts", TIMESTAMP_NTZ, "Commit time of min_lsn, UTC"),
        commented("max_lsn", pa.string(), "Largest LSN of the rows"),
        commented("max_commit_ts", TIMESTAMP_NTZ, "Commit time of max_lsn, UTC"),
        commented("end_lsn", pa.string(), "Position reached; on a finished snapshot equal to min_lsn"),
        commented("end_commit_ts", TIMESTAMP_NTZ, "Commit time of end_lsn, UTC"),
        commented(
            "consistent_after",
            pa.string(),
            'JSON {"lsn", "commit_time"}: once changes have passed both, the rebuilt state equals the source',
        ),
        commented("started_at", TIMESTAMP_NTZ, "When the work began, UTC"),
        commented("duration_ms", pa.int64(), "Milliseconds from started_at until the work was done"),
        commented("read_seconds", pa.float64(), "Seconds spent reading from the server"),
        commented("read_mb", pa.float64(), "Megabytes of Arrow data read from the server"),
        commented("isolation", pa.string(), "Isolation level of the reads"),
        commented("driver", pa.string(), "Driver and version that read"),
        commented("retention_watermark_ts", TIMESTAMP_NTZ, "Time of the lowest change CDC still had, UTC"),
        commented(
            "retention_headroom_hours", pa.float64(), "Hours from retention_watermark_ts to the position"
        ),
        commented("source_max_commit_ts", TIMESTAMP_NTZ, "Newest commit that capture had reached, UTC"),
        commented("capture_lag_seconds", pa.float64(), "Seconds by which capture was behind the clock"),
        commented("lost_from_ts", TIMESTAMP_NTZ, "Begin of the time whose changes were lost, UTC"),
        commented("lost_to_ts", TIMESTAMP_NTZ, "End of the time whose changes were lost, UTC"),
        commented("detail", pa.string(), "JSON, what else is worth knowing; holds no key values"),
        commented("written_at", TIMESTAMP_NTZ, "When this row was written, UTC"),
        commented("dag_id", pa.string(), "Airflow DAG that wrote the row"),
        commented("run_id", pa.string(), "Airflow run that wrote the row"),
        commented("task_id", pa.string(), "Airflow task that wrote the row"),
        commented("map_index", pa.int32(), "Index of the mapped task, -1 when it is not mapped"),
        commented("try_number", pa.int32(), "Which try of the task wrote the row"),
    ]
)


def facts_properties() -> dict[str, str]:
    """Table properties that a facts table is created with."""
    named = [name for name in exact_statistics_columns(FACTS_SCHEMA) if name not in _WITHOUT_STATISTICS]
    return {STATISTICS_PROPERTY: ",".join(named)}


_WITHOUT_STATISTICS = frozenset({"detail", "consistent_after"})


_WRITTEN = 1


@dataclass(slots=True)
class _Kept:
    """Rows for one facts table, and the table as of its first use."""

    table: DeltaTable | None
    rows: dict[str, FactsRow] = field(default_factory=dict)


class _Together:
    """Uncommitted rows of one task's jobs, by facts table location.

    Thread-safe; :meth:`commit` is called after the other threads have ended.
    """

    def __init__(self) -> None:
        self._kept: dict[TableLocation, _Kept] = {}
        self._lock = threading.RLock()

    def add(self, location: TableLocation, row: FactsRow, identifier: str) -> bool:
        with self._lock:
            if not self.absent(location, [identifier]):
                return False
            written_at = row.written_at or datetime.now(UTC)
            self._of(location).rows[identifier] = replace(row, written_at=written_at)
        return True

    def absent(self, location: TableLocation, identifiers: Sequence[str]) -> list[str]:
        with self._lock:
            kept = self._of(location)
            return [one for one in _absent(kept.table, identifiers) if one not in kept.rows]

    def commit(self) -> None:
        for location, kept in self._kept.items():
            if kept.rows:
                _write(location, kept.rows)

    def _of(self, location: TableLocation) -> _Kept:
        if location not in self._kept:
            self._kept[location] = _Kept(open_table(location))
        return self._kept[location]


_together: ContextVar[_Together | None] = ContextVar("facts_of_one_task", default=None)


@contextlib.contextmanager
def facts_together() -> Iterator[None]:
    """Commit all facts written inside the block in one commit per facts table, when the block ends.

    For a task that runs the jobs of many tables: one commit per row would mean hundreds of commits and files
    per run. If the task is killed, its rows are missing; the next run of changes, merge or ``complete``
    writes missing rows, as after any interrupted job.
    """
    together = _Together()
    token = _together.set(together)
    try:
        yield
    except BaseException:
        # The failure is what the task ends with; facts that cannot be written either must not hide it.
        try:
            together.commit()
        except Exception:
            log.warning("facts of a task that failed could not be written", exc_info=True)
        raise
    else:
        together.commit()
    finally:
        _together.reset(token)


def write_facts(location: TableLocation, row: FactsRow, *, identifier: str) -> bool:
    """Append ``row`` unless a row with this identifier exists; return whether it was written.

    One facts table serves many tables and concurrent writers; it is created when missing.

    :param identifier: :func:`~..model.facts.facts_identifier`, stored as a Delta transaction.
    :raises CommitConflict: other writers committed first too often.
    :raises SchemaDrift: the Delta table at this location has other columns.
    """
    together = _together.get()
    if together is not None:
        written = together.add(location, row, identifier)
    else:
        written = bool(_write(location, {identifier: row}))
    if written:
        watch(row)
    return written


def _write(location: TableLocation, rows: Mapping[str, FactsRow]) -> int:
    """Append the missing rows in one commit; return how many."""

    def once() -> int:
        table = _open_or_create(location)
        absent = [name for name in rows if table.transaction_version(name) is None]
        if not absent:
            return 0
        write_rows(
            table,
            _as_table([rows[name] for name in absent]),
            transactions=[Transaction(name, _WRITTEN) for name in absent],
        )
        return len(absent)

    written: int = until_committed(once, what=f"{len(rows)} facts row(s) into {location}")
    log.debug("%d of %d facts row(s) written to %s", written, len(rows), location)
    return written


def has_facts(location: TableLocation, identifier: str) -> bool:
    """Return whether a row with this identifier was written."""
    return not absent_facts(location, [identifier])


def absent_facts(location: TableLocation, identifiers: Sequence[str]) -> list[str]:
    """Return the identifiers without a row."""
    together = _together.get()
    if together is not None:
        return together.absent(location, identifiers)
    return _absent(open_table(location), identifiers)


def _absent(table: DeltaTable | None, identifiers: Sequence[str]) -> list[str]:
    return [one for one in identifiers if table is None or table.transaction_version(one) is None]


def _open_or_create(location: TableLocation) -> DeltaTable:
    table = open_table(location) or _create(location)
    stored = {field.name: field.type for field in pa.schema(table.schema())}
    odd = [f.name for f in FACTS_SCHEMA if f.name not in stored or not same_type(stored[f.name], f.type)]
    if odd:
        raise SchemaDrift(
            f"{location} is not a facts table of this package: {', '.join(odd)} missing or of another type. "
            "Name another path for facts"
        )
    return table


def _create(location: TableLocation) -> DeltaTable:
    return create_table(
        location,
        FACTS_SCHEMA,
        name="mssql_cdc_facts",
        description="What loading SQL Server tables under CDC did, one row per event; all times are UTC",
        properties=facts_properties(),
    )


def _as_table(rows: Sequence[FactsRow]) -> pa.Table:
    # Column by column: a table of one row takes 40 kB.
    now = datetime.now(UTC)
    arrays = [
        pa.concat_arrays([one(_plain(_value_of(row, field.name, now=now)), field.type) for row in rows])
        for field in FACTS_SCHEMA
    ]
    return pa.table(arrays, schema=FACTS_SCHEMA)


def _value_of(row: FactsRow, name: str, *, now: datetime) -> Any:
    return getattr(row, name) or now if name == "written_at" else getattr(row, name)


def _plain(value: Any) -> Any:
    """Convert a value: an LSN to its text, a mapping to JSON."""
    if isinstance(value, Lsn):
        return value.text
    if isinstance(value, str | int | float | datetime | None):
        return value
    return json.dumps(dict(value), ensure_ascii=False, default=str)
