"""The results of the help procedures, and which logins may ask for them."""

from __future__ import annotations

from typing import Any

from airflow_provider_mssql_cdc.embedded.cdc.enable import quote_names
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import CapturedColumn, CaptureInstance
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.engine.schema.views import columns
from airflow_provider_mssql_cdc.embedded.engine.values.types import catalog_precision, max_length
from airflow_provider_mssql_cdc.embedded.seam import MAX, Row, SqlType


def require_sysadmin(session: Session) -> None:
    """Enabling a database needs sysadmin. Error 22902."""
    if not session.is_sysadmin:
        raise cdc_error(22902, "System Administrator")


def require_owner(session: Session) -> None:
    """Enabling a table needs db_owner. Error 22904."""
    if not permissions.is_owner(session, session.catalog()):
        raise cdc_error(22904)


def may_read(session: Session, catalog: Catalog, instance: CaptureInstance) -> bool:
    """Whether the instance exists for this login: it may SELECT every captured column, and is in the role."""
    if permissions.is_owner(session, catalog):
        return True
    user, source = permissions.user_of(session, catalog), catalog.by_id(instance.source_object_id)
    if user is None or source is None:
        return False
    if instance.role_name and catalog.fold(instance.role_name) not in permissions.roles_of(catalog, user):
        return False
    present = {column.column_id: column.name for column in source.columns}
    return all(
        permissions.allowed(session, catalog, "SELECT", table=source, column=present[column.column_id])
        for column in instance.columns
        if column.column_id in present
    )


_CHARACTERS = frozenset({"char", "varchar", "text", "nchar", "nvarchar", "ntext", "xml"})
_BYTES = frozenset({"binary", "varbinary", "image", "timestamp", "rowversion"})
_NATIONAL = frozenset({"nchar", "nvarchar", "ntext"})
_MOMENTS = {"datetime": 3, "smalldatetime": 0, "date": 0}
_BINARY_RADIX = frozenset({"real", "float"})
_NUMBERS = frozenset(
    {"tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney", "real", "float"}
)

HELP = columns(
    """source_schema:name source_table:name capture_instance:name object_id:int source_object_id:int
    start_lsn:lsn end_lsn:lsn supports_net_changes:bit has_drop_pending:bit role_name:name index_name:name
    filegroup_name:name create_date:datetime index_column_list:text captured_column_list:text"""
)
CAPTURED_COLUMNS = columns(
    """source_schema:name source_table:name capture_instance:name column_name:name column_id:int
    data_type:name character_maximum_length:int numeric_precision:tinyint numeric_precision_radix:smallint
    numeric_scale:int datetime_precision:smallint column_ordinal:int"""
)
DDL_HISTORY = columns(
    """source_schema:name source_table:name capture_instance:name required_column_update:bit
    ddl_command:text ddl_lsn:lsn ddl_time:datetime"""
)


def help_row(instance: CaptureInstance, *, start_lsn: bytes, has_drop_pending: int | None) -> Row:
    """One capture instance, as ``sp_cdc_help_change_data_capture`` lists it."""
    return (
        instance.source_schema,
        instance.source_table,
        instance.name,
        instance.object_id,
        instance.source_object_id,
        start_lsn,
        None,
        int(instance.supports_net_changes),
        has_drop_pending,
        instance.role_name,
        instance.index_name,
        instance.filegroup_name,
        instance.create_date,
        quote_names(instance.index_columns) if instance.index_columns else None,
        quote_names(tuple(column.name for column in instance.columns)),
    )


def captured_rows(instance: CaptureInstance) -> list[Row]:
    """The captured columns, as ``sp_cdc_get_captured_columns`` lists them."""
    head = (instance.source_schema, instance.source_table, instance.name)
    return [
        (*head, column.name, column.column_id, *_type_columns(column), column.ordinal)
        for column in instance.columns
    ]


def _type_columns(column: CapturedColumn) -> tuple[Any, ...]:
    """data_type, character_maximum_length, precision, radix, scale, datetime_precision."""
    type_ = column.type
    precision, scale = catalog_precision(type_)
    if type_.name in _CHARACTERS | _BYTES:
        return type_.name, _characters(type_), None, None, None, None
    if type_.name in _NUMBERS:
        radix, shown = (2, None) if type_.name in _BINARY_RADIX else (10, scale)
        return type_.name, None, precision, radix, shown, None
    if type_.name in _MOMENTS or type_.name in ("time", "datetime2", "datetimeoffset"):
        return type_.name, None, None, None, None, _MOMENTS.get(type_.name, scale)
    return type_.name, None, None, None, None, None


def _characters(type_: SqlType) -> int:
    if type_.name in ("text", "image"):
        return 2_147_483_647
    if type_.name == "ntext":
        return 1_073_741_823
    length = max_length(type_)
    return length // 2 if type_.name in _NATIONAL and length != MAX else length
