"""Capture instances as the server shows them to this login, and the one that a name refers to."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError, SourceObjectMissing
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source.session import Answer, SourceSession
from airflow_provider_mssql_cdc.tsql import cdc

_BRACKETED = re.compile(r"\[((?:[^\]]|\]\])*)\]")


def visible_instances(
    session: SourceSession, source: tuple[str, str] | None = None
) -> tuple[CaptureInstance, ...]:
    """Query ``sys.sp_cdc_help_change_data_capture``, which omits instances that this login may not read.

    :param source: (schema, table) to list the instances of one table only.
    """
    # A hidden instance is no error but a missing row, as with every catalog view (Microsoft Learn, "Metadata
    # visibility configuration").
    rows = session.rows(cdc.instances(source), doing="asking for capture instances")
    return tuple(instance_of(row) for row in rows)


def choose_instance(found: Sequence[CaptureInstance], name: str) -> CaptureInstance | None:
    """Return the instance with exactly this name, else the only one that is equal ignoring case.

    :raises ConfigurationError: a case-sensitive database has several.
    """
    exact = [instance for instance in found if instance.name == name]
    equal = exact or [instance for instance in found if instance.name.casefold() == name.casefold()]
    if len(equal) > 1:
        names = " and ".join(sorted(instance.name for instance in equal))
        raise ConfigurationError(
            f"capture instance {name} may be any of {names}, which differ by case only: write it as the "
            "server does"
        )
    return equal[0] if equal else None


def refreshed(
    session: SourceSession, instance: CaptureInstance, *, listed: Answer | None = None
) -> CaptureInstance:
    """Query the same instance again; CDC cleanup moves its low endpoint.

    :param listed: the instances of its table, if they were queried just before.
    :raises SourceObjectMissing: it is gone, or has another change table.
    """
    found: tuple[CaptureInstance, ...] = ()
    with contextlib.suppress(SourceObjectMissing):  # no instance at all is an error to the procedure
        if listed is None:
            found = visible_instances(session, (instance.source_schema, instance.source_table))
        else:
            found = tuple(instance_of(row) for row in listed.rows)
    same = [other for other in found if other.identity == instance.identity]
    if not same:
        where = f"{instance.source_schema}.{instance.source_table}"
        raise SourceObjectMissing(
            f"capture instance {instance.name} of {where} is not the one that this run began with: CDC was "
            "disabled on the table, or enabled again, or this login may no longer see it. Changes between "
            "the two are not recorded anywhere: start a new run"
        )
    return same[0]


def instance_of(row: dict[str, Any]) -> CaptureInstance:
    """Build the instance from one row of the help procedure."""
    return CaptureInstance(
        name=row["capture_instance"],
        source_schema=row["source_schema"],
        source_table=row["source_table"],
        source_object_id=int(row["source_object_id"]),
        change_table_id=int(row["object_id"]),
        start_lsn=lsn_of(row["start_lsn"]),
        create_date=row["create_date"],
        captured_columns=names_in(row["captured_column_list"]),
        index_columns=names_in(row["index_column_list"]),
        index_name=row["index_name"] or None,
        role_name=row["role_name"] or None,
        drop_pending=bool(row["has_drop_pending"]),
    )


def lsn_of(value: bytes | str | None) -> Lsn | None:
    """Parse a binary(10) as the drivers return it; NULL and zero both mean "no position"."""
    return Lsn.from_server(f"0x{value.hex()}" if isinstance(value, (bytes, bytearray)) else value)


def names_in(column_list: str | None) -> tuple[str, ...]:
    """Return the names of ``[a], [b]]c]``, unescaping ``]]``."""
    return tuple(name.replace("]]", "]") for name in _BRACKETED.findall(column_list or ""))
