"""Capture instances as the server keeps them (in ``Catalog.extra``), and the tables of schema cdc."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider_mssql_cdc.embedded.cdc.images import Shape, Storage
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table
from airflow_provider_mssql_cdc.embedded.engine.schema.views import columns
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlType

EXTRA = "cdc"

_TEXT_TYPES = frozenset({"text", "ntext", "image"})


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    """A source column in a change table; it keeps its place there when the source drops it."""

    name: str
    column_id: int
    type: SqlType
    ordinal: int
    computed: bool = False

    @property
    def storage(self) -> Storage:
        """How the column behaves in change rows."""
        if self.computed:
            return Storage.COMPUTED
        if self.type.name in _TEXT_TYPES:
            return Storage.TEXT
        return Storage.MAX if self.type.length == MAX or self.type.name == "xml" else Storage.PLAIN


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """One capture instance.

    ``object_id`` is its change table's; ``birth_lsn`` the LSN from which on it captures, which cleanup
    does not move; ``create_date`` is in datetime ticks.
    """

    name: str
    object_id: int
    source_object_id: int
    source_schema: str
    source_table: str
    birth_lsn: bytes
    create_date: int
    columns: tuple[CapturedColumn, ...]
    role_name: str | None = None
    index_name: str | None = None
    index_columns: tuple[str, ...] = ()
    key_column_ids: tuple[int, ...] = ()
    supports_net_changes: bool = False
    filegroup_name: str | None = None
    partition_switch: bool = True
    command_ids: bool = True

    @property
    def change_table(self) -> str:
        """The change table's name in schema cdc."""
        return f"{self.name}_CT"

    def shape(self, column_ids: list[int], clustering: Clustering) -> Shape:
        """What it captures of rows whose values are those of ``column_ids``, in that order."""
        place = {column_id: at for at, column_id in enumerate(column_ids)}
        return Shape(
            tuple(None if column.computed else place.get(column.column_id) for column in self.columns),
            tuple(column.storage for column in self.columns),
            tuple(place[i] for i in clustering.column_ids if i in place),
            clustering.unique,
        )

    def with_type(self, column_id: int, new: SqlType) -> CaptureInstance:
        """The instance after ALTER COLUMN gave a captured column another type."""
        columns = tuple(
            replace(column, type=new) if column.column_id == column_id else column for column in self.columns
        )
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class Clustering:
    """The key that a table's rows are kept by: updates of it move rows. Without columns for a heap."""

    column_ids: tuple[int, ...] = ()
    unique: bool = True

    @classmethod
    def of(cls, table: Table | None) -> Clustering:
        """The table's clustered index."""
        index = table and next((index for index in table.indexes if index.clustered), None)
        if not table or not index:
            return cls()
        ids = {column.name: column.column_id for column in table.columns}
        return cls(tuple(ids[name] for name, _ in index.columns), index.unique)


@dataclass(frozen=True, slots=True)
class CdcState:
    """All capture instances of a database, oldest first."""

    instances: tuple[CaptureInstance, ...] = ()

    def of_table(self, object_id: int) -> tuple[CaptureInstance, ...]:
        """The instances of the table with this object id, oldest first."""
        return tuple(i for i in self.instances if i.source_object_id == object_id)

    def tracked(self) -> tuple[int, ...]:
        """The object ids of the tracked tables."""
        return tuple(dict.fromkeys(i.source_object_id for i in self.instances))

    def put(self, instance: CaptureInstance) -> CdcState:
        """With this instance, in place of the one with the same change table if there is one."""
        if all(i.object_id != instance.object_id for i in self.instances):
            return CdcState((*self.instances, instance))
        return CdcState(tuple(instance if i.object_id == instance.object_id else i for i in self.instances))

    def without(self, names: Iterable[str]) -> CdcState:
        """Without the instances of these names."""
        gone = set(names)
        return CdcState(tuple(i for i in self.instances if i.name not in gone))


def state_of(catalog: Catalog) -> CdcState:
    """The instances that a catalog holds."""
    found = catalog.extra.get(EXTRA)
    return found if isinstance(found, CdcState) else CdcState()


def find_instance(catalog: Catalog, name: str) -> CaptureInstance | None:
    """The instance with this name under the database's collation."""
    return next((i for i in state_of(catalog).instances if catalog.fold(i.name) == catalog.fold(name)), None)


LSN = SqlType("binary", 10)
INT = SqlType("int")
DATETIME = SqlType("datetime")

Columns = tuple[tuple[str, SqlType, bool], ...]
"""Name, type, nullable."""


def sysname() -> SqlType:
    """nvarchar(128)."""
    return SqlType("nvarchar", 256)


def _required(text: str) -> Columns:
    """The short spelling of ``views.columns``; a name with ``!`` before it is NOT NULL."""
    return tuple((name.lstrip("!"), type_, not name.startswith("!")) for name, type_ in columns(text))


METADATA: dict[str, tuple[Columns, tuple[str, ...]]] = {
    "change_tables": (
        _required(
            """!object_id:int version:int source_object_id:int !capture_instance:name start_lsn:lsn
            end_lsn:lsn supports_net_changes:bit has_drop_pending:bit role_name:name index_name:name
            filegroup_name:name create_date:datetime !partition_switch:bit"""
        ),
        ("object_id",),
    ),
    "captured_columns": (
        _required(
            """!object_id:int !column_name:name column_id:int !column_type:name !column_ordinal:int
            is_computed:bit"""
        ),
        ("object_id", "column_ordinal"),
    ),
    "index_columns": (
        _required("!object_id:int !column_name:name !index_ordinal:tinyint !column_id:int"),
        ("object_id", "index_ordinal"),
    ),
    "ddl_history": (
        _required(
            """source_object_id:int !object_id:int required_column_update:bit ddl_command:text !ddl_lsn:lsn
            ddl_time:datetime"""
        ),
        ("object_id", "ddl_lsn"),
    ),
    "lsn_time_mapping": (
        _required(
            """!start_lsn:lsn tran_begin_time:datetime tran_end_time:datetime tran_id:tran
            tran_begin_lsn:lsn"""
        ),
        ("start_lsn",),
    ),
}
"""Name → columns and primary key of the tables that ``sp_cdc_enable_db`` makes."""

CHANGE_KEY = ("__$start_lsn", "__$command_id", "__$seqval", "__$operation")
_OLD_BUILD_KEY = ("__$start_lsn", "__$seqval", "__$operation")


def change_table(instance: CaptureInstance) -> tuple[Columns, tuple[str, ...]]:
    """Columns and key of a change table; every captured column is nullable there."""
    head = _required("!__$start_lsn:lsn __$end_lsn:lsn !__$seqval:lsn !__$operation:int __$update_mask:mask")
    captured: Columns = tuple((column.name, _plain(column.type), True) for column in instance.columns)
    if not instance.command_ids:
        return head + captured, _OLD_BUILD_KEY
    return (*head, *captured, ("__$command_id", INT, True)), CHANGE_KEY


def _plain(type_: SqlType) -> SqlType:
    """A rowversion is stored as the bytes it had, not generated again."""
    return SqlType("binary", 8) if type_.name in ("rowversion", "timestamp") else type_
