"""``sys.sp_cdc_enable_table``: its arguments, checks in SQL Server's order, the instance that comes out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import (
    CapturedColumn,
    CaptureInstance,
    find_instance,
    state_of,
)
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Column, Index, Table

NAME_LENGTH = 100
RESERVED_COLUMNS = ("__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask")

_QUOTED = re.compile(r'\s*(?:\[((?:[^\]]|\]\])*)\]|"((?:[^"]|"")*)"|([^,\["]+?))\s*(?:,|$)')


def parse_column_list(text: str) -> list[str]:
    """The names in ``@captured_column_list``: bare, ``[bracketed]`` or ``"quoted"``, comma between.

    Raises 22965 where a quoted name does not end.
    """
    names, at = [], 0
    while at < len(text):
        found = _QUOTED.match(text, at)
        if found is None or found.end() == at:
            raise cdc_error(22965)
        bracketed, quoted, bare = found.groups()
        if bracketed is not None:
            names.append(bracketed.replace("]]", "]"))
        elif quoted is not None:
            names.append(quoted.replace('""', '"'))
        else:
            names.append(bare)
        at = found.end()
    return names


def instance_name(given: str | None, schema: str, table: str) -> str:
    """``@capture_instance``, by default ``schema_table``; raises 22927 above 100 characters."""
    name = given or f"{schema}_{table}"
    if len(name) > NAME_LENGTH:
        raise cdc_error(22927, name)
    return name


def quote_names(names: tuple[str, ...]) -> str:
    """``[a], [b]``, as the help procedure lists columns."""
    return ", ".join("[" + name.replace("]", "]]") + "]" for name in names)


INSTANCES_PER_TABLE = 2


@dataclass(frozen=True, slots=True)
class EnableTable:
    """The arguments of ``sys.sp_cdc_enable_table`` as they came."""

    source_schema: str | None
    source_name: str | None
    role_name: str | None = None
    capture_instance: str | None = None
    supports_net_changes: bool | None = None
    index_name: str | None = None
    captured_column_list: str | None = None
    filegroup_name: str | None = None
    allow_partition_switch: bool = True


def plan_instance(
    catalog: Catalog, wish: EnableTable, *, birth_lsn: bytes, create_date: int, command_ids: bool
) -> CaptureInstance:
    """The instance to make (its object id still 0), or SQL Server's error for what is wrong."""
    table = source_table(catalog, wish.source_schema, wish.source_name)
    if wish.role_name == "":
        raise cdc_error(22907)
    name = _free_name(catalog, table, wish.capture_instance)
    index = _index(catalog, table, wish.index_name)
    net_changes = wish.supports_net_changes
    if net_changes is None:
        net_changes = index is not None
    if net_changes and index is None:
        raise cdc_error(22939)
    columns = _columns(catalog, table, wish.captured_column_list)
    key = _key(catalog, table, index)
    if net_changes and not {c.column_id for c in key} <= {c.column_id for c in columns}:
        raise cdc_error(22943)
    return CaptureInstance(
        name=name,
        object_id=0,
        source_object_id=table.object_id,
        source_schema=table.schema,
        source_table=table.name,
        birth_lsn=birth_lsn,
        create_date=create_date,
        columns=tuple(_captured(column, at) for at, column in enumerate(columns, start=1)),
        role_name=wish.role_name,
        index_name=index.name if index else None,
        index_columns=tuple(column.name for column in key),
        key_column_ids=tuple(column.column_id for column in key),
        supports_net_changes=net_changes,
        filegroup_name=wish.filegroup_name,
        partition_switch=wish.allow_partition_switch,
        command_ids=command_ids,
    )


def source_table(catalog: Catalog, schema: str | None, name: str | None) -> Table:
    """The table to be tracked. Errors 22901, 22963, 22974, 22931."""
    if not catalog.cdc_enabled:
        raise cdc_error(22901, catalog.name)
    if not schema:
        raise cdc_error(22963, "@source_schema")
    if not name:
        raise cdc_error(22963, "@source_name")
    if catalog.fold(schema) == "cdc":
        raise cdc_error(22974)
    table = catalog.table(schema, name)
    if table is None:
        raise cdc_error(22931, schema, name)
    return table


def _free_name(catalog: Catalog, table: Table, wish: str | None) -> str:
    name = instance_name(wish, table.schema, table.name)
    if find_instance(catalog, name):
        raise cdc_error(22926, name)
    if len(state_of(catalog).of_table(table.object_id)) >= INSTANCES_PER_TABLE:
        raise cdc_error(22962, table.schema, table.name)
    return name


def _index(catalog: Catalog, table: Table, wish: str | None) -> Index | None:
    """The index that identifies rows: the named one, else the primary key. Errors 22928, 22929."""
    if wish is None:
        return table.primary_key
    index = next((i for i in table.indexes if catalog.fold(i.name) == catalog.fold(wish)), None)
    if index is None:
        raise cdc_error(22928, wish, table.schema, table.name)
    # An index over a nullable column does not identify a row: CDC takes it for one that is not unique.
    if not index.unique or any(column.nullable for column in _key(catalog, table, index)):
        raise cdc_error(22929, wish, table.schema, table.name)
    return index


def _key(catalog: Catalog, table: Table, index: Index | None) -> list[Column]:
    return [catalog.require_column(table, name) for name, _ in index.columns] if index else []


def _columns(catalog: Catalog, table: Table, wish: str | None) -> list[Column]:
    """The captured columns in the table's order. Errors 22942, 22965, 22975."""
    columns = list(table.columns)
    if wish:
        named = [catalog.column(table, name) for name in parse_column_list(wish)]
        if None in named:
            raise cdc_error(22942, table.schema, table.name)
        columns = [column for column in columns if column in named]
    if any(column.name in RESERVED_COLUMNS for column in columns):
        raise cdc_error(22975, f"{table.schema}.{table.name}")
    return columns


def _captured(column: Column, ordinal: int) -> CapturedColumn:
    return CapturedColumn(column.name, column.column_id, column.type, ordinal, column.computed is not None)
