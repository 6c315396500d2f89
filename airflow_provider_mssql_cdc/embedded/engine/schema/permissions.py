"""What each user may do; CREATE LOGIN, USER, ROLE, GRANT, DENY, REVOKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tokens
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Grant, Principal, Table
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


_DATA_ROLES = {"SELECT": "db_datareader", "INSERT": "db_datawriter", "UPDATE": "db_datawriter",
               "DELETE": "db_datawriter"}  # fmt: skip


def user_of(session: Session, catalog: Catalog) -> str | None:
    """The database user of the session's login, folded; None without one. Sysadmins are dbo."""
    if session.is_sysadmin:
        return catalog.fold("dbo")
    login = session.login_name.casefold()
    for key, principal in catalog.principals.items():
        if principal.kind == "S" and principal.login is not None and principal.login.casefold() == login:
            return key
    return None


def user_name(session: Session) -> str | None:
    catalog = session.catalog()
    key = user_of(session, catalog)
    return None if key is None else catalog.principals[key].name


def roles_of(catalog: Catalog, user: str) -> set[str]:
    """The user and every role that it is in, directly or not, and public; folded."""
    found = {user, catalog.fold("public")}
    while True:
        more = {role for role, member in catalog.members if member in found} - found
        if not more:
            return found
        found |= more


def is_owner(session: Session, catalog: Catalog) -> bool:
    """Sysadmin or db_owner."""
    if session.is_sysadmin:
        return True
    user = user_of(session, catalog)
    return user is not None and catalog.fold("db_owner") in roles_of(catalog, user)


def _state(
    grants: Iterable[Grant], permission: str, table: Table, *, roles: set[str], column: str | None
) -> str | None:
    """DENY beats GRANT, but a column's GRANT beats its table's DENY, as SQL Server has it."""
    table_state, column_state = None, None
    for grant in grants:
        if grant.principal not in roles or grant.permission not in (permission, "CONTROL"):
            continue
        if grant.object_id is not None and grant.object_id != table.object_id:
            continue
        if grant.schema is not None and grant.schema != table.schema:
            continue
        if grant.column is None:
            table_state = "DENY" if "DENY" in (table_state, grant.state) else grant.state
        elif column is not None and grant.column == column:
            column_state = "DENY" if "DENY" in (column_state, grant.state) else grant.state
    return column_state or table_state


def allowed(
    session: Session, catalog: Catalog, permission: str, *, table: Table, column: str | None = None
) -> bool:
    """May the session do this with the table (or the column)?"""
    if is_owner(session, catalog):
        return True
    user = user_of(session, catalog)
    if user is None:
        return False
    roles = roles_of(catalog, user)
    state = _state(catalog.grants, permission, table, roles=roles, column=column)
    role = _DATA_ROLES.get(permission)
    if permission == "SELECT" and catalog.fold("db_denydatareader") in roles:
        return False
    if state is None and role is not None:
        return catalog.fold(role) in roles and (table.schema != "cdc" or permission == "SELECT")
    return state == "GRANT"


def visible(session: Session, catalog: Catalog, table: Table) -> bool:
    """Metadata visibility: some permission on the table or one of its columns."""
    if is_owner(session, catalog) or allowed(session, catalog, "SELECT", table=table):
        return True
    user = user_of(session, catalog)
    if user is None:
        return False
    roles = roles_of(catalog, user)
    if catalog.fold("db_ddladmin") in roles and not table.system:
        return True
    return any(
        g.principal in roles
        and g.state == "GRANT"
        and (g.object_id == table.object_id or g.schema == table.schema or g.permission == "VIEW DEFINITION")
        for g in catalog.grants
    )


def check_columns(session: Session, catalog: Catalog, columns: dict[int, set[str]]) -> None:
    """SELECT on every column that a statement reads. Errors 229 (object), 230 (column)."""
    if not columns or is_owner(session, catalog):
        return
    for object_id, wanted in columns.items():
        table = catalog.by_id(object_id)
        if table is None:
            continue
        denied = [c for c in sorted(wanted) if not allowed(session, catalog, "SELECT", table=table, column=c)]
        if not denied and (wanted or _reads_some(session, catalog, table)):
            continue
        if not denied or (len(denied) == len(wanted) and not _reads_some(session, catalog, table)):
            raise denied_on_object(catalog, "SELECT", table)
        place = f"object '{table.name}', database '{catalog.name}', schema '{table.schema}'"
        raise SqlError(
            230, f"The SELECT permission was denied on the column '{denied[0]}' of the {place}.", 14
        )


def _reads_some(session: Session, catalog: Catalog, table: Table) -> bool:
    if allowed(session, catalog, "SELECT", table=table):
        return True
    return any(allowed(session, catalog, "SELECT", table=table, column=c.name) for c in table.columns)


def denied_on_object(catalog: Catalog, permission: str, table: Table) -> SqlError:
    place = f"object '{table.name}', database '{catalog.name}', schema '{table.schema}'"
    return SqlError(229, f"The {permission} permission was denied on the {place}.", 14, 5)


def require(session: Session, catalog: Catalog, permission: str, *, table: Table) -> None:
    """INSERT, UPDATE, DELETE on a table. Error 229."""
    if not allowed(session, catalog, permission, table=table):
        raise denied_on_object(catalog, permission, table)


def require_ddl(session: Session, catalog: Catalog, what: str) -> None:
    """DDL needs db_owner or db_ddladmin. Error 262."""
    if is_owner(session, catalog):
        return
    user = user_of(session, catalog)
    if user is None or catalog.fold("db_ddladmin") not in roles_of(catalog, user):
        raise SqlError(262, f"{what} permission denied in database '{catalog.name}'.", 14)


def is_member(session: Session, role: str | None, principal: str | None = None) -> int | None:
    """IS_ROLEMEMBER: 1, 0, or NULL when there is no such role."""
    catalog = session.catalog()
    if role is None or catalog.fold(role) not in catalog.principals:
        return None
    user = user_of(session, catalog) if principal is None else catalog.fold(principal)
    if user is None:
        return 0
    return int(catalog.fold(role) in roles_of(catalog, user))


def has_database_access(session: Session, name: str | None) -> int | None:
    database = None if name is None else session.engine.find_database(name)
    if database is None:
        return None
    return int(session.engine.may_enter(session, database))


def has_permission_by_name(
    session: Session,
    securable: str | None,
    kind: str | None,
    permission: str | None,
    column: str | None = None,
    column_kind: str | None = None,
) -> int | None:
    """HAS_PERMS_BY_NAME for OBJECT, DATABASE and SERVER."""
    catalog = session.catalog()
    wanted = (permission or "").upper()
    if (kind or "").upper() == "OBJECT" and securable is not None:
        table = catalog.resolve(tokens.split(securable))
        if table is None or not visible(session, catalog, table):
            return None
        if column is None and not allowed(session, catalog, wanted, table=table):
            return 0
        return int(allowed(session, catalog, wanted, table=table, column=column))
    if (kind or "").upper() == "DATABASE" or (securable is None and kind is None):
        return int(on_database(session, catalog, wanted))
    return int(session.is_sysadmin)


def on_database(session: Session, catalog: Catalog, permission: str) -> bool:
    """Whether the session has a permission on the whole database."""
    if is_owner(session, catalog):
        return True
    user = user_of(session, catalog)
    roles = set() if user is None else roles_of(catalog, user)
    if permission == "CONNECT":
        return user is not None
    if _DATA_ROLES.get(permission) is not None and catalog.fold(_DATA_ROLES[permission]) in roles:
        return True
    return any(
        g.principal in roles and g.permission == permission and g.state == "GRANT" and g.object_id is None
        for g in catalog.grants
    )


def _require_owner(session: Session, catalog: Catalog) -> None:
    if not is_owner(session, catalog):
        raise SqlError(15247, "User does not have permission to perform this action.")


def create_principal(session: Session, node: ddl_tree.CreatePrincipal) -> None:
    """Errors 15023 (exists), 15007 (no such login), 15025."""
    if node.kind == "LOGIN":
        if not session.is_sysadmin:
            raise SqlError(15247, "User does not have permission to perform this action.")
        session.engine.create_login(node.name, node.value or "")
        return
    with session.write() as write:
        catalog = write.edit_catalog()
        _require_owner(session, catalog)
        key = catalog.fold(node.name)
        if key in catalog.principals:
            raise SqlError(
                15023, f"User, group, or role '{node.name}' already exists in the current database."
            )
        if node.kind == "USER" and node.value is not None and not session.engine.has_login(node.value):
            raise SqlError(15007, f"'{node.value}' is not a valid login or you do not have permission.")
        kind = "S" if node.kind == "USER" else "R"
        catalog.principals[key] = Principal(node.name, kind, catalog.next_principal_id, node.value)
        catalog.next_principal_id += 1
        write.save_catalog(catalog)


def alter_role(session: Session, node: ddl_tree.AlterRole) -> None:
    with session.write() as write:
        catalog = write.edit_catalog()
        _require_owner(session, catalog)
        for name in (node.role, node.member):
            _principal(catalog, name)
        pair = (catalog.fold(node.role), catalog.fold(node.member))
        if node.added:
            catalog.members.add(pair)
        else:
            catalog.members.discard(pair)
        write.save_catalog(catalog)


def _principal(catalog: Catalog, name: str) -> str:
    key = catalog.fold(name)
    if key not in catalog.principals:
        raise SqlError(
            15151, f"Cannot find the user '{name}', because it does not exist or you do not have permission."
        )
    return key


def permission(session: Session, node: ddl_tree.Permission) -> None:
    """GRANT, DENY and REVOKE on a table, its columns, a schema or the database."""
    with session.write() as write:
        catalog = write.edit_catalog()
        _require_owner(session, catalog)
        for name in node.principals:
            principal = _principal(catalog, name)
            for granted in _grants(catalog, node, principal):
                same = (
                    granted.principal,
                    granted.permission,
                    granted.object_id,
                    granted.schema,
                    granted.column,
                )
                catalog.grants = [
                    g
                    for g in catalog.grants
                    if (g.principal, g.permission, g.object_id, g.schema, g.column) != same
                ]
                if node.action != "REVOKE":
                    catalog.grants.append(granted)
        write.save_catalog(catalog)


def _grants(catalog: Catalog, node: ddl_tree.Permission, principal: str) -> list[Grant]:
    grants = []
    for name, columns in node.permissions:
        grant = Grant(principal, node.action, name)
        if node.scope == "SCHEMA":
            grant.schema = catalog.schema_name(node.securable[-1])
            if grant.schema is None:
                raise SqlError(
                    15151,
                    f"Cannot find the schema '{node.securable[-1]}', because it does not exist or you "
                    "do not have permission.",
                )
        elif node.scope == "OBJECT":
            table = catalog.resolve(node.securable)
            if table is None:
                if name == "EXECUTE" or node.securable[0].lower() == "sys":
                    continue
                raise SqlError(
                    15151,
                    f"Cannot find the object '{node.securable[-1]}', because it does not exist or you "
                    "do not have permission.",
                )
            grant.object_id = table.object_id
            named = [catalog.require_column(table, c).name for c in columns or node.columns]
            grants += [Grant(principal, node.action, name, table.object_id, None, c) for c in named]
            if named:
                continue
        grants.append(grant)
    return grants
