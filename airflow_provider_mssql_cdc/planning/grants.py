"""The T-SQL that gives a user a missing right, for messages: names quoted, to be pasted as it is."""

from __future__ import annotations

from airflow_provider_mssql_cdc.tsql.cdc import change_table
from airflow_provider_mssql_cdc.tsql.identifiers import shown


def grant_table(schema: str, table: str, user: str) -> str:
    """``GRANT SELECT ON [dbo].[orders] TO [loader]``."""
    return f"GRANT SELECT ON {shown(schema)}.{shown(table)} TO {shown(user)}"


def grant_changes(capture_instance: str, user: str) -> str:
    """``GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader]``."""
    return f"GRANT SELECT ON {change_table(capture_instance).replace('%%', '%')} TO {shown(user)}"


def join_role(role: str, user: str) -> str:
    """``ALTER ROLE [cdc_reader] ADD MEMBER [loader]``."""
    return f"ALTER ROLE {shown(role)} ADD MEMBER {shown(user)}"
