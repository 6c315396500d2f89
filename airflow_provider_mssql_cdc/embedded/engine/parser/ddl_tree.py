"""The syntax tree of DDL: tables, indexes, databases, principals and permissions."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.engine.parser.tree import Expression, Name, Statement, TypeName


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: TypeName | None
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: Expression | None = None
    computed: Expression | None = None
    collation: str | None = None
    sparse: bool = False
    column_set: bool = False
    mask: str | None = None
    encrypted: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A key: PRIMARY KEY and UNIQUE constraints and indexes alike."""

    name: str | None
    columns: tuple[tuple[str, bool], ...]
    unique: bool
    primary_key: bool = False
    constraint: bool = False
    clustered: bool | None = None
    included: tuple[str, ...] = ()
    filter: Expression | None = None
    filter_text: str = ""


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: Name
    columns: tuple[ColumnDefinition, ...]
    indexes: tuple[IndexDefinition, ...]


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """``action``: add, alter, drop column."""

    name: Name
    action: str
    columns: tuple[ColumnDefinition, ...] = ()
    indexes: tuple[IndexDefinition, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    table: Name
    index: IndexDefinition


@dataclass(frozen=True, slots=True)
class DropObject(Statement):
    """``kind``: TABLE, DATABASE, USER, ROLE, LOGIN."""

    kind: str
    names: tuple[Name, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    name: str
    collation: str | None


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """``option``: the words after SET."""

    name: str
    option: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    name: str


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    name: Name
    base: TypeName
    nullable: bool


@dataclass(frozen=True, slots=True)
class CreatePrincipal(Statement):
    """``kind``: LOGIN, USER, ROLE; ``value`` is the password or the user's login."""

    kind: str
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class AlterRole(Statement):
    role: str
    member: str
    added: bool


@dataclass(frozen=True, slots=True)
class Permission(Statement):
    """GRANT, DENY, REVOKE. ``scope``: OBJECT, SCHEMA or DATABASE."""

    action: str
    permissions: tuple[tuple[str, tuple[str, ...]], ...]
    scope: str
    securable: Name
    columns: tuple[str, ...]
    principals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateSecurityPolicy(Statement):
    name: Name
    function: Name
    table: Name
    enabled: bool
