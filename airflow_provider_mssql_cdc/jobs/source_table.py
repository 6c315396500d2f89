"""The source table as a job needs it: described, typed, keyed, and checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import PreflightFailed
from airflow_provider_mssql_cdc.model.columns import Column
from airflow_provider_mssql_cdc.model.plan import columns_hash
from airflow_provider_mssql_cdc.model.planned_column import LakeColumn, PlannedColumn
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.key_choice import KeyChoice, choose_keys
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, describe
from airflow_provider_mssql_cdc.table import MssqlCdcTable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


@dataclass(frozen=True, slots=True)
class LoadableTable:
    """A source table that passed every check: what to read, on what to cut, and whose bronze it is.

    ``notes`` are sentences for the log: what was chosen, what is left out, what could not be told.
    """

    description: SourceDescription
    columns: tuple[PlannedColumn, ...]
    keys: KeyChoice
    identity: SourceIdentity
    notes: tuple[str, ...] = ()

    @property
    def lake_columns(self) -> tuple[LakeColumn, ...]:
        return tuple(column.lake for column in self.columns)

    @property
    def split_columns(self) -> tuple[Column, ...]:
        return self.keys.split_by or ()

    @property
    def split_hash(self) -> str:
        """Eight hex digits over the split columns: the bounds of a plan hold for these alone."""
        return columns_hash(tuple((column.name, str(column.sql_type)) for column in self.split_columns))


def loadable_table(session: SourceSession, table: MssqlCdcTable) -> LoadableTable:
    """Describe the table and check all of it, so that every problem is reported at once.

    :raises PreflightFailed: with one sentence, and its remedy, for each problem.
    """
    description = describe(session, capture_instance=table.capture_instance, source=table.source)
    columns = plan_columns(description.columns, table.casts or {})
    keys = choose_keys(description, key=table.key, split_by=table.split_by)
    problems = (*description.problems, *columns.problems, *keys.problems)
    if problems:
        raise PreflightFailed(table.label, problems)
    identity = SourceIdentity(
        conn_id=table.mssql_conn_id,
        database=description.table.database,
        schema=description.table.schema,
        table=description.table.name,
    )
    notes = (*description.notes, *columns.warnings, *keys.reasons)
    return LoadableTable(description, columns.columns, keys, identity, notes)
