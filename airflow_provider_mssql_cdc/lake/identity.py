"""Whose a bronze table is: table properties, written when it is made and read whenever it is opened."""

from __future__ import annotations

import json

from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable
from airflow_provider_mssql_cdc.model.state import SourceIdentity

STATE_VERSION = 1
"""Of the transactions' meaning; a change of meaning raises it, so that older packages keep off."""

STATE_VERSION_PROPERTY = "mssql_cdc.state_version"
SOURCE_PROPERTY = "mssql_cdc.source"


def identity_properties(identity: SourceIdentity) -> dict[str, str]:
    """The properties that a new bronze table carries."""
    return {SOURCE_PROPERTY: identity_text(identity), STATE_VERSION_PROPERTY: str(STATE_VERSION)}


def identity_text(identity: SourceIdentity) -> str:
    """The source as the property holds it: JSON, keys in a fixed order."""
    return json.dumps(
        {
            "conn_id": identity.conn_id,
            "database": identity.database,
            "schema": identity.schema,
            "table": identity.table,
        },
        ensure_ascii=False,
    )


def identity_of(text: str) -> SourceIdentity:
    """What :func:`identity_text` wrote; anything else is a ValueError."""
    try:
        parts = json.loads(text)
        return SourceIdentity(**{key: str(parts[key]) for key in ("conn_id", "database", "schema", "table")})
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a source identity: {text!r}") from exc


def read_identity(table: DeltaTable) -> SourceIdentity:
    """Whose the table is.

    :raises ForeignTable: a Delta table that this package did not make.
    :raises ConfigurationError: one that a newer version of this package has written.
    """
    properties = table.metadata().configuration
    try:
        version = int(properties[STATE_VERSION_PROPERTY] or "")
        identity = identity_of(properties[SOURCE_PROPERTY] or "")
    except (KeyError, ValueError) as exc:
        raise ForeignTable(
            f"{table.table_uri} is a Delta table, but no bronze table of this package ({exc}). "
            "Name another path"
        ) from exc
    if version > STATE_VERSION:
        raise ConfigurationError(
            f"{table.table_uri} was written by a newer version of this package (state {version}, this one "
            f"knows {STATE_VERSION}); upgrade it"
        )
    return identity


def described(identity: SourceIdentity) -> str:
    """For messages: database, schema and table, and by which connection."""
    return f"{identity.database}.{identity.schema}.{identity.table} (connection {identity.conn_id})"
