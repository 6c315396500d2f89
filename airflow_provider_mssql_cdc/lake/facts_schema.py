"""The facts table's columns and what each of them says."""

from __future__ import annotations

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.schema import (
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    exact_statistics_columns,
)

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
