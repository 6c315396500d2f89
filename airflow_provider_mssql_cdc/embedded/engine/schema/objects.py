"""The catalog of a database: schemas, tables, types, principals, permissions."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mssql_cdc.embedded.engine.parser.tree import Name
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

FIXED_ROLES = (
    "db_owner", "db_accessadmin", "db_securityadmin", "db_ddladmin", "db_backupoperator", "db_datareader",
    "db_datawriter", "db_denydatareader", "db_denydatawriter",
)  # fmt: skip
SYSTEM_SCHEMAS = {"dbo": 1, "guest": 2, "INFORMATION_SCHEMA": 3, "sys": 4}


@dataclass(slots=True)
class Column:
    """``default``, ``computed``: T-SQL text. ``alias``: the user-defined type's name."""

    name: str
    type: SqlType
    column_id: int = 0
    nullable: bool = True
    storage: str = ""
    identity: tuple[int, int] | None = None
    default: str | None = None
    computed: str | None = None
    sparse: bool = False
    column_set: bool = False
    mask: str | None = None
    encrypted: bool = False
    alias: str | None = None


@dataclass(slots=True)
class Index:
    """``columns``: (column name, descending). ``storage``: None for the table's own B-tree."""

    name: str
    columns: tuple[tuple[str, bool], ...]
    unique: bool
    primary_key: bool = False
    constraint: bool = False
    clustered: bool = False
    included: tuple[str, ...] = ()
    filter: str | None = None
    index_id: int = 0
    storage: str | None = None


@dataclass(slots=True)
class Table:
    """``system``: made by the engine or CDC (is_ms_shipped).

    ``last_column_id``: the highest one ever given.
    """

    object_id: int
    schema: str
    name: str
    storage: str
    columns: list[Column]
    indexes: list[Index]
    tracked_by_cdc: bool = False
    system: bool = False
    clustered: bool = False
    last_column_id: int = 0

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def primary_key(self) -> Index | None:
        return next((i for i in self.indexes if i.primary_key), None)

    @property
    def stored_columns(self) -> list[Column]:
        return [c for c in self.columns if c.computed is None]


@dataclass(slots=True)
class Principal:
    """``kind``: S (user), R (role). ``login`` is the server principal of a user."""

    name: str
    kind: str
    principal_id: int
    login: str | None = None


@dataclass(slots=True)
class Grant:
    """``state`` GRANT or DENY; ``object_id`` None for the database, ``schema`` for a schema."""

    principal: str
    state: str
    permission: str
    object_id: int | None = None
    schema: str | None = None
    column: str | None = None


@dataclass(slots=True)
class Catalog:
    """Everything about one database but its rows."""

    name: str
    collation: str = DEFAULT
    version: int = 0
    snapshot_isolation: bool = False
    read_committed_snapshot: bool = False
    cdc_enabled: bool = False
    schemas: dict[str, int] = field(default_factory=lambda: dict(SYSTEM_SCHEMAS))
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
    aliases: dict[tuple[str, str], tuple[str, str, SqlType, bool]] = field(default_factory=dict)
    principals: dict[str, Principal] = field(default_factory=dict)
    members: set[tuple[str, str]] = field(default_factory=set)
    grants: list[Grant] = field(default_factory=list)
    policies: list[tuple[str, str, int, bool]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    extra: dict[str, Any] = field(default_factory=dict)
    next_object_id: int = 901578250
    next_principal_id: int = 5

    def __post_init__(self) -> None:
        if not self.principals:
            for number, name in enumerate(FIXED_ROLES):
                self.principals[self.fold(name)] = Principal(name, "R", 16384 + number)
            self.principals[self.fold("public")] = Principal("public", "R", 0)
            self.principals[self.fold("dbo")] = Principal("dbo", "S", 1, "sa")
            self.members.add((self.fold("db_owner"), self.fold("dbo")))

    def fold(self, name: str) -> str:
        """The form under which two spellings of one name are equal."""
        name = name.rstrip(" ")
        return name if collation(self.collation).case_sensitive else name.casefold()

    def copy(self) -> Catalog:
        copied: Catalog = pickle.loads(pickle.dumps(self))
        return copied

    def new_object_id(self) -> int:
        self.next_object_id += 16
        return self.next_object_id

    def schema_name(self, name: str) -> str | None:
        """The catalog's spelling of a schema."""
        folded = self.fold(name)
        return next((s for s in self.schemas if self.fold(s) == folded), None)

    def table(self, schema: str, name: str) -> Table | None:
        return self.tables.get((self.fold(schema), self.fold(name)))

    def by_id(self, object_id: int) -> Table | None:
        return next((t for t in self.tables.values() if t.object_id == object_id), None)

    def resolve(self, name: Name) -> Table | None:
        """A table by a one- to three-part name; the default schema is dbo."""
        return self.table(name[-2] if len(name) > 1 and name[-2] else "dbo", name[-1])

    def require(self, name: Name) -> Table:
        """Error 208."""
        table = self.resolve(name)
        if table is None:
            raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.")
        return table

    def column(self, table: Table, name: str) -> Column | None:
        folded = self.fold(name)
        return next((c for c in table.columns if self.fold(c.name) == folded), None)

    def require_column(self, table: Table, name: str) -> Column:
        """Error 207."""
        column = self.column(table, name)
        if column is None:
            raise SqlError(207, f"Invalid column name '{name}'.")
        return column

    def add_table(self, table: Table) -> None:
        """Error 2714 when the name is taken."""
        key = (self.fold(table.schema), self.fold(table.name))
        if key in self.tables:
            raise SqlError(2714, f"There is already an object named '{table.name}' in the database.")
        self.tables[key] = table

    def remove_table(self, table: Table) -> None:
        del self.tables[(self.fold(table.schema), self.fold(table.name))]
        self.grants = [g for g in self.grants if g.object_id != table.object_id]
        self.policies = [p for p in self.policies if p[2] != table.object_id]

    def storage_name(self, schema: str, name: str) -> str:
        """A name for the SQLite table that no other table has, ignoring case."""
        taken = {t.storage.lower() for t in self.tables.values()}
        wanted = f"{schema}.{name}"
        return (
            wanted
            if wanted.lower() not in taken and "\0" not in wanted
            else f"{wanted}#{self.next_object_id}"
        )

    def collations(self) -> set[str]:
        """The collations of all columns, as SQLite must know them."""
        named = {c.type.collation for t in self.tables.values() for c in t.columns if c.type.collation}
        return {name for name in named if name is not None} | {self.collation}


def column_storage(name: str, taken: set[str], column_id: int) -> str:
    """A name for the SQLite column; SQLite ignores the case of ASCII letters, a catalog may not."""
    stored = name if name.lower() not in taken and "\0" not in name else f"{name}#{column_id}"
    taken.add(stored.lower())
    return stored
