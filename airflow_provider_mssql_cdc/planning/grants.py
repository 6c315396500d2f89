"""The T-SQL that gives a user a missing right, for messages: names quoted, to be pasted as it is."""

from __future__ import annotations

from airflow_provider_mssql_cdc.tsql.cdc import change_table
from airflow_provider_mssql_cdc.tsql.identifiers import qualified, quote_identifier


def grant_table(schema: str, table: str, user: str) -> str:
    """``GRANT SELECT ON [dbo].[orders] TO [loader]``."""
    return f"GRANT SELECT ON {_plain(qualified(schema, table))} TO {_name(user)}"


def grant_changes(capture_instance: str, user: str) -> str:
    """``GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader]``."""
    return f"GRANT SELECT ON {_plain(change_table(capture_instance))} TO {_name(user)}"


def join_role(role: str, user: str) -> str:
    """``ALTER ROLE [cdc_reader] ADD MEMBER [loader]``."""
    return f"ALTER ROLE {_name(role)} ADD MEMBER {_name(user)}"


def _name(name: str) -> str:
    return _plain(quote_identifier(name))


def _plain(quoted: str) -> str:
    """Percent signs are doubled in statement text only."""
    return quoted.replace("%%", "%")
