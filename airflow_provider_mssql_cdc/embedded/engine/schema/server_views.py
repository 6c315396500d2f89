"""Catalog views about databases, principals, permissions and row-level security."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


def _databases(session: Session) -> Iterator[tuple[Any, ...]]:
    for name, database in session.engine.databases_of(session.replica):
        catalog = session.catalog() if name == session.database else session.engine.catalog_of(database)
        settings = catalog.snapshot_isolation, catalog.read_committed_snapshot, catalog.cdc_enabled
        number = session.engine.listed_ids.get(catalog.name, database.database_id)
        yield (catalog.name, number, catalog.collation, "ONLINE", *map(int, settings))


def _sees_principals(session: Session, catalog: Catalog) -> set[str]:
    if permissions.is_owner(session, catalog):
        return set(catalog.principals)
    user = permissions.user_of(session, catalog)
    fixed = {key for key, p in catalog.principals.items() if p.principal_id >= 16384 or p.principal_id == 0}
    return fixed if user is None else fixed | permissions.roles_of(catalog, user)


def _principals(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    seen = _sees_principals(session, catalog)
    for key, p in catalog.principals.items():
        if key in seen:
            yield p.name, p.principal_id, p.kind


def _logins(session: Session) -> Iterator[tuple[Any, ...]]:
    for number, name in enumerate(session.engine.logins(), start=1):
        yield name, number


def _policies(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    for number, (_, name, _, enabled) in enumerate(catalog.policies, 1):
        if _sees_policies(session, catalog):
            yield name, 2_000_000 + number, int(enabled)


def _predicates(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    for number, (_, _, table_id, _) in enumerate(catalog.policies, 1):
        if _sees_policies(session, catalog):
            yield 2_000_000 + number, table_id


_LEVELS = ("", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT")


def _sessions(session: Session) -> Iterator[tuple[Any, ...]]:
    """The own session, which is all that a login without VIEW SERVER STATE sees."""
    level = _LEVELS.index(session.isolation)
    yield session.session_id, session.login_name, level, session.date_format, session.language


def _sees_policies(session: Session, catalog: Catalog) -> bool:
    """Who may read the table does not see that it is filtered."""
    return permissions.on_database(session, catalog, "VIEW DEFINITION")


SERVER_VIEWS: dict[str, tuple[str, Callable[[Session], Any]]] = {
    "sys.databases": (
        """name:name database_id:int collation_name:name state_desc:desc snapshot_isolation_state:tinyint
        is_read_committed_snapshot_on:bit is_cdc_enabled:bit""",
        _databases,
    ),
    "sys.dm_exec_sessions": (
        """session_id:smallint login_name:name transaction_isolation_level:smallint date_format:name
        language:name""",
        _sessions,
    ),
    "sys.database_principals": ("name:name principal_id:int type:char", _principals),
    "sys.server_principals": ("name:name principal_id:int", _logins),
    "sys.security_policies": ("name:name object_id:int is_enabled:bit", _policies),
    "sys.security_predicates": ("object_id:int target_object_id:int", _predicates),
}
