"""The bronze table that a snapshot is planned for: made, checked, or given the columns that are new."""

from __future__ import annotations

from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze, open_or_create
from airflow_provider_mssql_cdc.lake.evolution import add_columns, column_drift
from airflow_provider_mssql_cdc.lake.location import TableLocation


def bronze_for_snapshot(location: TableLocation, source: LoadableTable, *, resnapshot: bool) -> Bronze:
    """The source table's bronze, with every planned column.

    A resnapshot has a value for every row, so columns that the table has gained since the last one are
    added, NULL in the rows so far; that it was asked for is the decision. Any other snapshot stops at them.

    :raises ForeignTable: it belongs to another source table.
    :raises SchemaDrift: it lacks a column, or has one of another type.
    """
    bronze = open_bronze(location) if resnapshot else None
    if bronze is not None:
        bronze.check_identity(source.identity)
        drift = column_drift(bronze, source.lake_columns)
        if drift.added and not drift.retyped:
            add_columns(bronze, drift.added)
    return open_or_create(location, source.identity, source.lake_columns)
