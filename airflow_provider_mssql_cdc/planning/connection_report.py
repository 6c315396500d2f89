"""What "Test" says of a connection that works: the server, the database, CDC, and each missing GRANT."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_mssql_cdc.model.connection_facts import ConnectionFacts, InstanceRights
from airflow_provider_mssql_cdc.planning.grants import grant_changes, grant_table, join_role
from airflow_provider_mssql_cdc.tsql.identifiers import shown

_MOST_SHOWN = 20


def report(facts: ConnectionFacts) -> str:
    """Sentences, one line each."""
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
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"User {facts.user} sees {len(names)} capture instance(s): {', '.join(names[:_MOST_SHOWN])}{more}."


def _missing(facts: ConnectionFacts) -> Iterator[str]:
    for rights in facts.instances:
        yield from _missing_on(rights, facts.user)
    for schema, table in facts.hidden:
        yield (
            f"{grant_table(schema, table, facts.user)};  -- CDC tracks {schema}.{table} and shows no capture "
            f"instance of it to {facts.user}; if it has a gating role, that is missing too"
        )
    if not facts.instances and not facts.hidden:
        user = shown(facts.user)
        yield f"GRANT SELECT ON <schema>.<table> TO {user};  -- for each table that is to be loaded"
        yield f"GRANT SELECT ON cdc.<capture instance>_CT TO {user};  -- by default <schema>_<table>_CT"
        yield "python -m airflow_provider_mssql_cdc.setup_sql --tables <schema>.<table> prints them in full"


def _missing_on(rights: InstanceRights, user: str) -> Iterator[str]:
    if rights.may_read_changes is False:
        yield f"{grant_changes(rights.instance.name, user)};"
    if rights.in_gating_role is False and rights.instance.role_name:
        yield f"{join_role(rights.instance.role_name, user)};"
