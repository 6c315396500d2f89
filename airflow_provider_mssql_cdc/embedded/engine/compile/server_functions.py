"""Functions about the server, the session and the catalog; ``@@`` variables; registered scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile import clock_functions, functions
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.parser import tokens
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.parser import tree
    from airflow_provider_mssql_cdc.embedded.engine.run.registry import ScalarFunction
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


VERSION = (
    "Microsoft SQL Server 2022 (RTM-CU14) (KB5038325) - 16.0.4135.4 (X64) \n\tembedded stand-in for tests, "
    "Developer Edition"
)
SERVER_NAME = "EMBEDDED"
_OPTIONS = """IMPLICIT_TRANSACTIONS CURSOR_CLOSE_ON_COMMIT ANSI_WARNINGS ANSI_PADDING ANSI_NULLS ARITHABORT
    ARITHIGNORE QUOTED_IDENTIFIER NOCOUNT ANSI_NULL_DFLT_ON ANSI_NULL_DFLT_OFF CONCAT_NULL_YIELDS_NULL
    NUMERIC_ROUNDABORT XACT_ABORT"""
OPTION_BITS = {name: 2 << place for place, name in enumerate(_OPTIONS.split())}
_GLOBALS: dict[str, tuple[SqlType, Callable[[Session], Any]]] = {
    "@@spid": (SqlType("smallint"), lambda s: s.session_id),
    "@@version": (types.nvarchar(300), lambda s: VERSION),
    "@@trancount": (types.INT, lambda s: s.transactions.count),
    "@@servername": (types.nvarchar(128), lambda s: SERVER_NAME),
    "@@textsize": (types.INT, lambda s: s.text_size),
    "@@lock_timeout": (types.INT, lambda s: s.lock_timeout_ms),
    "@@rowcount": (types.INT, lambda s: s.row_count),
    "@@options": (types.INT, lambda s: sum(bit for name, bit in OPTION_BITS.items() if name in s.options)),
    "@@dbts": (SqlType("varbinary", 8), lambda s: s.database_file.last_rowversion),
}
_PROPERTIES: dict[str, Any] = {
    "productversion": "16.0.4135.4",
    "edition": "Developer Edition (64-bit)",
    "servername": SERVER_NAME,
}


def global_variable(compiler: Compiler, name: str) -> Typed | None:
    if not name.startswith("@@"):
        return None
    found = _GLOBALS.get(name)
    if found is None:
        raise SqlError(137, f'Must declare the scalar variable "{name}".', 15)
    return Typed(compiler.bind(found[1]), _named(compiler, found[0]), True, True)


def _named(compiler: Compiler, type_: SqlType) -> SqlType:
    return (
        types.nvarchar(types.characters(type_) or -1, compiler.catalog.collation)
        if types.is_text(type_)
        else type_
    )


def registered(compiler: Compiler, function: ScalarFunction, node: tree.Call, scope: Scope | None) -> Typed:
    """A function that an extension registered. Error 313 for a wrong number of arguments."""
    if len(node.arguments) != len(function.parameters):
        name = ".".join(node.name)
        raise SqlError(
            313, f"An insufficient number of arguments were supplied for the procedure or function {name}."
        )
    values = functions.arguments(compiler, node, scope, least=len(function.parameters))
    cast = [compiler.cast(v, t) for v, t in zip(values, function.parameters, strict=True)]
    call = function.call
    compiler.needs.reads_data = True
    sql = compiler.function(
        ("registered", call),
        lambda link, *stored: call(link.session, *stored),
        *(v.sql for v in cast),
        deterministic=function.constant,
        bound=True,
    )
    return Typed(sql, function.returns, True, all(v.constant for v in cast))


def _session_value(type_: SqlType, read: Callable[[Session], Any]) -> Callable[..., Typed]:
    def handler(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
        return Typed(compiler.bind(read), _named(compiler, type_), True, True)

    return handler


def _asked(
    key: str, type_: SqlType, answer: Callable[..., Any], *, least: int = 1, most: int | None = None
) -> Callable[..., Typed]:
    """A function that asks the session; text arguments come as nvarchar."""

    def handler(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
        values = functions.arguments(compiler, node, scope, least=least, most=most)
        text = [v if not types.is_text(v.known) else compiler.cast(v, types.nvarchar()) for v in values]
        sql = compiler.function(
            ("asked", key),
            lambda link, *v: answer(link.session, *v),
            *(v.sql for v in text),
            deterministic=True,  # within a statement: of constants it is asked once, and not for every row
            bound=True,
        )
        return Typed(sql, _named(compiler, type_), True, all(v.constant for v in values))

    return handler


def _db_id(session: Session, name: str | None = None) -> int | None:
    database = session.engine.find_database(session.database if name is None else name)
    return None if database is None else database.database_id


def object_id(session: Session, text: str | None, kind: str | None = None) -> int | None:
    """OBJECT_ID: tables that the session may see."""
    if text is None:
        return None
    catalog = session.catalog()
    parts = tokens.split(text)
    if len(parts) > 2 and parts[-3] and catalog.fold(parts[-3]) != catalog.fold(session.database):
        return None
    table = catalog.resolve(parts)
    if table is None or (kind or "U").strip().upper() not in ("U", "IT", "S"):
        return None
    return table.object_id if permissions.visible(session, catalog, table) else None


def _database_property(session: Session, name: str, item: str) -> Any:
    database = session.engine.find_database(name)
    if database is None:
        return None
    catalog = session.engine.catalog_of(database)
    return {
        "collation": catalog.collation,
        "updateability": "READ_ONLY" if session.replica else "READ_WRITE",
    }.get(item.lower())


HANDLERS: dict[str, Callable[..., Typed]] = {
    "rowcount_big": _session_value(SqlType("bigint"), lambda s: s.row_count),
    "db_id": _asked("db_id", SqlType("smallint"), _db_id, least=0, most=1),
    "db_name": _session_value(types.nvarchar(128), lambda s: s.database),
    "object_id": _asked("object_id", types.INT, object_id, most=2),
    "suser_sname": _session_value(types.nvarchar(128), lambda s: s.login_name),
    "user_name": _session_value(types.nvarchar(128), permissions.user_name),
    "current_timezone_id": _session_value(
        types.nvarchar(128), lambda s: clock_functions.windows_name(s.engine.time_zone)
    ),
    "is_rolemember": _asked("is_rolemember", types.INT, permissions.is_member, most=2),
    "has_dbaccess": _asked("has_dbaccess", types.INT, permissions.has_database_access),
    "has_perms_by_name": _asked(
        "has_perms_by_name", types.INT, permissions.has_permission_by_name, least=3, most=5
    ),
    "databasepropertyex": _asked("databasepropertyex", SqlType("sql_variant"), _database_property, least=2),
    "serverproperty": _asked(
        "serverproperty", SqlType("sql_variant"), lambda s, name: _PROPERTIES.get(name.lower())
    ),
}
