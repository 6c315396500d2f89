"""Query what one login sees of a server, for the "Test" button of a connection in the UI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow_provider_mssql_cdc.errors import PermissionDenied, SourceObjectMissing, StatementFailed
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.planning.connection_report import ConnectionFacts, InstanceRights, report
from airflow_provider_mssql_cdc.source.catalog import in_role, may_read_changes
from airflow_provider_mssql_cdc.source.instances import visible_instances
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql import catalog

_ASKING = "testing the connection"


def connection_report(session: SourceSession) -> str:
    """Return sentences about the server, the database, change data capture and missing permissions."""
    return report(connection_facts(session))


def connection_facts(session: SourceSession) -> ConnectionFacts:
    """Return everything that "Test" shows; no query needs a permission."""
    database = session.row(catalog.database_facts(), doing=_ASKING)
    server = session.row(catalog.server_facts(), doing=_ASKING)
    found = visible_instances(session) if database["is_cdc_enabled"] else ()
    return ConnectionFacts(
        driver=session.driver,
        version=server["product_version"],
        edition=server["edition"],
        database=database["database_name"],
        user=database["user_name"],
        cdc_enabled=bool(database["is_cdc_enabled"]),
        instances=tuple(_rights(session, instance) for instance in found),
        hidden=tuple(_hidden(session, found)),
    )


def _rights(session: SourceSession, instance: CaptureInstance) -> InstanceRights:
    return InstanceRights(
        instance,
        may_read_changes=may_read_changes(session, instance),
        in_gating_role=in_role(session, instance.role_name),
    )


def _hidden(session: SourceSession, found: tuple[CaptureInstance, ...]) -> Iterator[tuple[str, str]]:
    captured = {instance.source_object_id for instance in found}
    with contextlib.suppress(PermissionDenied, SourceObjectMissing, StatementFailed):
        for row in session.rows(catalog.tracked_tables(), doing=_ASKING):
            if int(row["object_id"]) not in captured:
                yield row["schema_name"], row["table_name"]
