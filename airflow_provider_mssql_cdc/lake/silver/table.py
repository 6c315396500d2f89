"""A silver table: schema, position, commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.errors import ForeignTable, SchemaDrift
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import (
    LakeTable,
    create_table,
    open_table,
    until_committed,
)
from airflow_provider_mssql_cdc.lake.log import down_to_ours, restore_below_ours
from airflow_provider_mssql_cdc.lake.schema import (
    METADATA_NAMES,
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    described,
    exact_statistics_columns,
    identity_properties,
    plain_schema,
    read_identity,
    refuse_append_only,
    refuse_deletion_vectors,
    refuse_unsafe_properties,
    same_type,
)
from airflow_provider_mssql_cdc.lake.staged_files import missing_files
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import (
    position_transactions,
    read_position,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import SilverPosition, SourceIdentity

KEY_PROPERTY = "mssql_cdc.key"
"""Property with the key columns as a JSON list; it marks a table as a silver table."""

_OWN = (
    commented(
        "_start_lsn",
        pa.string(),
        "Commit LSN of the change that made the row what it is, or LSN recorded before a snapshot read it",
    ),
    commented(
        "_commit_ts",
        TIMESTAMP_NTZ,
        "Commit time of _start_lsn, UTC; NULL where that LSN is no mapped commit",
    ),
)
_WITH_STATISTICS = 32


def silver_schema(bronze: pa.Schema, key: Sequence[str]) -> pa.Schema:
    """Return silver's columns for a bronze with this schema."""
    captured = [field for field in bronze if field.name not in METADATA_NAMES]
    return pa.schema([*(field.with_nullable(field.name not in key) for field in captured), *_OWN])


def silver_properties(schema: pa.Schema, key: Sequence[str], *, identity: SourceIdentity) -> dict[str, str]:
    """Return the properties of a new silver table; the key comes first among columns with statistics."""
    exact = exact_statistics_columns(schema)
    others = [name for name in exact if name not in key and name != "_start_lsn"]
    named = ["_start_lsn", *(name for name in key if name in exact), *others]
    return {
        **identity_properties(identity),
        KEY_PROPERTY: json.dumps(list(key), ensure_ascii=False),
        STATISTICS_PROPERTY: ",".join(named[:_WITH_STATISTICS]),
    }


def stored_key(table: DeltaTable) -> tuple[str, ...] | None:
    """Return the key of a silver table; None for any other table."""
    text = table.metadata().configuration.get(KEY_PROPERTY)
    return tuple(json.loads(text)) if text else None


MERGE_EVENT = "merge"


class Silver(LakeTable):
    """A handle on one version of a silver table, validated on open and reload.

    A decision based on :attr:`position` is committed by :meth:`commit` with the same handle, on exactly that
    version: any other commit in between makes it fail, and the caller decides again.
    """

    def _take(self, table: DeltaTable) -> None:
        self.identity = read_identity(table)
        key = stored_key(table)
        if key is None:
            raise ForeignTable(
                f"{self.location} is a bronze table of {described(self.identity)}: name another path for "
                "silver"
            )
        refuse_unsafe_properties(table)
        refuse_deletion_vectors(table)
        refuse_append_only(table)
        self.table, self.key = table, key
        self.position = read_position(table)
        restore = restore_below_ours(down_to_ours(table)) if self.position else None
        self._restored: str | None = None
        if restore is not None:
            self._restored = f"its version {restore.version} is a RESTORE that took rows back"

    @property
    def damage(self) -> str | None:
        """Return why silver's rows do not match its position; checks that each file in the log exists."""
        return self._restored or self._missing_files()

    def _missing_files(self) -> str | None:
        missing = missing_files(self)
        if missing:  # an OPTIMIZE and a VACUUM may have come since this handle was opened
            missing = missing_files(self.reload())
        if not missing:
            return None
        return f"{len(missing)} of its files are gone although its log names them, {missing[0]} among them"

    @property
    def schema(self) -> pa.Schema:
        """Return silver's columns as in its files."""
        return plain_schema(pa.schema(self.table.schema()))

    def take_on_columns(self, bronze: Bronze) -> tuple[str, ...]:
        """Add columns that bronze has and silver lacks, NULL in existing rows; return their names.

        :raises SchemaDrift: a column has another type in silver.
        """
        return until_committed(
            lambda: self._add_missing(bronze), what=f"columns into {self.location}", reload=self.reload
        )

    def _add_missing(self, bronze: Bronze) -> tuple[str, ...]:
        wanted, own = silver_schema(bronze.schema, self.key), self.schema
        missing = [field for field in wanted if field.name not in own.names]
        odd = [
            f"{field.name} is {own.field(field.name).type} and {field.type} in bronze"
            for field in wanted
            if field.name in own.names and not same_type(own.field(field.name).type, field.type)
        ]
        if odd:
            raise SchemaDrift(
                f"{self.location}: {'; '.join(odd)}. Name another silver path, which is then built from "
                "bronze"
            )
        if missing:
            self.table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
            self.reload()
        return tuple(field.name for field in missing)

    def commit(
        self,
        files: Sequence[AddAction | RemoveAction],
        position: SilverPosition,
        *,
        user_metadata: Mapping[str, Any],
    ) -> int:
        """Commit on exactly this version and return the new one. Reload before the next commit.

        :raises deltalake.exceptions.CommitFailedError: another commit came first; nothing was written.
        """
        return self.commit_files(
            files,
            event=MERGE_EVENT,
            transactions=position_transactions(position),
            user_metadata=user_metadata,
            overtaken=False,
        )


def open_silver(location: TableLocation) -> Silver | None:
    """Open the table at its newest version; None if it does not exist.

    :raises ForeignTable: a Delta table that is not a silver table of this package.
    """
    table = open_table(location)
    return None if table is None else Silver(location, table)


def create_silver(location: TableLocation, bronze: Bronze, *, key: Sequence[str]) -> Silver:
    """Create an empty silver table for a bronze table; concurrent creators get the same one."""
    identity = bronze.identity
    schema = silver_schema(bronze.schema, key)
    table = create_table(
        location,
        schema,
        name=f"{identity.schema}.{identity.table}",
        description=f"Current state of {described(identity)}, one row per {', '.join(key)}",
        properties=silver_properties(schema, key, identity=identity),
    )
    return Silver(location, table)


def refuse_foreign(silver: Silver, bronze: Bronze) -> None:
    """:raises ForeignTable: silver and bronze are of different source tables."""
    if silver.identity != bronze.identity:
        raise ForeignTable(
            f"{silver.location} is the state of {described(silver.identity)}, and {bronze.location} belongs "
            f"to {described(bronze.identity)}. Name another silver path"
        )


def bronze_number(bronze: Bronze) -> int:
    """Return 63 bits of a hash of the table's id, which fit into a Delta transaction."""
    # A transaction's version is a signed long (Delta protocol, "Transaction Identifiers"): 63 bits.
    digest = hashlib.sha256(str(bronze.table.metadata().id).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def position_of(bronze: Bronze, snapshot: Lsn, *, doubled: int) -> SilverPosition:
    """Return silver's position when it contains everything of this version of bronze."""
    coverage = bronze.state.coverage
    assert coverage is not None
    number = bronze_number(bronze)
    return SilverPosition(number, bronze.version, snapshot, coverage.changes, doubled=doubled)
