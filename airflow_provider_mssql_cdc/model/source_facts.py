"""What was asked of the server before a load: facts, without a judgement."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.columns import SourceTable


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Answers of the catalog and of the CDC procedures; None where the login's rights cannot tell.

    :param capture_instance: as the user wrote it.
    :param login: for messages that name a missing GRANT (the database user).
    :param cdc_enabled: of the database.
    :param table: the source table, when it could be found.
    :param likely_table: (schema, name) that the user, or else the instance's name, says; it may not exist.
    :param tracked: ``sys.tables.is_tracked_by_cdc``; None when no table is visible.
    :param instance: what the help procedure showed of the capture instance.
    :param other_instances: names of the table's (or database's) other visible capture instances.
    :param select_denied: captured columns that the login may not SELECT.
    :param may_read_changes: SELECT on the change table.
    :param in_gating_role: membership of the instance's role; None without a role.
    :param row_level_security: an enabled security policy filters the table.
    :param may_unmask: the login reads masked columns as they are.
    :param last_capture_age_seconds: since the newest entry of ``cdc.lsn_time_mapping``.
    :param snapshot_allowed: ALLOW_SNAPSHOT_ISOLATION is on.
    :param partitioned: the table is partitioned, so partitions may be switched without changes.
    """

    capture_instance: str
    login: str
    database: str
    cdc_enabled: bool | None = None
    table: SourceTable | None = None
    likely_table: tuple[str, str] | None = None
    tracked: bool | None = None
    instance: CaptureInstance | None = None
    other_instances: tuple[str, ...] = ()
    select_denied: tuple[str, ...] = ()
    may_read_changes: bool | None = None
    in_gating_role: bool | None = None
    row_level_security: bool | None = None
    may_unmask: bool | None = None
    last_capture_age_seconds: float | None = None
    snapshot_allowed: bool | None = None
    read_committed_snapshot: bool | None = None
    memory_optimized: bool | None = None
    partitioned: bool | None = None
    database_collation: str | None = None
