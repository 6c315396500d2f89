"""The tables of a database that CDC tracks, with row estimates, in a few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import ConfigurationError, PermanentError
from airflow_provider_mssql_cdc.model.source_table import SourceTable
from airflow_provider_mssql_cdc.model.tracked import TableName, TrackedTable
from airflow_provider_mssql_cdc.planning.ranges import rows_told
from airflow_provider_mssql_cdc.source.instances import instance_of
from airflow_provider_mssql_cdc.source.session import Answer, SourceSession
from airflow_provider_mssql_cdc.tsql import catalog, cdc

_ASKING = "asking which tables CDC tracks"
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class TrackedTables:
    """The tracked tables that this login sees.

    :param database: its name.
    :param tables: with their capture instances, by schema and name.
    """

    database: str
    tables: tuple[TrackedTable, ...]


def tracked_tables(session: SourceSession) -> TrackedTables:
    """Query all tracked tables at once.

    A tracked table whose instances this login may not read is listed without instances: its job reports the
    missing permission.

    :raises ConfigurationError: CDC is off in the database.
    """
    asked = session.answers(
        [catalog.database_facts(), catalog.tracked_tables(), cdc.instances()], doing=_ASKING
    )
    database, tables, listed = asked[0].row, asked[1], asked[2]
    if not database["is_cdc_enabled"]:
        raise ConfigurationError(
            f"{session.settings.label}: CDC is off in database {database['database_name']}: "
            "EXEC sys.sp_cdc_enable_db, then sys.sp_cdc_enable_table for each table"
        )
    instances = _instances_by_table(listed)
    names = [TableName(row["schema_name"], row["table_name"]) for row in tables.rows]
    found = [TrackedTable(name, tuple(instances.get(name, ()))) for name in names]
    return TrackedTables(database["database_name"], tuple(found))


def _instances_by_table(listed: Answer) -> dict[TableName, list[str]]:
    """Return instance names, newest first; none when the procedure fails because it has none to show."""
    try:
        rows = listed.rows
    except PermanentError:
        return {}
    found = [instance_of(row) for row in rows]
    by_table: dict[TableName, list[str]] = {}
    for instance in sorted(found, key=lambda one: (one.create_date, one.change_table_id), reverse=True):
        by_table.setdefault(TableName(instance.source_schema, instance.source_table), []).append(
            instance.name
        )
    return by_table


def estimated_rows(session: SourceSession, names: Sequence[TableName]) -> list[int | None]:
    """Return row counts from metadata, in the order of ``names``; None when unknown."""
    found: list[int | None] = []
    for start in range(0, len(names), _AT_ONCE):
        tables = [SourceTable("", name.schema, name.table, 0) for name in names[start : start + _AT_ONCE]]
        answers = session.answers(
            [catalog.space_used(table) for table in tables], doing="estimating the tables' rows"
        )
        found += [None if answer.error is not None else rows_told(answer.rows) for answer in answers]
    return found
