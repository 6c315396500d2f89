"""The catalog views sys.*, as rows of stored values for one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run.registry import View
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table
from airflow_provider_mssql_cdc.embedded.engine.schema.server_views import SERVER_VIEWS
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mssql_cdc.embedded.engine.run.registry import Columns, Registry
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


_SHORT = {
    "int": types.INT,
    "bit": types.BIT,
    "name": types.nvarchar(128),
    "desc": types.nvarchar(60),
    "text": types.nvarchar(-1),
    "datetime": types.DATETIME,
    "smallint": SqlType("smallint"),
    "tinyint": SqlType("tinyint"),
    "bigint": types.BIGINT,
    "char": SqlType("char", 2),
    "lsn": SqlType("binary", 10),
    "mask": SqlType("varbinary", 128),
    "tran": SqlType("varbinary", 10),
}


def columns(text: str) -> Columns:
    """``"name:name object_id:int"`` as columns."""
    return tuple((part.split(":")[0], _SHORT[part.split(":")[1]]) for part in text.split())


def visible_tables(session: Session) -> Iterator[tuple[Catalog, Table]]:
    catalog = session.catalog()
    for table in catalog.tables.values():
        if permissions.visible(session, catalog, table):
            yield catalog, table


def _schemas(session: Session) -> Iterator[tuple[Any, ...]]:
    yield from session.catalog().schemas.items()


def _tables(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        schema_id, tracked = catalog.schemas[table.schema], int(table.tracked_by_cdc)
        yield table.name, table.object_id, schema_id, int(table.system), tracked, 0, 0


def user_type_id(catalog: Catalog, alias: str | None, type_: SqlType) -> int:
    if alias == "sysname":
        return 256
    if alias is not None:
        return 257 + [name for _, name, _, _ in catalog.aliases.values()].index(alias)
    return types.facts(type_).user_type_id


def _columns(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        for c in table.columns:
            precision, scale = types.catalog_precision(c.type)
            yield (
                table.object_id,
                c.name,
                c.column_id,
                types.facts(c.type).system_type_id,
                user_type_id(catalog, c.alias, c.type),
                types.max_length(c.type),
                precision,
                scale,
                c.type.collation,
                int(c.nullable),
                int(c.identity is not None),
                int(c.computed is not None),
                int(c.sparse),
                int(c.column_set),
                int(c.mask is not None),
                1 if c.encrypted else None,
            )


def _types(session: Session) -> Iterator[tuple[Any, ...]]:
    for name, facts in types.FACTS.items():
        yield name, facts.system_type_id, facts.user_type_id, 4, 0
    yield "sysname", 231, 256, 4, 0
    catalog = session.catalog()
    for number, (schema, name, type_, _) in enumerate(catalog.aliases.values()):
        yield name, types.facts(type_).system_type_id, 257 + number, catalog.schemas[schema], 1


def _indexes(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        if not any(i.clustered for i in table.indexes):
            yield table.object_id, None, 0, 0, "HEAP", 0, 0, 0, 0, 1
        for i in table.indexes:
            kind = (1, "CLUSTERED") if i.clustered else (2, "NONCLUSTERED")
            flags = int(i.unique), int(i.primary_key), 0, int(i.filter is not None)
            yield (table.object_id, i.name, i.index_id, *kind, *flags, 1)


def _index_columns(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        numbers = {c.name: c.column_id for c in table.columns}
        for i in table.indexes:
            for place, (name, descending) in enumerate(i.columns, 1):
                yield table.object_id, i.index_id, place, numbers[name], place, 0, int(descending), 0
            for place, name in enumerate(i.included, len(i.columns) + 1):
                yield table.object_id, i.index_id, place, numbers[name], 0, 0, 0, 1


def count_rows(session: Session, table: Table) -> int:
    connection = session.read_connection()
    return int(connection.execute(f"SELECT count(*) FROM {quote(table.storage)}").fetchone()[0])


VIEWS: dict[str, tuple[str, Callable[[Session], Any]]] = {
    "sys.schemas": ("name:name schema_id:int", _schemas),
    "sys.tables": (
        """name:name object_id:int schema_id:int is_ms_shipped:bit is_tracked_by_cdc:bit
        is_memory_optimized:bit temporal_type:tinyint""",
        _tables,
    ),
    "sys.columns": (
        """object_id:int name:name column_id:int system_type_id:tinyint user_type_id:int
        max_length:smallint precision:tinyint scale:tinyint collation_name:name is_nullable:bit
        is_identity:bit is_computed:bit is_sparse:bit is_column_set:bit is_masked:bit encryption_type:int""",
        _columns,
    ),
    "sys.types": (
        "name:name system_type_id:tinyint user_type_id:int schema_id:int is_user_defined:bit",
        _types,
    ),
    "sys.indexes": (
        """object_id:int name:name index_id:int type:tinyint type_desc:desc is_unique:bit
        is_primary_key:bit is_disabled:bit has_filter:bit data_space_id:int""",
        _indexes,
    ),
    "sys.partition_schemes": ("name:name data_space_id:int", lambda session: ()),
    "sys.index_columns": (
        """object_id:int index_id:int index_column_id:int column_id:int key_ordinal:tinyint
        partition_ordinal:tinyint is_descending_key:bit is_included_column:bit""",
        _index_columns,
    ),
}


def register(registry: Registry) -> None:
    """All catalog views."""
    for name, (text, rows) in VIEWS.items():
        schema, _, view = name.partition(".")
        registry.add_view(schema, view, View(columns(text), rows, cached=True))
    for name, (text, rows) in SERVER_VIEWS.items():
        registry.add_view("sys", name.partition(".")[2], View(columns(text), rows))
