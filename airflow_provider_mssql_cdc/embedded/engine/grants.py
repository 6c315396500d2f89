"""Statements about principals: CREATE LOGIN, USER, ROLE; ALTER ROLE; GRANT, DENY, REVOKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine import ddl_tree, permissions
from airflow_provider_mssql_cdc.embedded.engine.catalog import Catalog, Grant, Principal
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.session import Session


def _require_owner(session: Session, catalog: Catalog) -> None:
    if not permissions.is_owner(session, catalog):
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
                    f"Cannot find the schema '{node.securable[-1]}', because "
                    "it does not exist or you "
                    "do not have permission.",
                )
        elif node.scope == "OBJECT":
            table = catalog.resolve(node.securable)
            if table is None:
                if name == "EXECUTE" or node.securable[0].lower() == "sys":
                    continue
                raise SqlError(
                    15151,
                    f"Cannot find the object '{node.securable[-1]}', because "
                    "it does not exist or you "
                    "do not have permission.",
                )
            grant.object_id = table.object_id
            named = [catalog.require_column(table, c).name for c in columns or node.columns]
            grants += [Grant(principal, node.action, name, table.object_id, None, c) for c in named]
            if named:
                continue
        grants.append(grant)
    return grants
