"""What the compiler knows about a piece of SQLite SQL, and about a whole statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.types import INT
from airflow_provider_mssql_cdc.embedded.seam import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.catalog import Table
    from airflow_provider_mssql_cdc.embedded.engine.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.tree import Name


@dataclass(frozen=True, slots=True)
class Typed:
    """SQL text with its type. ``type`` None is the bare NULL.

    ``constant``: reads no column. ``column``: a base table's column as it is, so that an index may serve it.
    ``explicit``: the collation was written with COLLATE. ``digits``: of an integer literal.
    ``boolean``: a predicate.
    """

    sql: str
    type: SqlType | None
    nullable: bool = True
    constant: bool = False
    column: bool = False
    explicit: bool = False
    digits: int | None = None
    boolean: bool = False

    @property
    def known(self) -> SqlType:
        """The type, with int for the bare NULL, as SQL Server has it."""
        return self.type or INT


@dataclass(slots=True)
class Relation:
    """One source in FROM: how it may be named, and its columns. ``table_name`` when it has no alias."""

    alias: str | None
    table_name: Name
    columns: list[tuple[str, Typed]]
    table: Table | None = None
    hidden: int = 0


@dataclass(slots=True)
class Scope:
    """The relations that a name may refer to, and the enclosing query's."""

    relations: list[Relation] = field(default_factory=list)
    parent: Scope | None = None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    name: str
    type: SqlType
    nullable: bool = True


@dataclass(slots=True)
class Needs:
    """What a compiled statement asks of the connection and the session that run it.

    ``bindings``: for ?1, ?2 … a variable's name or a function of the session. ``columns``: by object id, what
    is read with the caller's rights. ``checks``: run before the statement, with SQL for their arguments.
    """

    bindings: list[str | Callable[[Session], Any]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    collations: set[str] = field(default_factory=set)
    columns: dict[int, set[str]] = field(default_factory=dict)
    views: set[tuple[str, str]] = field(default_factory=set)
    checks: list[tuple[Callable[..., None], str]] = field(default_factory=list)
    reads_data: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement ready to run on SQLite."""

    sql: str
    needs: Needs
    columns: tuple[OutputColumn, ...] = ()
    variables: tuple[str, ...] = ()
