"""The source table as a job needs it: described, typed, keyed, and validated as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import (
    PermissionDenied,
    PreflightFailed,
    ReplicaBehind,
    SourceObjectMissing,
)
from airflow_provider_mssql_cdc.lake.bronze import Bronze, column_drift, open_bronze
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, columns_hash
from airflow_provider_mssql_cdc.model.source_table import Column, LakeColumn, PlannedColumn, SnapshotHeader
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.columns import (
    ColumnDrift,
    SchemaDecision,
    cast_problems,
    code_page_problems,
    decide_schema,
    is_reserved,
)
from airflow_provider_mssql_cdc.planning.keys import KeyChoice, choose_keys
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, describe
from airflow_provider_mssql_cdc.source.watermarks import captured, is_read_only
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


TargetCheck = Callable[[SourceIdentity, Sequence[LakeColumn]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class LoadableTable:
    """A source table that passed all checks: its columns, key, split columns and identity.

    ``notes`` are sentences for the log: choices made, columns left out, checks that were not possible.
    ``casts`` are the user's, by source column name.
    """

    description: SourceDescription
    columns: tuple[PlannedColumn, ...]
    keys: KeyChoice
    identity: SourceIdentity
    notes: tuple[str, ...] = ()
    casts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lake_columns(self) -> tuple[LakeColumn, ...]:
        return tuple(column.lake for column in self.columns)

    def header(self, snapshot: Lsn, commit_ts: datetime | None, *, attempt: Attempt) -> SnapshotHeader:
        """Return the common values of all reads and commits of snapshot S.

        :param commit_ts: commit time of S (UTC).
        """
        instance = self.description.instance.name
        return SnapshotHeader(
            self.identity, instance, snapshot, commit_ts, self.lake_columns, attempt.run, attempt.run_id
        )

    @property
    def split_columns(self) -> tuple[Column, ...]:
        return self.keys.split_by or ()

    @property
    def split_hash(self) -> str:
        """Return eight hex digits over the split columns: the bounds of a plan are valid only for these."""
        return columns_hash(tuple((column.name, str(column.sql_type)) for column in self.split_columns))


def described_source(
    session: SourceSession, table: MssqlCdcTable, *, snapshot: Lsn | None = None
) -> SourceDescription:
    """Describe the source table, unless the server that answers is a replica that is behind.

    A replica shows the catalog as of its redo point. An object missing there may have been created since, so
    its absence proves nothing until the replica is above an LSN at which the source is known.

    :param snapshot: S that the task works on; bronze's own position is read when needed.
    :raises ReplicaBehind: the instance or its table is missing on a replica that is behind.
    """
    try:
        return describe(
            session,
            capture_instance=table.capture_instance,
            source=table.source,
            allow=table.allow or (),
        )
    except (PermissionDenied, PreflightFailed, SourceObjectMissing) as exc:
        known = _known_lsn(table, snapshot)
        if known is not None and is_read_only(session):
            reached = captured(session)
            if reached is None or reached <= known:
                raise ReplicaBehind(
                    f"{table.label}: the replica that answers is at {reached}, not above {known}, up to "
                    "which the source is known, and does not show all of it yet; it catches up, or another "
                    f"one answers at the next attempt. Its answer: {exc}"
                ) from exc
        raise


def _known_lsn(table: MssqlCdcTable, snapshot: Lsn | None) -> Lsn | None:
    bronze = open_bronze(TableLocation.bronze_of(table))
    coverage = None if bronze is None else bronze.state.coverage
    newest = None if bronze is None else bronze.state.newest
    known = (snapshot, newest, None if coverage is None else coverage.changes)
    return max((lsn for lsn in known if lsn is not None), default=None)


def loadable_table(
    session: SourceSession,
    table: MssqlCdcTable,
    *,
    also: TargetCheck | None = None,
    snapshot: Lsn | None = None,
) -> LoadableTable:
    """Describe and validate the table; reports all problems at once.

    :param also: returns further problems, such as those of the target; called only when there are problems
        already. A problem of the target alone is raised where the target is opened.
    :param snapshot: S that the task works on, if there is one.
    :raises PreflightFailed: one sentence with its remedy for each problem.
    :raises ReplicaBehind: missing objects may exist on the primary.
    """
    allow = table.allow or ()
    description = described_source(session, table, snapshot=snapshot)
    columns = plan_columns(description.columns, table.casts or {}, allow)
    keys = choose_keys(description, key=table.key, split_by=table.split_by)
    problems = (
        *description.problems,
        *columns.problems,
        *keys.problems,
        *key_problems(description, columns.columns, keys.key or (), allow=allow),
    )
    identity = _identity_of(description, table)
    if problems:
        usable = tuple(column.lake for column in columns.columns if not is_reserved(column.lake.name))
        more = also(identity, usable) if also else ()
        raise PreflightFailed(table.label, (*problems, *more))
    notes = (*description.notes, *columns.warnings, *keys.reasons)
    return LoadableTable(description, columns.columns, keys, identity, notes, casts=table.casts or {})


def key_problems(
    description: SourceDescription,
    columns: Sequence[PlannedColumn],
    key: Sequence[Column],
    *,
    allow: Sequence[str],
) -> tuple[str, ...]:
    """Return why the lake's key would not identify the source's rows (P6); ranges use source values."""
    return (*cast_problems(key, columns), *code_page_problems(key, description.facts, allow=allow))


def decide_columns(bronze: Bronze | None, source: LoadableTable) -> SchemaDecision:
    """Apply the column rules of ``changes`` to the columns of this snapshot.

    Taking a snapshot counts as permission for new columns: it provides a value for every row.

    :raises SchemaDrift: the instance does not record a column of both, so it would become NULL.
    """
    described = source.description
    return decide_schema(
        ColumnDrift() if bronze is None else column_drift(bronze, source.lake_columns),
        instance=described.instance.name,
        source_columns=described.columns,
        recorded=described.recorded,
        accept_nulls=True,
    )


def _identity_of(description: SourceDescription, table: MssqlCdcTable) -> SourceIdentity:
    return SourceIdentity(
        conn_id=table.mssql_conn_id,
        database=description.table.database,
        schema=description.table.schema,
        table=description.table.name,
        object_id=description.table.object_id,
    )
