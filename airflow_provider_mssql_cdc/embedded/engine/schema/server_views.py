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
        snapshot = int(catalog.snapshot_isolation)
        yield (
            catalog.name,
            session.engine.listed_ids.get(catalog.name, database.database_id),
            1,
            160,
            catalog.collation,
            0,
            "ONLINE",
            snapshot,
            "ON" if snapshot else "OFF",
            int(catalog.read_committed_snapshot),
            int(catalog.cdc_enabled),
            int(session.replica is not None),
            1,
            "FULL",
        )


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
            kind = "SQL_USER" if p.kind == "S" else "DATABASE_ROLE"
            yield p.name, p.principal_id, p.kind, kind, int(p.principal_id >= 16384), "dbo"


def _logins(session: Session) -> Iterator[tuple[Any, ...]]:
    for number, name in enumerate(session.engine.logins(), start=1):
        yield name, number, "S", "SQL_LOGIN"


def _members(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    seen = _sees_principals(session, catalog)
    for role, member in catalog.members:
        if member in seen:
            yield catalog.principals[role].principal_id, catalog.principals[member].principal_id


def _permissions(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    seen = _sees_principals(session, catalog)
    for grant in catalog.grants:
        if grant.principal not in seen:
            continue
        table = None if grant.object_id is None else catalog.by_id(grant.object_id)
        column = None if table is None or grant.column is None else catalog.column(table, grant.column)
        scope = (1, "OBJECT_OR_COLUMN") if table else (3, "SCHEMA") if grant.schema else (0, "DATABASE")
        major = grant.object_id or (catalog.schemas[grant.schema] if grant.schema else 0)
        yield (
            *scope,
            major,
            column.column_id if column else 0,
            catalog.principals[grant.principal].principal_id,
            1,
            grant.permission[:2],
            grant.permission,
            grant.state[0],
            grant.state,
        )


def _policies(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    for number, (schema, name, _, enabled) in enumerate(catalog.policies, 1):
        if _sees_policies(session, catalog):
            yield name, 2_000_000 + number, catalog.schemas[schema], "SECURITY_POLICY", int(enabled)


def _predicates(session: Session) -> Iterator[tuple[Any, ...]]:
    catalog = session.catalog()
    for number, (_, _, table_id, _) in enumerate(catalog.policies, 1):
        if _sees_policies(session, catalog):
            yield 2_000_000 + number, 1, table_id, "([predicate])", 0, "FILTER"


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
        """name:name database_id:int owner:int compatibility_level:tinyint collation_name:name
        state:tinyint state_desc:desc snapshot_isolation_state:tinyint
        snapshot_isolation_state_desc:desc is_read_committed_snapshot_on:bit is_cdc_enabled:bit
        is_read_only:bit recovery_model:tinyint recovery_model_desc:desc""",
        _databases,
    ),
    "sys.dm_exec_sessions": (
        """session_id:smallint login_name:name transaction_isolation_level:smallint date_format:name
        language:name""",
        _sessions,
    ),
    "sys.database_principals": (
        """name:name principal_id:int type:char type_desc:desc is_fixed_role:bit
        default_schema_name:name""",
        _principals,
    ),
    "sys.server_principals": ("name:name principal_id:int type:char type_desc:desc", _logins),
    "sys.database_role_members": ("role_principal_id:int member_principal_id:int", _members),
    "sys.database_permissions": (
        """class:tinyint class_desc:desc major_id:int minor_id:int grantee_principal_id:int
        grantor_principal_id:int type:char permission_name:name state:char state_desc:desc""",
        _permissions,
    ),
    "sys.security_policies": (
        "name:name object_id:int schema_id:int type_desc:desc is_enabled:bit",
        _policies,
    ),
    "sys.security_predicates": (
        """object_id:int security_predicate_id:int target_object_id:int predicate_definition:text
        predicate_type:int predicate_type_desc:desc""",
        _predicates,
    ),
}
