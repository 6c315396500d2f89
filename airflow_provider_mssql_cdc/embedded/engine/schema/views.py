"""The catalog views: sys.* and INFORMATION_SCHEMA.*, as rows of stored values for one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run.registry import View
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table
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
    "word": types.varchar(30),
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
    for name, number in session.catalog().schemas.items():
        yield name, number, 1


def _object_row(catalog: Catalog, table: Table) -> tuple[Any, ...]:
    return (
        table.name,
        table.object_id,
        catalog.schemas[table.schema],
        0,
        "U ",
        "USER_TABLE",
        table.created,
        table.created,
        int(table.system),
    )


def _tables(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        yield (*_object_row(catalog, table), int(table.tracked_by_cdc), 0, 0, 0, "NON_TEMPORAL_TABLE", 0, 0)


def _objects(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        yield _object_row(catalog, table)
        for index in table.indexes:
            if index.constraint:
                kind = ("PK", "PRIMARY_KEY_CONSTRAINT") if index.primary_key else ("UQ", "UNIQUE_CONSTRAINT")
                yield (
                    index.name,
                    table.object_id + index.index_id,
                    catalog.schemas[table.schema],
                    table.object_id,
                    *kind,
                    table.created,
                    table.created,
                    0,
                )


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
                0,
                int(c.identity is not None),
                int(c.computed is not None),
                int(c.sparse),
                int(c.column_set),
                int(c.mask is not None),
                1 if c.encrypted else None,
                "DETERMINISTIC" if c.encrypted else None,
                0,
                0,
                "NOT_APPLICABLE",
                0,
                0 if c.default is None else table.object_id + 1000 + c.column_id,
            )


def _computed(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        for c in table.columns:
            if c.computed is not None:
                yield table.object_id, c.name, c.column_id, f"({c.computed})", int(c.persisted), 1


def _masked(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        for c in table.columns:
            if c.mask is not None:
                yield table.object_id, c.name, c.column_id, c.mask, 1


def _identities(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        for c in table.columns:
            if c.identity is not None:
                yield table.object_id, c.name, c.column_id


def _types(session: Session) -> Iterator[tuple[Any, ...]]:
    for name, facts in types.FACTS.items():
        length = facts.length
        yield (
            name,
            facts.system_type_id,
            facts.user_type_id,
            4,
            length,
            facts.precision,
            facts.scale,
            None,
            1,
            0,
            int(facts.system_type_id == 240),
            0,
        )
    yield "sysname", 231, 256, 4, 256, 0, 0, None, 0, 0, 0, 0
    catalog = session.catalog()
    for number, (schema, name, type_, nullable) in enumerate(catalog.aliases.values()):
        precision, scale = types.catalog_precision(type_)
        yield (
            name,
            types.facts(type_).system_type_id,
            257 + number,
            catalog.schemas[schema],
            types.max_length(type_),
            precision,
            scale,
            type_.collation,
            int(nullable),
            1,
            0,
            0,
        )


def _indexes(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        if not any(i.clustered for i in table.indexes):
            yield table.object_id, None, 0, 0, "HEAP", 0, 0, 0, 0, 0, None, 0, 1
        for i in table.indexes:
            kind = (1, "CLUSTERED") if i.clustered else (2, "NONCLUSTERED")
            yield (
                table.object_id,
                i.name,
                i.index_id,
                *kind,
                int(i.unique),
                int(i.primary_key),
                int(i.constraint and not i.primary_key),
                0,
                int(i.filter is not None),
                i.filter,
                0,
                1,
            )


def _index_columns(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        numbers = {c.name: c.column_id for c in table.columns}
        for i in table.indexes:
            for place, (name, descending) in enumerate(i.columns, 1):
                yield table.object_id, i.index_id, place, numbers[name], place, 0, int(descending), 0
            for place, name in enumerate(i.included, len(i.columns) + 1):
                yield table.object_id, i.index_id, place, numbers[name], 0, 0, 0, 1


def _key_constraints(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        for i in table.indexes:
            if i.constraint:
                kind = ("PK", "PRIMARY_KEY_CONSTRAINT") if i.primary_key else ("UQ", "UNIQUE_CONSTRAINT")
                yield (
                    i.name,
                    table.object_id + i.index_id,
                    catalog.schemas[table.schema],
                    table.object_id,
                    *kind,
                    i.index_id,
                )


def count_rows(session: Session, table: Table) -> int:
    connection = session.read_connection()
    return int(connection.execute(f"SELECT count(*) FROM {quote(table.storage)}").fetchone()[0])


def _partitions(session: Session) -> Iterator[tuple[Any, ...]]:
    for _, table in visible_tables(session):
        rows = count_rows(session, table)
        heap = [] if any(i.clustered for i in table.indexes) else [0]
        for number in [*heap, *(i.index_id for i in table.indexes)]:
            yield table.object_id * 8 + number, table.object_id, number, 1, rows, 0, "NONE"


def _information_tables(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        yield catalog.name, table.schema, table.name, "BASE TABLE"


def _information_columns(session: Session) -> Iterator[tuple[Any, ...]]:
    for catalog, table in visible_tables(session):
        for place, c in enumerate(table.columns, 1):
            family = types.family(c.type)
            characters = types.characters(c.type) if c.type.name in types.SIZED else None
            maximum = -1 if c.type.length == -1 else characters
            precision, scale = types.catalog_precision(c.type)
            number = family in ("integer", "decimal", "float") and c.type.name != "bit"
            yield (
                catalog.name,
                table.schema,
                table.name,
                c.name,
                place,
                c.default,
                "YES" if c.nullable else "NO",
                c.type.name,
                maximum,
                precision if number else None,
                scale if number and family != "float" else None,
                scale if family == "moment" else None,
                c.type.collation,
            )


_OBJECT = "name:name object_id:int schema_id:int parent_object_id:int type:char type_desc:desc "
_OBJECT += "create_date:datetime modify_date:datetime is_ms_shipped:bit"
VIEWS: dict[str, tuple[str, Callable[[Session], Any]]] = {
    "sys.schemas": ("name:name schema_id:int principal_id:int", _schemas),
    "sys.tables": (
        _OBJECT
        + """ is_tracked_by_cdc:bit is_memory_optimized:bit is_replicated:bit temporal_type:tinyint
        temporal_type_desc:desc is_external:bit is_node:bit""",
        _tables,
    ),
    "sys.objects": (_OBJECT, _objects),
    "sys.all_objects": (_OBJECT, _objects),
    "sys.columns": (
        """object_id:int name:name column_id:int system_type_id:tinyint user_type_id:int
        max_length:smallint precision:tinyint scale:tinyint collation_name:name is_nullable:bit
        is_rowguidcol:bit is_identity:bit is_computed:bit is_sparse:bit is_column_set:bit
        is_masked:bit encryption_type:int encryption_type_desc:desc is_hidden:bit
        generated_always_type:tinyint generated_always_type_desc:desc is_filestream:bit
        default_object_id:int""",
        _columns,
    ),
    "sys.computed_columns": (
        "object_id:int name:name column_id:int definition:text is_persisted:bit is_computed:bit",
        _computed,
    ),
    "sys.masked_columns": (
        "object_id:int name:name column_id:int masking_function:text is_masked:bit",
        _masked,
    ),
    "sys.identity_columns": ("object_id:int name:name column_id:int", _identities),
    "sys.types": (
        """name:name system_type_id:tinyint user_type_id:int schema_id:int max_length:smallint
        precision:tinyint scale:tinyint collation_name:name is_nullable:bit is_user_defined:bit
        is_assembly_type:bit is_table_type:bit""",
        _types,
    ),
    "sys.indexes": (
        """object_id:int name:name index_id:int type:tinyint type_desc:desc is_unique:bit
        is_primary_key:bit is_unique_constraint:bit is_disabled:bit has_filter:bit
        filter_definition:text is_hypothetical:bit data_space_id:int""",
        _indexes,
    ),
    "sys.partition_schemes": (
        "name:name data_space_id:int type:char type_desc:desc is_default:bit function_id:int",
        lambda session: (),
    ),
    "sys.index_columns": (
        """object_id:int index_id:int index_column_id:int column_id:int key_ordinal:tinyint
        partition_ordinal:tinyint is_descending_key:bit is_included_column:bit""",
        _index_columns,
    ),
    "sys.key_constraints": (
        """name:name object_id:int schema_id:int parent_object_id:int type:char type_desc:desc
        unique_index_id:int""",
        _key_constraints,
    ),
    "information_schema.tables": (
        "TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name TABLE_TYPE:word",
        _information_tables,
    ),
    "information_schema.columns": (
        """TABLE_CATALOG:name TABLE_SCHEMA:name TABLE_NAME:name COLUMN_NAME:name ORDINAL_POSITION:int
        COLUMN_DEFAULT:text IS_NULLABLE:word DATA_TYPE:name CHARACTER_MAXIMUM_LENGTH:int
        NUMERIC_PRECISION:tinyint NUMERIC_SCALE:int DATETIME_PRECISION:smallint COLLATION_NAME:name""",
        _information_columns,
    ),
}


def register(registry: Registry) -> None:
    """All catalog views."""
    from airflow_provider_mssql_cdc.embedded.engine.schema.server_views import SERVER_VIEWS

    for name, (text, rows) in VIEWS.items():
        schema, _, view = name.partition(".")
        registry.add_view(schema, view, View(columns(text), rows, cached=True))
    for name, (text, rows) in SERVER_VIEWS.items():
        registry.add_view("sys", name.partition(".")[2], View(columns(text), rows))
    partitions = "partition_id:bigint object_id:int index_id:int partition_number:int rows:bigint "
    partitions += "data_compression:tinyint data_compression_desc:desc"
    registry.add_view("sys", "partitions", View(columns(partitions), _partitions))
