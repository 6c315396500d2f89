"""The columns that an instance records and bronze's: agreed on once per run, and put on record."""

from __future__ import annotations

from typing import Any

from airflow_provider_mssql_cdc.errors import PermissionDenied, SourceObjectMissing, StatementFailed
from airflow_provider_mssql_cdc.jobs.change_facts import write_change_facts
from airflow_provider_mssql_cdc.jobs.change_source import RecordedColumns
from airflow_provider_mssql_cdc.jobs.changes_run import ChangesRun
from airflow_provider_mssql_cdc.lake.evolution import add_columns, column_drift
from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.schema_changes import SchemaDecision, decide_schema
from airflow_provider_mssql_cdc.source.instances import lsn_of
from airflow_provider_mssql_cdc.tsql import cdc


def agree_on_columns(run: ChangesRun, instance: CaptureInstance) -> RecordedColumns:
    """What to read from this instance; bronze has a column for all of it then.

    :raises SchemaDrift: values would be lost, or replaced by NULL, without anybody having said so.
    """
    columns = run.source.recorded(instance)
    if instance.identity in run.judged:
        return _known_to_bronze(run, columns)
    decision = decide_schema(
        column_drift(run.bronze, columns.lake_columns),
        instance=instance.name,
        source_columns=run.source.description.columns,
        recorded=columns.recorded,
        accept_nulls=run.request.accept_nulls,
    )
    if decision.uncaptured:
        run.note(
            f"column(s) {', '.join(decision.uncaptured)} of the source table are not recorded by capture "
            f"instance {instance.name}, so bronze does not have them; a second capture instance would record "
            "them"
        )
    _record(run, instance, decision)
    if decision.add:
        add_columns(run.bronze, decision.add)
    run.judged.add(instance.identity)
    return _known_to_bronze(run, columns)


def _known_to_bronze(run: ChangesRun, columns: RecordedColumns) -> RecordedColumns:
    """Without columns that are gone from the source and were never in bronze: they hold nothing any more."""
    names = set(run.bronze.schema.names)
    known = tuple(column for column in columns.columns if column.lake.name in names)
    return RecordedColumns(known, columns.recorded, columns.has_command_id)


def _record(run: ChangesRun, instance: CaptureInstance, decision: SchemaDecision) -> None:
    """One ``schema_change`` row per DDL statement, and one for columns that are added on purpose."""
    for change in _history(run, instance):
        lsn = lsn_of(change["ddl_lsn"])
        if lsn is not None:
            detail = {"ddl": change["ddl_command"], "ddl_time": str(change["ddl_time"])}
            _write(run, instance, at=lsn, detail=detail)
    if decision.add:
        added = [column.source_name for column in decision.add]
        _write(run, instance, at=run.position, detail={"added": added, "new_columns": "null"})


def _write(run: ChangesRun, instance: CaptureInstance, *, at: Lsn, detail: dict[str, Any]) -> None:
    row = FactsRow(
        event="schema_change",
        target=run.bronze.location.uri,
        capture_instance=instance.name,
        min_lsn=at,
        detail=detail,
    )
    identifier = facts_identifier(row.target, "schema_change", at)
    write_change_facts(run, row, identifier=f"{identifier}.added" if "added" in detail else identifier)


def _history(run: ChangesRun, instance: CaptureInstance) -> list[dict[str, Any]]:
    try:
        return run.session.rows(cdc.ddl_history(instance.name), doing="asking for DDL history")
    except (PermissionDenied, SourceObjectMissing, StatementFailed):
        return []
