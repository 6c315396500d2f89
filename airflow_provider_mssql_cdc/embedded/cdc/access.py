"""Who may use change data capture: owners, and readers of all captured columns who are in the gating role."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance
from airflow_provider_mssql_cdc.embedded.engine import permissions
from airflow_provider_mssql_cdc.embedded.engine.catalog import Catalog
from airflow_provider_mssql_cdc.embedded.engine.session import Session


def require_sysadmin(session: Session) -> None:
    """Enabling a database needs sysadmin. Error 22902."""
    if not session.is_sysadmin:
        raise cdc_error(22902, "System Administrator")


def require_owner(session: Session) -> None:
    """Enabling a table needs db_owner. Error 22904."""
    if not permissions.is_owner(session, session.catalog()):
        raise cdc_error(22904)


def may_read(session: Session, catalog: Catalog, instance: CaptureInstance) -> bool:
    """Whether the instance exists for this login: it may SELECT every captured column, and is in the role."""
    if permissions.is_owner(session, catalog):
        return True
    user, source = permissions.user_of(session, catalog), catalog.by_id(instance.source_object_id)
    if user is None or source is None:
        return False
    if instance.role_name and catalog.fold(instance.role_name) not in permissions.roles_of(catalog, user):
        return False
    present = {column.column_id: column.name for column in source.columns}
    return all(
        permissions.allowed(session, catalog, "SELECT", table=source, column=present[column.column_id])
        for column in instance.columns
        if column.column_id in present
    )
