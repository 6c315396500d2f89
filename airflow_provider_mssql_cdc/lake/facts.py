"""The facts table: one row per event, for people. Written after the commit it tells of; decides nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.lake.constants import one
from airflow_provider_mssql_cdc.lake.facts_schema import FACTS_SCHEMA, facts_properties
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.retries import CREATE_ONCE, until_committed
from airflow_provider_mssql_cdc.lake.schema import same_type
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn

log = logging.getLogger(__name__)

_WRITTEN = 1


def write_facts(location: TableLocation, row: FactsRow, *, identifier: str) -> bool:
    """Append ``row`` unless a row of this identifier is there; False when it was.

    One facts table serves many tables and many writers at once; it is created when there is none.

    :param identifier: :func:`~..model.facts.facts_identifier`, kept as a Delta transaction.
    :raises CommitConflict: other writers were first too often.
    :raises SchemaDrift: a Delta table of other columns is at this place.
    """

    def once() -> bool:
        table = _open_or_create(location)
        if table.transaction_version(identifier) is not None:
            return False
        write_deltalake(
            table,
            _as_table(row),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(identifier, _WRITTEN)]),
        )
        return True

    written = until_committed(once, what=f"facts row {row.event} into {location}")
    log.debug("facts row %s %s in %s", identifier, "written" if written else "is there already", location)
    return written


def has_facts(location: TableLocation, identifier: str) -> bool:
    """Whether a row of this identifier has been written."""
    table = _open(location)
    return table is not None and table.transaction_version(identifier) is not None


def absent_facts(location: TableLocation, identifiers: Sequence[str]) -> list[str]:
    """Those of these identifiers of which no row has been written."""
    table = _open(location)
    return [one for one in identifiers if table is None or table.transaction_version(one) is None]


def _open(location: TableLocation) -> DeltaTable | None:
    try:
        return DeltaTable(location.uri, storage_options=location.options())
    except TableNotFoundError:
        return None


def _open_or_create(location: TableLocation) -> DeltaTable:
    table = _open(location) or _create(location)
    stored = {field.name: field.type for field in pa.schema(table.schema())}
    odd = [f.name for f in FACTS_SCHEMA if f.name not in stored or not same_type(stored[f.name], f.type)]
    if odd:
        raise SchemaDrift(
            f"{location} is no facts table of this package: {', '.join(odd)} missing or of another type. "
            "Name another path for facts"
        )
    return table


def _create(location: TableLocation) -> DeltaTable:
    try:
        return DeltaTable.create(
            location.uri,
            FACTS_SCHEMA,
            name="mssql_cdc_facts",
            description="What loading SQL Server tables under CDC did, one row per event; all times are UTC",
            configuration=facts_properties(),
            storage_options=location.options(),
            commit_properties=CREATE_ONCE,
        )
    except DeltaError:
        if (theirs := _open(location)) is None:
            raise
        return theirs


def _as_table(row: FactsRow) -> pa.Table:
    values = {field.name: _plain(getattr(row, field.name)) for field in fields(row)}
    if values["written_at"] is None:
        values["written_at"] = datetime.now(UTC)
    arrays = [one(values[field.name], field.type) for field in FACTS_SCHEMA]
    return pa.table(arrays, schema=FACTS_SCHEMA)


def _plain(value: Any) -> Any:
    """An LSN is its text, a mapping is JSON."""
    if isinstance(value, Lsn):
        return value.text
    if isinstance(value, str | int | float | datetime | None):
        return value
    return json.dumps(dict(value), ensure_ascii=False, default=str)
