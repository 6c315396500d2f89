"""What extends the engine: procedures, functions, views and hooks, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.parser.tree import Name
from airflow_provider_mssql_cdc.embedded.engine.run.storage import FunctionPool
from airflow_provider_mssql_cdc.embedded.seam import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


Columns = tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True, slots=True)
class Procedure:
    """``call(session, arguments by lower-case name)``; ``parameters`` name the positional arguments."""

    call: Callable[..., Any]
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    call: Callable[..., Any]
    returns: SqlType
    parameters: tuple[SqlType, ...]
    constant: bool


@dataclass(frozen=True, slots=True)
class View:
    """``rows(session)`` gives stored values; ``cached``: they change with the catalog only."""

    columns: Columns
    rows: Callable[..., Any]
    cached: bool = False


@dataclass(slots=True)
class Hooks:
    """Lists of functions; what each is called with is in the package's docstring."""

    commit: list[Callable[..., Any]] = field(default_factory=list)
    committed: list[Callable[..., Any]] = field(default_factory=list)
    ddl: list[Callable[..., Any]] = field(default_factory=list)
    before_statement: list[Callable[..., Any]] = field(default_factory=list)
    after_statement: list[Callable[..., Any]] = field(default_factory=list)
    wrap_batches: list[Callable[..., Any]] = field(default_factory=list)
    drop_database: list[Callable[..., Any]] = field(default_factory=list)


def _key(name: str) -> str:
    lower = name.lower()
    return lower.removeprefix("sys.")


@dataclass(slots=True)
class Registry:
    """All of it, for one engine.

    ``text_casts``: what nvarchar gives as varbinary; "utf-8" as another T-SQL engine does.
    """

    pool: FunctionPool = field(default_factory=FunctionPool)
    hooks: Hooks = field(default_factory=Hooks)
    text_casts: str = "utf-16"
    views: dict[tuple[str, str], View] = field(default_factory=dict)
    _procedures: dict[str, Procedure] = field(default_factory=dict)
    _scalars: dict[str, ScalarFunction] = field(default_factory=dict)

    def add_procedure(self, name: str, call: Callable[..., Any], parameters: Iterable[str]) -> None:
        self._procedures[_key(name)] = Procedure(call, tuple(p.lower().lstrip("@") for p in parameters))

    def procedure(self, name: Name) -> Procedure | None:
        """By ``p``, ``sys.p``, ``db.sys.p`` or ``db..p``."""
        schema = name[-2] if len(name) > 1 and name[-2] else "sys"
        schema = "sys" if schema.lower() == "dbo" else schema
        return self._procedures.get(_key(f"{schema}.{name[-1]}"))

    def add_scalar(
        self,
        name: str,
        call: Callable[..., Any],
        returns: SqlType,
        parameters: Sequence[SqlType],
        *,
        constant: bool,
    ) -> None:
        self._scalars[_key(name)] = ScalarFunction(call, returns, tuple(parameters), constant)

    def scalar(self, name: Name) -> ScalarFunction | None:
        return self._scalars.get(_key(".".join(name)))

    def add_view(self, schema: str, name: str, view: View) -> None:
        self.views[(schema.lower(), name.lower())] = view

    def view(self, name: Name) -> tuple[tuple[str, str], View] | None:
        if len(name) < 2:
            return None
        key = (name[-2].lower(), name[-1].lower())
        found = self.views.get(key)
        return None if found is None else (key, found)
