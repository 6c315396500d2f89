"""Bronze's columns against those of a capture instance, and the columns that bronze is given on purpose."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
from deltalake import Schema

from airflow_provider_mssql_cdc.arrow_types import arrow_type
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.log import until_committed
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, captured_field, same_type
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.planning.columns import ColumnDrift

log = logging.getLogger(__name__)


def column_drift(bronze: Bronze, columns: Sequence[LakeColumn]) -> ColumnDrift:
    """How the columns that an instance records differ from bronze's."""
    stored = {field.name: field.type for field in bronze.schema if field.name not in METADATA_NAMES}
    read = {column.name: arrow_type(column.data_type) for column in columns}
    return ColumnDrift(
        added=tuple(column for column in columns if column.name not in stored),
        retyped=tuple(
            f"{name} is {stored[name]} in bronze and comes as {read_type}"
            for name, read_type in read.items()
            if name in stored and not same_type(stored[name], read_type)
        ),
        absent=tuple(name for name in stored if name not in read),
    )


def add_columns(bronze: Bronze, columns: Sequence[LakeColumn]) -> tuple[str, ...]:
    """Give bronze these columns, NULL in every row that is there; the names that were new.

    Reloads the handle. A column that another run has added meanwhile is left as it is.
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
