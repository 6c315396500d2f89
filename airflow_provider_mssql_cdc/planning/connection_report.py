"""Write the report of a connection test, and the T-SQL that grants a missing right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import listed
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.tsql.cdc import change_table
from airflow_provider_mssql_cdc.tsql.statement import shown


@dataclass(frozen=True, slots=True)
class InstanceRights:
    """Hold a visible capture instance and the login's rights on it; None where they are unknown."""

    instance: CaptureInstance
    may_read_changes: bool | None = None
    in_gating_role: bool | None = None


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """Hold what one login sees of a server and a database.

    :param driver: name and version of the driver.
    :param version: ``ProductVersion``, for instance ``16.0.4135.4``; None when the server hides it.
    :param user: the database user.
    :param instances: capture instances that ``sys.sp_cdc_help_change_data_capture`` returns.
    :param hidden: (schema, table) of visible tables that CDC tracks without a visible instance.
    """

    driver: str
    version: str | None
    edition: str | None
    database: str
    user: str
    cdc_enabled: bool
    instances: tuple[InstanceRights, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()


def grant_table(schema: str, table: str, user: str) -> str:
    """Build ``GRANT SELECT ON [dbo].[orders] TO [loader]``."""
    return f"GRANT SELECT ON {shown(schema)}.{shown(table)} TO {shown(user)}"


def grant_changes(capture_instance: str, user: str) -> str:
    """Build ``GRANT SELECT ON [cdc].[dbo_orders_CT] TO [loader]``."""
    return f"GRANT SELECT ON {change_table(capture_instance).replace('%%', '%')} TO {shown(user)}"


def join_role(role: str, user: str) -> str:
    """Build ``ALTER ROLE [cdc_reader] ADD MEMBER [loader]``."""
    return f"ALTER ROLE {shown(role)} ADD MEMBER {shown(user)}"


def report(facts: ConnectionFacts) -> str:
    """Write the report, one sentence per line: server, user, CDC, instances, missing grants."""
    server = f"SQL Server {facts.version}" if facts.version else "SQL Server"
    edition = f" ({facts.edition})" if facts.edition else ""
    where = f"database {facts.database}, as user {facts.user}, by {facts.driver}"
    lines = [f"Connected to {server}{edition}, {where}."]
    if not facts.cdc_enabled:
        lines.append(
            "Change data capture is off in this database: a member of sysadmin runs "
            "EXEC sys.sp_cdc_enable_db."
        )
        return "\n".join(lines)
    lines.append(f"Change data capture is on. {_visible(facts)}")
    missing = list(_missing(facts))
    if missing:
        lines += ["Missing rights:", *missing]
    return "\n".join(lines)


def _visible(facts: ConnectionFacts) -> str:
    names = sorted(rights.instance.name for rights in facts.instances)
    if not names:
        return f"User {facts.user} sees no capture instance."
    return f"User {facts.user} sees {len(names)} capture instance(s): {listed(names)}."


def _missing(facts: ConnectionFacts) -> Iterator[str]:
    for rights in facts.instances:
        yield from _missing_on(rights, facts.user)
    for schema, table in facts.hidden:
        yield (
            f"{grant_table(schema, table, facts.user)};  -- CDC tracks {schema}.{table}, but user "
            f"{facts.user} sees no capture instance of it; a gating role, if there is one, is missing too"
        )
    if not facts.instances and not facts.hidden:
        user = shown(facts.user)
        yield f"GRANT SELECT ON <schema>.<table> TO {user};  -- for each table to load"
        yield f"GRANT SELECT ON cdc.<capture instance>_CT TO {user};  -- by default <schema>_<table>_CT"
        yield "python -m airflow_provider_mssql_cdc.setup_sql --tables <schema>.<table> prints them"


def _missing_on(rights: InstanceRights, user: str) -> Iterator[str]:
    if rights.may_read_changes is False:
        yield f"{grant_changes(rights.instance.name, user)};"
    if rights.in_gating_role is False and rights.instance.role_name:
        yield f"{join_role(rights.instance.role_name, user)};"
