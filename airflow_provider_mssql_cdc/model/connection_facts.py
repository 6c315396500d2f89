"""What a login sees through a connection: facts, without a judgement."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.capture import CaptureInstance


@dataclass(frozen=True, slots=True)
class InstanceRights:
    """A capture instance that the login sees, and what it may do with it; None where that cannot be told."""

    instance: CaptureInstance
    may_read_changes: bool | None = None
    in_gating_role: bool | None = None


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """A server and a database as one login sees them.

    :param driver: name and version of the driver that asked.
    :param version: ``ProductVersion``, for instance ``16.0.4135.4``; None where the server keeps it back.
    :param user: the database user.
    :param instances: those that ``sys.sp_cdc_help_change_data_capture`` shows.
    :param hidden: (schema, table) of visible tables that CDC tracks and no visible instance captures.
    """

    driver: str
    version: str | None
    edition: str | None
    database: str
    user: str
    cdc_enabled: bool
    instances: tuple[InstanceRights, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()
