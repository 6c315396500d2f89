"""The compiler's state, and what it knows about a piece of SQLite SQL."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Column, Table
from airflow_provider_mssql_cdc.embedded.engine.values import collations, types
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import (
    converter,
)
from airflow_provider_mssql_cdc.embedded.engine.values.types import INT
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from airflow_provider_mssql_cdc.embedded.engine.parser.tree import Name
    from airflow_provider_mssql_cdc.embedded.engine.run.registry import Registry
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session

_UTF8 = types.varchar(MAX, "Latin1_General_100_CI_AS_SC_UTF8")


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
    is read.
    """

    bindings: list[str | Callable[[Session], Any]] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    collations: set[str] = field(default_factory=set)
    columns: dict[int, set[str]] = field(default_factory=dict)
    views: set[tuple[str, str]] = field(default_factory=set)
    reads_data: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement ready to run on SQLite."""

    sql: str
    needs: Needs
    columns: tuple[OutputColumn, ...] = ()
    variables: tuple[str, ...] = ()


class Compiler:
    """Compiles one statement against one catalog.

    ``variables``: the types of the batch's variables. ``trusted``: reads with the owner's rights.
    ``counting``: visited rows are tallied per table.
    """

    def __init__(
        self,
        registry: Registry,
        catalog: Catalog,
        variables: Mapping[str, SqlType],
        *,
        session: Session | None = None,
        counting: bool = False,
    ) -> None:
        self.registry, self.catalog, self.variables, self.session = registry, catalog, variables, session
        self.counting = counting
        self.needs = Needs()
        self._aliases = 0

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def bind(self, binding: str | Callable[..., Any]) -> str:
        if binding not in self.needs.bindings:
            self.needs.bindings.append(binding)
        return f":b{self.needs.bindings.index(binding)}"

    def variable(self, name: str) -> Typed:
        """A variable or parameter. Error 137."""
        if name not in self.variables:
            raise SqlError(137, f'Must declare the scalar variable "{name}".', 15)
        return Typed(self.bind(name), self.variables[name], constant=True)

    def function(
        self,
        key: Hashable,
        call: Callable[..., Any],
        *arguments: str,
        deterministic: bool = True,
        bound: bool = False,
    ) -> str:
        """SQL that calls a Python function."""
        name = self.registry.pool.name(key, call, deterministic=deterministic, bound=bound)
        self.needs.functions.add(name)
        return f"{name}({', '.join(arguments)})"

    def cast(
        self,
        value: Typed,
        target: SqlType,
        *,
        style: int | None = None,
        assign: bool = False,
    ) -> Typed:
        """The value in another type; the same SQL when the stored value does not change."""
        if types.is_text(target) and target.collation is None:
            own = value.type.collation if value.type and types.is_text(value.type) else None
            target = replace(target, collation=own or self.catalog.collation)
        if value.type is None:
            return replace(value, type=target)
        source = value.type
        if (
            self.registry.text_casts == "utf-8"
            and source.name in types.NATIONAL
            and target.name == "varbinary"
        ):
            source = _UTF8
        convert = converter(source, target, style=style, assign=assign)
        if convert is None:
            return replace(value, type=target, digits=None)
        key = (source, target, style, assign)
        sql = self.function(key, convert, value.sql)
        return Typed(sql, target, value.nullable, value.constant, explicit=value.explicit)

    def collate(self, sql: str, type_: SqlType | None) -> str:
        """SQL with the collation by which values of the type order."""
        if type_ is None:
            return sql
        if type_.name == "datetimeoffset":
            return f"{sql} COLLATE {quote(collations.INSTANT)}"
        if not types.is_text(type_):
            return sql
        name = type_.collation or self.catalog.collation
        self.needs.collations.add(name)
        return f"{sql} COLLATE {quote(collations.sqlite_name(name))}"

    def ordered(self, value: Typed) -> str:
        """A value as ORDER BY, GROUP BY and windows need it: a column has its collation with it."""
        return value.sql if value.column else self.collate(value.sql, value.type)

    def type_of(self, name: tree.TypeName, *, default_length: int = 30) -> SqlType:
        """A built-in or alias type. Error 243."""
        parts = name.name
        schema = parts[-2] if len(parts) > 1 else "dbo"
        alias = self.catalog.aliases.get((self.catalog.fold(schema), self.catalog.fold(parts[-1])))
        if alias is not None:
            return alias[2]
        return types.from_name(name, default_length=default_length)

    def use_column(self, table: Table, column: Column) -> None:
        self.needs.columns.setdefault(table.object_id, set()).add(column.name)

    def resolve(self, name: tree.Name, scope: Scope | None) -> Typed:
        """A column by its name of up to four parts, innermost query first. Errors 207, 209, 4104."""
        current = scope
        while current is not None:
            found = [t for relation in current.relations for t in self._in_relation(name, relation)]
            if len(found) > 1:
                raise SqlError(209, f"Ambiguous column name '{name[-1]}'.")
            if found:
                return found[0]
            current = current.parent
        if len(name) > 1:
            raise SqlError(4104, f'The multi-part identifier "{".".join(name)}" could not be bound.')
        raise SqlError(207, f"Invalid column name '{name[0]}'.")

    def _in_relation(self, name: tree.Name, relation: Relation) -> list[Typed]:
        if not self._qualifies(name[:-1], relation):
            return []
        fold = self.catalog.fold
        wanted = fold(name[-1])
        found = []
        for column, typed in relation.columns:
            if fold(column) == wanted:
                self._note(relation, column)
                found.append(typed)
        return found

    def _note(self, relation: Relation, column: str) -> None:
        if relation.table is not None:
            described = self.catalog.column(relation.table, column)
            if described is not None:
                self.use_column(relation.table, described)

    def _qualifies(self, qualifier: tree.Name, relation: Relation) -> bool:
        if not qualifier:
            return True
        fold = self.catalog.fold
        if relation.alias is not None:
            return len(qualifier) == 1 and fold(qualifier[0]) == fold(relation.alias)
        known = relation.table_name
        if len(known) == 1 or (len(known) > 1 and len(qualifier) == 1):
            return fold(known[-1]) == fold(qualifier[-1])
        return [fold(p) for p in known[-2:]] == [fold(p) for p in qualifier[-2:]]

    def stars(self, qualifier: tree.Name, scope: Scope) -> list[tuple[str, Typed]]:
        """The columns of ``*`` or ``a.*``."""
        found = []
        for relation in scope.relations:
            if self._qualifies(qualifier, relation):
                for column, typed in relation.columns:
                    self._note(relation, column)
                    found.append((column, typed))
        if not found:
            raise SqlError(
                107, f"The column prefix '{'.'.join(qualifier)}' does not match with a table name."
            )
        return found
