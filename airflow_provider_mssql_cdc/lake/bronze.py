"""A bronze table: open, create once, reload, add columns explicitly."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.arrow_types import arrow_type
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ForeignTable,
    PermanentError,
    SchemaDrift,
    SourceObjectMissing,
    StateDamaged,
)
from airflow_provider_mssql_cdc.lake import schema as lake_schema
from airflow_provider_mssql_cdc.lake.delta_table import (
    LakeTable,
    create_table,
    open_table,
    stored_files,
    until_committed,
)
from airflow_provider_mssql_cdc.lake.log import Thinned, down_to_ours, noticed, read_thinned, refuse_restored
from airflow_provider_mssql_cdc.lake.schema import (
    METADATA_NAMES,
    SOURCE_PROPERTY,
    captured_field,
    described,
    identity_text,
    read_identity,
    refuse_unsafe_properties,
    same_type,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.lake.transactions import (
    SOURCE_OBJECT,
    read_fold,
    read_lsn,
    read_state,
    run_app_id,
)
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import BronzeState, Fold, SourceIdentity
from airflow_provider_mssql_cdc.planning.columns import ColumnDrift
from airflow_provider_mssql_cdc.planning.coverage import refuse_other_object

log = logging.getLogger(__name__)


class Bronze(LakeTable):
    """A handle on one version of a bronze table, validated on open and reload.

    A decision based on :attr:`state` is committed by :meth:`commit` with the same handle: if another commit
    came first, it fails, and the caller reloads and decides again.
    """

    def __init__(self, location: TableLocation, table: DeltaTable) -> None:
        self._warned: int | None = None
        super().__init__(location, table)

    def _take(self, table: DeltaTable) -> None:
        identity = read_identity(table)
        refuse_unsafe_properties(table)
        state = read_state(table)
        refuse_rows_without_position(table, state)
        commits = down_to_ours(table)
        refuse_restored(table, state, commits)
        self.table, self.state, self.identity = table, state, identity
        self._noticed = noticed(commits, lambda: TableStorage(self.location), state=state)
        self._warn_of_thinned()

    @property
    def thinned(self) -> Thinned | None:
        """Return rows that another tool removed; they affect every snapshot at or below its position."""
        return self._noticed or read_thinned(self.table)

    def noticed_transactions(self) -> Sequence[Transaction]:
        return self._noticed.transactions() if self._noticed else ()

    def _warn_of_thinned(self) -> None:
        """Warn once per task: its loads continue, silver does not."""
        thinned, snapshot = self.thinned, self.state.snapshot
        if thinned is None or thinned.version == self._warned:
            return
        if snapshot is None or snapshot <= thinned.position:
            log.warning("%s: %s. Silver cannot be kept from it: %s", self.location, thinned, thinned.remedy)
            self._warned = thinned.version

    @property
    def newest(self) -> Lsn | None:
        """Return the LSN that a new snapshot must exceed: of all known S, and of rows that were removed."""
        known = (self.state.newest, self.thinned.position if self.thinned else None)
        return max((lsn for lsn in known if lsn is not None), default=None)

    @property
    def fold(self) -> Fold | None:
        """Return the fold that wrote bronze's complete snapshot; None when it was read from the source."""
        fold = read_fold(self.table)
        return fold if fold is not None and fold.at == self.state.snapshot else None

    def refuse_thinned(self, snapshot: Lsn) -> None:
        """:raises StateDamaged: rows that silver needs may have been removed by another tool."""
        if self.thinned is not None:
            self.thinned.refuse(self.location, snapshot)

    @property
    def schema(self) -> pa.Schema:
        """Return bronze's columns as Arrow types."""
        return pa.schema(self.table.schema())

    def check_identity(self, identity: SourceIdentity) -> None:
        """:raises ForeignTable: the table belongs to another source table."""
        if self.identity != identity:
            raise ForeignTable(
                f"{self.location} belongs to {described(self.identity)}, not to {described(identity)}. "
                f"Name another bronze path; if the database moved, set the table property {SOURCE_PROPERTY} "
                f"to {identity_text(identity)}"
            )

    def check_object(self, identity: SourceIdentity) -> None:
        """:raises ForeignTable: another table has the source's name now than the one that was loaded."""
        refuse_other_object(self.state, identity, where=str(self.location))

    def object_transactions(self, identity: SourceIdentity) -> list[Transaction]:
        """Return the transactions that record the source table's object id; empty if it is recorded."""
        known, found = self.state.source_object, identity.object_id
        if found is None or found == known:
            return []
        before = "none was recorded" if known is None else f"it was {known}"
        log.info(
            "%s: the source table's object id is recorded with this commit: %d (%s)",
            *(self.location, found, before),
        )
        return [Transaction(SOURCE_OBJECT, found)]

    def check_columns(self, columns: Sequence[LakeColumn]) -> tuple[str, ...]:
        """Check that bronze has every planned column with its type; return captured names only bronze has.

        Those columns stay NULL in new rows.

        :raises SchemaDrift: names each column that is missing or has another type.
        """
        stored = {field.name: field.type for field in self.schema}
        planned = lake_schema.bronze_schema(columns)
        problems = [
            f"{field.name} is not there (planned {field.type})"
            if field.name not in stored
            else f"{field.name} is {stored[field.name]}, planned {field.type}"
            for field in planned
            if field.name not in stored or not lake_schema.same_type(field.type, stored[field.name])
        ]
        if problems:
            raise SchemaDrift(
                f"{self.location} and the source table do not have the same columns: {'; '.join(problems)}. "
                "A new snapshot brings columns that are new: mssql_cdc_bootstrap(resnapshot=True). "
                "Else load into a new bronze path, or give the column a cast that keeps its type"
            )
        return tuple(name for name in stored if name not in planned.names)

    def snapshot_of_run(self, run: str) -> Lsn | None:
        """Return S of the resnapshot that this Airflow run completed; None if it did not."""
        return read_lsn(self.table, run_app_id(run))

    def commit(
        self,
        files: Sequence[AddAction | RemoveAction],
        *,
        transactions: Sequence[Transaction],
        event: Event,
        user_metadata: Mapping[str, Any],
        overtaken: bool = True,
    ) -> int:
        """Commit on this handle's version and return the new version. Reload before the next commit.

        :param event: the event's name in the facts.
        :param user_metadata: for readers of the log, as JSON; lost when Delta cleans up its log.
        :param overtaken: whether non-conflicting commits may have come first. False when files are removed:
            delta-rs does not detect that an OPTIMIZE has moved their rows elsewhere.
        :raises deltalake.exceptions.CommitFailedError: another commit came first; nothing was written.
        """
        return self.commit_files(
            files,
            event=event,
            transactions=transactions,
            user_metadata=user_metadata,
            overtaken=overtaken,
        )


def open_bronze(location: TableLocation) -> Bronze | None:
    """Open the table at its newest version; None if it does not exist.

    :raises ForeignTable: a Delta table that this package did not create.
    :raises StateDamaged: its transactions, rows and log are inconsistent.
    :raises ConfigurationError: the path is a file.
    """
    if location.local_path is not None and location.local_path.is_file():
        raise ConfigurationError(f"{location} is a file, and a Delta table is a folder; name another path")
    table = open_table(location)
    return None if table is None else Bronze(location, table)


def open_existing(location: TableLocation) -> Bronze:
    """Open the table that ``plan`` created.

    :raises SourceObjectMissing: it does not exist.
    """
    bronze = open_bronze(location)
    if bronze is None:
        raise SourceObjectMissing(
            f"there is no Delta table at {location}; plan creates it. With several workers it must be a path "
            "that all of them share. Clear the plan task"
        )
    return bronze


def open_or_create(
    location: TableLocation, identity: SourceIdentity, columns: Sequence[LakeColumn]
) -> Bronze:
    """Open the source table's bronze or create it; concurrent creators get the same table.

    :raises ForeignTable: it belongs to another source table.
    :raises SchemaDrift: it has other columns.
    :raises ConfigurationError: no table can be created at its path.
    """
    bronze = open_bronze(location) or _create(location, identity, columns=columns)
    bronze.check_identity(identity)
    bronze.check_columns(columns)
    return bronze


def problems_with(
    location: TableLocation, identity: SourceIdentity, columns: Sequence[LakeColumn]
) -> tuple[str, ...]:
    """Return the errors that :func:`open_or_create` would raise, as sentences; writes nothing."""
    try:
        bronze = open_bronze(location)
    except PermanentError as exc:
        return (str(exc),)
    if bronze is None:
        return ()
    problems: list[str] = []
    for check in (lambda: bronze.check_identity(identity), lambda: bronze.check_columns(columns)):
        try:
            check()
        except PermanentError as exc:
            problems.append(str(exc))
    return tuple(problems)


def _create(location: TableLocation, identity: SourceIdentity, *, columns: Sequence[LakeColumn]) -> Bronze:
    try:
        table = create_table(
            location,
            lake_schema.bronze_schema(columns),
            name=f"{identity.schema}.{identity.table}",
            description=f"Snapshot rows and changes of {described(identity)}, one row each, by LSN",
            properties=lake_schema.bronze_properties(columns, identity),
        )
    except DeltaError as exc:
        if location.local_path is None:
            raise
        raise ConfigurationError(
            f"no Delta table can be made at {location}: {exc}. Name a folder that workers can write to"
        ) from exc
    return Bronze(location, table)


def column_drift(bronze: Bronze, columns: Sequence[LakeColumn]) -> ColumnDrift:
    """Compare the columns that an instance records with bronze's."""
    stored = {field.name: field.type for field in bronze.schema if field.name not in METADATA_NAMES}
    read = {column.name: arrow_type(column.data_type) for column in columns}
    return ColumnDrift(
        added=tuple(column for column in columns if column.name not in stored),
        retyped=tuple(
            f"{name} is {stored[name]} in bronze, the source has {read_type}"
            for name, read_type in read.items()
            if name in stored and not same_type(stored[name], read_type)
        ),
        absent=tuple(name for name in stored if name not in read),
    )


def add_columns(bronze: Bronze, columns: Sequence[LakeColumn]) -> tuple[str, ...]:
    """Add columns to bronze, NULL in existing rows; return the names of the new ones.

    Reloads the handle. Idempotent: columns that another run added concurrently are kept.
    """

    def once() -> tuple[str, ...]:
        missing = [column for column in columns if column.name not in bronze.schema.names]
        if missing:
            fields = [captured_field(each) for each in missing]
            bronze.table.alter.add_columns(Schema.from_arrow(pa.schema(fields)).fields)
        return tuple(column.name for column in missing)

    added = until_committed(once, what=f"columns into {bronze.location}", reload=bronze.reload)
    bronze.reload()
    if added:
        log.info("%s: added columns %s, NULL in the rows so far", bronze.location, ", ".join(added))
    return added


def refuse_rows_without_position(table: DeltaTable, state: BronzeState) -> None:
    """Refuse rows without a position: copied files, or rows written by another tool.

    :raises StateDamaged: with the remedy.
    """
    if state.coverage is None and _holds_rows(table):
        raise StateDamaged(
            f"{table.table_uri} at version {state.version} holds rows and no position: it was copied without "
            "its log, or another tool wrote to it. Load into a new bronze path"
        )


def _holds_rows(table: DeltaTable) -> bool:
    return any(file.records is None or file.records > 0 for file in stored_files(table))
