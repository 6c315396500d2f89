"""Schema and properties of bronze: columns, identity, added columns."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.arrow_types import arrow_type, captured_schema
from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import SourceIdentity

STATISTICS_PROPERTY = "delta.dataSkippingStatsColumns"

TIMESTAMP_NTZ = pa.timestamp("us")
_CAPTURED_WITH_STATISTICS = 32
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


LARGE_KEY = "mssql_cdc.large"
"""Metadata key of captured columns whose values CDC omits in before-images."""

# How comments spell the declared type: columns of tables that were made before the key above.
_DECLARED = re.compile(r"\[(?:[^\]]|\]\])*\] ([a-z_0-9]+(?:\([^)]*\))?)")
_LARGE_TYPES = frozenset({"text", "ntext", "image", "xml", "json", "geography", "geometry", "clr"})


def captured_field(column: LakeColumn) -> pa.Field:
    """Return the field of a captured column for a new bronze table."""
    field = commented(column.name, arrow_type(column.data_type), column.comment)
    return field.with_metadata({**(field.metadata or {}), LARGE_KEY: "true"}) if column.large else field


def is_large(field: pa.Field) -> bool:
    """Return whether before-images lack this captured column."""
    told = field.metadata or {}
    declared = _DECLARED.match(told.get(b"comment", b"").decode())
    by_type = declared is not None and (declared[1].endswith("(max)") or declared[1] in _LARGE_TYPES)
    return by_type or told.get(LARGE_KEY.encode()) == b"true"


def commented(name: str, arrow_type: pa.DataType, comment: str) -> pa.Field:
    """Return a nullable field with a comment, which Delta tools show."""
    return pa.field(name, arrow_type, metadata={"comment": comment} if comment else None)


_BEFORE_CAPTURED = (
    commented("_capture_instance", pa.string(), "CDC capture instance that the row was read by"),
    commented(
        "_start_lsn",
        pa.string(),
        "Commit LSN of a change; of a snapshot row the LSN recorded before it was read. "
        "0x and 20 upper-case hex digits: text order is LSN order",
    ),
    commented("_seqval", pa.string(), "Order of a change within its transaction; NULL on snapshot rows"),
    commented(
        "_operation",
        pa.int32(),
        "0 snapshot row, 1 delete, 2 insert, 3 image before an update, 4 image after an update",
    ),
    commented("_command_id", pa.int32(), "Order of commands within a transaction; NULL on snapshot rows"),
    commented(
        "_commit_ts",
        TIMESTAMP_NTZ,
        "Commit time of _start_lsn, UTC; NULL where that LSN is no mapped commit",
    ),
)
_AFTER_CAPTURED = (
    commented("_batch_id", pa.int64(), "Number of the changes commit that wrote it; NULL on snapshot rows"),
    commented("_snapshot", pa.string(), "LSN that identifies the snapshot a row belongs to; NULL on changes"),
    commented("_chunk", pa.int32(), "Number of the chunk of a chunked snapshot; NULL otherwise"),
)
METADATA_NAMES = tuple(field.name for field in (*_BEFORE_CAPTURED, *_AFTER_CAPTURED))

# Timestamps in statistics may be cut to milliseconds, which is too low for a maximum
# (delta-io/delta-kernel-rs#1003).
# Statistics that delta-rs writes itself, at OPTIMIZE for instance, are exact for whole numbers, dates and
# texts; decimals become floats and timestamps lose their microseconds, so that readers skip files that hold
# what they look for. A commit time has no microseconds: SQL Server keeps it as datetime.
_METADATA_WITH_STATISTICS = ("_start_lsn", "_operation", "_commit_ts", "_batch_id", "_snapshot", "_chunk")


def bronze_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Return bronze's columns in order, each with its comment.

    :raises ConfigurationError: a captured column is named like a technical column, ignoring case.
    """
    own = {name.lower() for name in METADATA_NAMES}
    if taken := [column.name for column in columns if column.name.lower() in own]:
        raise ConfigurationError(
            f"captured columns named like bronze's own columns cannot be loaded: {', '.join(taken)}"
        )
    return pa.schema([*_BEFORE_CAPTURED, *map(captured_field, columns), *_AFTER_CAPTURED])


def bronze_properties(columns: Sequence[LakeColumn], identity: SourceIdentity) -> dict[str, str]:
    """Return the table properties of a new bronze table."""
    captured = exact_statistics_columns(captured_schema(columns))[:_CAPTURED_WITH_STATISTICS]
    return {
        **identity_properties(identity),
        STATISTICS_PROPERTY: ",".join([*_METADATA_WITH_STATISTICS, *captured]),
    }


def exact_statistics_columns(schema: pa.Schema) -> list[str]:
    """Return columns with exact statistics from every writer and names that need no quotes in a property."""
    return [field.name for field in schema if _is_exact(field.type) and _PLAIN_NAME.match(field.name)]


def _is_exact(arrow_type: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_date, pa.types.is_string, pa.types.is_large_string)
    return any(is_kind(arrow_type) for is_kind in kinds)


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether Delta stores both as one type; Arrow has two offset widths for strings and binary."""
    return bool(_narrow(one).equals(_narrow(other)))


def _narrow(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(arrow_type):
        return pa.string()
    if pa.types.is_large_binary(arrow_type):
        return pa.binary()
    return arrow_type


_WIDE = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return bronze's schema as in its files: one offset width for strings and binary."""
    return pa.schema([each.with_type(_WIDE.get(each.type, each.type)).with_nullable(True) for each in schema])


STATE_VERSION = 1
"""Format version of the transactions; older packages refuse a table with a higher one."""

STATE_VERSION_PROPERTY = "mssql_cdc.state_version"
SOURCE_PROPERTY = "mssql_cdc.source"


def identity_properties(identity: SourceIdentity) -> dict[str, str]:
    """Return the identity properties of a new bronze table."""
    return {SOURCE_PROPERTY: identity_text(identity), STATE_VERSION_PROPERTY: str(STATE_VERSION)}


def identity_text(identity: SourceIdentity) -> str:
    """Return the source as the property stores it: JSON with keys in a fixed order."""
    return json.dumps(
        {
            "conn_id": identity.conn_id,
            "database": identity.database,
            "schema": identity.schema,
            "table": identity.table,
        },
        ensure_ascii=False,
    )


def identity_of(text: str) -> SourceIdentity:
    """Parse the result of :func:`identity_text`; ValueError for anything else."""
    try:
        parts = json.loads(text)
        return SourceIdentity(*(str(parts[key]) for key in ("conn_id", "database", "schema", "table")))
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a source identity: {text!r}") from exc


def read_identity(table: DeltaTable) -> SourceIdentity:
    """Return the source table that this bronze belongs to.

    :raises ForeignTable: a Delta table that this package did not create.
    :raises ConfigurationError: a newer version of this package has written it.
    """
    properties = table.metadata().configuration
    try:
        version = int(properties[STATE_VERSION_PROPERTY] or "")
        identity = identity_of(properties[SOURCE_PROPERTY] or "")
    except (KeyError, ValueError) as exc:
        raise ForeignTable(
            f"{table.table_uri} is a Delta table, but no bronze table of this package ({exc}). "
            "Name another path"
        ) from exc
    if version > STATE_VERSION:
        raise ConfigurationError(
            f"{table.table_uri} was written by a newer version of this package (state {version}, this one "
            f"knows {STATE_VERSION}); upgrade it"
        )
    return identity


def described(identity: SourceIdentity) -> str:
    """Describe a source for messages: database, schema, table and connection."""
    return f"{identity.database}.{identity.schema}.{identity.table} (connection {identity.conn_id})"


_FORGETS_TRANSACTIONS = "delta.setTransactionRetentionDuration"
_RENAMES_COLUMNS = "delta.columnMapping.mode"


def refuse_unsafe_properties(table: DeltaTable) -> None:
    """Refuse properties under which state would be lost or staged files misread.

    :raises ConfigurationError: names the property and how to undo it.
    """
    _refuse_features(table)
    properties = table.metadata().configuration
    if _FORGETS_TRANSACTIONS in properties:
        raise ConfigurationError(
            f"{table.table_uri} has {_FORGETS_TRANSACTIONS} set: Delta would drop the transactions that say "
            f"what has been loaded. ALTER TABLE … UNSET TBLPROPERTIES ('{_FORGETS_TRANSACTIONS}')"
        )
    if properties.get(_RENAMES_COLUMNS, "none") != "none":
        raise ConfigurationError(
            f"{table.table_uri} has {_RENAMES_COLUMNS} on: files are staged under the columns' own names and "
            "would be read as NULLs. Load into a bronze table without column mapping"
        )


_KNOWN_FEATURES = frozenset(
    {
        "timestampNtz",
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "changeDataFeed",
        "columnMapping",
        "v2Checkpoint",
        "deletionVectors",
        "variantType",
        "variantType-preview",
    }
)
"""Features that deltalake 1.6.6 can commit under (each tried). Most need a property to take effect.
variantType is put there by delta-rs' own RESTORE, on tables without such a column."""

_COLUMN_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.")


def _refuse_features(table: DeltaTable) -> None:
    """:raises ConfigurationError: a feature that is not known, or a rule that rows would have to meet."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    if unknown := sorted(features - _KNOWN_FEATURES):
        raise ConfigurationError(
            f"{table.table_uri} has table feature(s) on that this package cannot write under: "
            f"{', '.join(unknown)}. Take each off with ALTER TABLE … DROP FEATURE, or name another path"
        )
    rules = [name for name in table.metadata().configuration if name.startswith("delta.constraints.")]
    rules += [
        f"{name} on column {field.name}"
        for field in table.schema().fields
        for name in field.metadata
        if name.startswith(_COLUMN_RULES)
    ]
    if rules:
        raise ConfigurationError(
            f"{table.table_uri} has rules that rows are not checked against when files are added: "
            f"{', '.join(sorted(rules))}. Take each off (ALTER TABLE … DROP CONSTRAINT), or name another path"
        )


def refuse_append_only(table: DeltaTable) -> None:
    """:raises ConfigurationError: rows may not be replaced in this table."""
    if table.metadata().configuration.get("delta.appendOnly", "false").lower() == "true":
        raise ConfigurationError(
            f"{table.table_uri} has delta.appendOnly on, and rows of it have to be replaced. ALTER TABLE … "
            "UNSET TBLPROPERTIES ('delta.appendOnly')"
        )


def refuse_deletion_vectors(table: DeltaTable) -> None:
    """Refuse deletion vectors: a file may then have deleted rows, and files are read directly.

    :raises ConfigurationError: with the statement that drops the feature.
    """
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise ConfigurationError(
            f"{table.table_uri} has deletion vectors on, under which a file's rows are not all rows of the "
            "table: deleted ones would come back. Take the feature off with ALTER TABLE … DROP FEATURE "
            "deletionVectors"
        )
