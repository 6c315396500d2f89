"""What silver looks like: bronze's captured columns, two of its own, a key that is never NULL."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.identity import identity_properties
from airflow_provider_mssql_cdc.lake.schema import (
    METADATA_NAMES,
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    exact_statistics_columns,
)
from airflow_provider_mssql_cdc.model.state import SourceIdentity

KEY_PROPERTY = "mssql_cdc.key"
"""JSON list of the columns that identify a row; a table that has it is a silver table."""

_OWN = (
    commented(
        "_start_lsn",
        pa.string(),
        "Commit LSN of the change that made the row what it is, or LSN recorded before a snapshot read it",
    ),
    commented(
        "_commit_ts", TIMESTAMP_NTZ, "Commit time of _start_lsn, UTC; NULL where that LSN is no mapped commit"
    ),
)
_WITH_STATISTICS = 32


def silver_schema(bronze: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """Silver's columns for a bronze of this schema."""
    captured = [field for field in bronze if field.name not in METADATA_NAMES]
    return pa.schema([*(field.with_nullable(field.name not in key) for field in captured), *_OWN])


def silver_properties(schema: pa.Schema, key: Sequence[str], *, identity: SourceIdentity) -> dict[str, str]:
    """Table properties that silver is created with; the key comes first among the columns with statistics."""
    exact = exact_statistics_columns(schema)
    others = [name for name in exact if name not in key and name != "_start_lsn"]
    named = ["_start_lsn", *(name for name in key if name in exact), *others]
    return {
        **identity_properties(identity),
        KEY_PROPERTY: json.dumps(list(key), ensure_ascii=False),
        STATISTICS_PROPERTY: ",".join(named[:_WITH_STATISTICS]),
    }


def stored_key(table: DeltaTable) -> tuple[str, ...] | None:
    """The key of a silver table; None for a table that is none."""
    text = table.metadata().configuration.get(KEY_PROPERTY)
    return tuple(json.loads(text)) if text else None
