"""The tables of schema cdc: their columns as SQL Server documents them. Pure."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlType

LSN = SqlType("binary", 10)
INT = SqlType("int")
BIT = SqlType("bit")
DATETIME = SqlType("datetime")
MASK = SqlType("varbinary", 128)

Columns = tuple[tuple[str, SqlType, bool], ...]
"""Name, type, nullable."""


def sysname() -> SqlType:
    """nvarchar(128)."""
    return SqlType("nvarchar", 256)


METADATA: dict[str, tuple[Columns, tuple[str, ...]]] = {
    "change_tables": (
        (
            ("object_id", INT, False),
            ("version", INT, True),
            ("source_object_id", INT, True),
            ("capture_instance", sysname(), False),
            ("start_lsn", LSN, True),
            ("end_lsn", LSN, True),
            ("supports_net_changes", BIT, True),
            ("has_drop_pending", BIT, True),
            ("role_name", sysname(), True),
            ("index_name", sysname(), True),
            ("filegroup_name", sysname(), True),
            ("create_date", DATETIME, True),
            ("partition_switch", BIT, False),
        ),
        ("object_id",),
    ),
    "captured_columns": (
        (
            ("object_id", INT, False),
            ("column_name", sysname(), False),
            ("column_id", INT, True),
            ("column_type", sysname(), False),
            ("column_ordinal", INT, False),
            ("is_computed", BIT, True),
        ),
        ("object_id", "column_ordinal"),
    ),
    "index_columns": (
        (
            ("object_id", INT, False),
            ("column_name", sysname(), False),
            ("index_ordinal", SqlType("tinyint"), False),
            ("column_id", INT, False),
        ),
        ("object_id", "index_ordinal"),
    ),
    "ddl_history": (
        (
            ("source_object_id", INT, True),
            ("object_id", INT, False),
            ("required_column_update", BIT, True),
            ("ddl_command", SqlType("nvarchar", MAX), True),
            ("ddl_lsn", LSN, False),
            ("ddl_time", DATETIME, True),
        ),
        ("object_id", "ddl_lsn"),
    ),
    "lsn_time_mapping": (
        (
            ("start_lsn", LSN, False),
            ("tran_begin_time", DATETIME, True),
            ("tran_end_time", DATETIME, True),
            ("tran_id", SqlType("varbinary", 10), True),
            ("tran_begin_lsn", LSN, True),
        ),
        ("start_lsn",),
    ),
}
"""Name → columns and primary key of the tables that ``sp_cdc_enable_db`` makes."""

CHANGE_KEY = ("__$start_lsn", "__$command_id", "__$seqval", "__$operation")
_OLD_BUILD_KEY = ("__$start_lsn", "__$seqval", "__$operation")


def change_table(instance: CaptureInstance) -> tuple[Columns, tuple[str, ...]]:
    """Columns and key of a change table; every captured column is nullable there."""
    head: Columns = (
        ("__$start_lsn", LSN, False),
        ("__$end_lsn", LSN, True),
        ("__$seqval", LSN, False),
        ("__$operation", INT, False),
        ("__$update_mask", MASK, True),
    )
    captured: Columns = tuple((column.name, _plain(column.type), True) for column in instance.columns)
    if not instance.command_ids:
        return head + captured, _OLD_BUILD_KEY
    return (*head, *captured, ("__$command_id", INT, True)), CHANGE_KEY


def _plain(type_: SqlType) -> SqlType:
    """A rowversion is stored as the bytes it had, not made anew."""
    return SqlType("binary", 8) if type_.name in ("rowversion", "timestamp") else type_
