"""The source of changes on one session: the capture instance, its siblings, and what each records."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import NotReadyYet, PreflightFailed, SourceObjectMissing
from airflow_provider_mssql_cdc.jobs.source_table import described_source, key_problems
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import InstanceMark
from airflow_provider_mssql_cdc.model.source_table import Column, LakeColumn, PlannedColumn
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.keys import choose_key
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.planning.windows import Reach
from airflow_provider_mssql_cdc.source.catalog import SourceDescription, described_columns
from airflow_provider_mssql_cdc.source.instances import refreshed, visible_instances
from airflow_provider_mssql_cdc.source.watermarks import low_and_captured
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession

_COMMAND_ID = "__$command_id"


@dataclass(frozen=True, slots=True)
class RecordedColumns:
    """What one capture instance records, as its change table holds it.

    :param columns: planned as for a snapshot, so that a cell has one value either way.
    :param recorded: (name, column id) of all of them, computed ones included.
    :param has_command_id: whether the change table has ``__$command_id``; old builds made none.
    """

    columns: tuple[PlannedColumn, ...]
    recorded: frozenset[tuple[str, int]]
    has_command_id: bool

    @property
    def lake_columns(self) -> tuple[LakeColumn, ...]:
        return tuple(column.lake for column in self.columns)


class ChangeSource:
    """One table's changes as one session sees them; one per run, so that every answer is of one server."""

    def __init__(self, session: SourceSession, table: MssqlCdcTable) -> None:
        self.session, self.table = session, table
        self.description: SourceDescription = described_source(session, table)
        if problems := (*self.description.problems, *self._key_problems()):
            raise PreflightFailed(table.label, problems)
        self._recorded: dict[str, RecordedColumns] = {}
        self._siblings: tuple[CaptureInstance, ...] | None = None

    def _key_problems(self) -> tuple[str, ...]:
        """A cast that was added since the snapshot makes keys one in changes too."""
        casts, allow = self.table.casts or {}, self.table.allow or ()
        key, _, _ = choose_key(self.description, self.table.key)
        planned = plan_columns(self.description.columns, casts, allow).columns
        return key_problems(self.description, planned, key or (), allow=allow)

    @property
    def instance(self) -> CaptureInstance:
        """The one that the table names."""
        return self.description.instance

    @property
    def identity(self) -> SourceIdentity:
        source = self.description.table
        return SourceIdentity(
            conn_id=self.table.mssql_conn_id,
            database=source.database,
            schema=source.schema,
            table=source.name,
            object_id=source.object_id,
        )

    @property
    def siblings(self) -> tuple[CaptureInstance, ...]:
        """The table's other capture instances, as far as this login sees them; asked once, when needed."""
        # No cached_property: before Python 3.12 one that waits for a server stops all threads that need it.
        if self._siblings is None:
            named = self.instance.source_schema, self.instance.source_table
            found = visible_instances(self.session, named)
            self._siblings = tuple(other for other in found if other.identity != self.instance.identity)
        return self._siblings

    def reach(self, instance: CaptureInstance | None = None) -> Reach:
        """What an instance can give at this moment: its low watermark is asked for anew."""
        asked = instance or self.instance
        return Reach(asked, *low_and_captured(self.session, asked))

    def bridges(self) -> list[Reach]:
        """What the table's other capture instances can give; asked when the configured one does not do.

        Those that are not ready give nothing.
        """
        reaches = []
        for sibling in self.siblings:
            with contextlib.suppress(NotReadyYet):
                reaches.append(self.reach(sibling))
        return reaches

    def still_there(self, instance: CaptureInstance) -> Reach:
        """The reach of an instance after a read: the same change table, and its low watermark now.

        :raises NotReadyYet: the instance was dropped, or made anew, while it was read.
        """
        try:
            return self.reach(refreshed(self.session, instance))
        except SourceObjectMissing as exc:
            raise NotReadyYet(
                f"{self.table.label}: capture instance {instance.name} was dropped or made anew while it was "
                "read; nothing of this window was committed. The next attempt sees what is there now"
            ) from exc

    def recorded(self, instance: CaptureInstance) -> RecordedColumns:
        """What the instance records; asked once.

        :raises PreflightFailed: a column that cannot be planned.
        """
        if instance.identity not in self._recorded:
            self._recorded[instance.identity] = self._plan(instance)
        return self._recorded[instance.identity]

    def _plan(self, instance: CaptureInstance) -> RecordedColumns:
        rows = self.session.rows(cdc.captured_columns(instance.name), doing="asking for captured columns")
        ids = {row["column_name"]: int(row["column_id"]) for row in rows}
        stored = described_columns(self.session, instance.change_table_id)
        source = {(column.name, column.column_id): column for column in self.description.columns}
        columns = [
            _as_recorded(column, source.get((column.name, ids[column.name])))
            for column in stored
            if column.name in ids
        ]
        known = {column.name.casefold() for column in columns}
        casts = {name: to for name, to in (self.table.casts or {}).items() if name.casefold() in known}
        allow = [name for name in self.table.allow or () if name.casefold() in known]
        plan = plan_columns(columns, casts, allow)
        if plan.problems:
            raise PreflightFailed(f"{self.table.label}, capture instance {instance.name},", plan.problems)
        return RecordedColumns(
            columns=plan.columns,
            recorded=frozenset(ids.items()),
            has_command_id=any(column.name == _COMMAND_ID for column in stored),
        )


def _as_recorded(stored: Column, source: Column | None) -> Column:
    """The change table's type, with what only the source table tells; without it the column was dropped."""
    if source is None:
        return stored
    facts: dict[str, Any] = {
        "computed": source.computed,
        "masked": source.masked,
        "encrypted": source.encrypted,
        "column_set": source.column_set,
    }
    return replace(stored, column_id=source.column_id, nullable=True, **facts)


def mark_of(instance: CaptureInstance) -> InstanceMark:
    """What bronze remembers of an instance that was read."""
    return InstanceMark(instance.change_table_id & 0xFFFFFFFF, instance.create_date)
