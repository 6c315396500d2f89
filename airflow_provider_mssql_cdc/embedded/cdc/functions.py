"""The functions of change data capture: watermarks, LSNs and times."""

from __future__ import annotations

import sqlite3

from airflow_provider_mssql_cdc.embedded.cdc import answers, lsn
from airflow_provider_mssql_cdc.embedded.cdc.instances import (
    DATETIME,
    LSN,
    CaptureInstance,
    find_instance,
    sysname,
)
from airflow_provider_mssql_cdc.embedded.cdc.lsn import ZERO
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.seam import SqlType

_RELATIONS = {
    "largest less than": "MAX(start_lsn) FROM {} WHERE tran_end_time < ?",
    "largest less than or equal": "MAX(start_lsn) FROM {} WHERE tran_end_time <= ?",
    "smallest greater than": "MIN(start_lsn) FROM {} WHERE tran_end_time > ?",
    "smallest greater than or equal": "MIN(start_lsn) FROM {} WHERE tran_end_time >= ?",
}


def storage(catalog: Catalog, name: str) -> str:
    """The quoted SQLite name of a table of schema cdc."""
    return quote(catalog.require(("cdc", name)).storage)


def max_lsn(connection: sqlite3.Connection, catalog: Catalog) -> bytes | None:
    """The last LSN that capture processed; None on a database that capture never wrote to."""
    if not catalog.cdc_enabled:
        return None
    found = connection.execute(
        f"SELECT MAX(start_lsn) FROM {storage(catalog, 'lsn_time_mapping')}"
    ).fetchone()
    return found[0] if found else None


def low_endpoint(connection: sqlite3.Connection, catalog: Catalog, instance: CaptureInstance) -> bytes:
    """The instance's ``start_lsn`` in cdc.change_tables: where it began, raised by each cleanup."""
    query = f"SELECT start_lsn FROM {storage(catalog, 'change_tables')} WHERE object_id = ?"
    found = connection.execute(query, (instance.object_id,)).fetchone()
    return bytes(found[0])


def min_lsn(connection: sqlite3.Connection, catalog: Catalog, instance: CaptureInstance) -> bytes:
    """The low end point; all-zero until capture has reached the instance."""
    low, high = low_endpoint(connection, catalog, instance), max_lsn(connection, catalog)
    return low if high is not None and high >= low else ZERO


def lsn_to_time(connection: sqlite3.Connection, catalog: Catalog, lsn: bytes | None) -> int | None:
    """The commit time (datetime ticks) of an LSN that has an entry, else None."""
    if lsn is None or not catalog.cdc_enabled:
        return None
    query = f"SELECT tran_end_time FROM {storage(catalog, 'lsn_time_mapping')} WHERE start_lsn = ?"
    found = connection.execute(query, (lsn,)).fetchone()
    return found[0] if found else None


def time_to_lsn(
    connection: sqlite3.Connection, catalog: Catalog, *, relation: str | None, ticks: int | None
) -> bytes | None:
    """The LSN that stands in the relation to a time; None when there is none (or no such relation)."""
    choice = _RELATIONS.get((relation or "").strip().lower())
    if choice is None or ticks is None or not catalog.cdc_enabled:
        return None
    query = "SELECT " + choice.format(storage(catalog, "lsn_time_mapping"))
    found = connection.execute(query, (ticks,)).fetchone()
    return found[0] if found else None


_RELATION = SqlType("nvarchar", 60)


def register_functions(engine: Engine) -> None:
    """Let every session of the engine call them."""
    engine.register_scalar("sys.fn_cdc_get_max_lsn", _max_lsn, returns=LSN)
    engine.register_scalar("sys.fn_cdc_get_min_lsn", _min_lsn, returns=LSN, parameters=(sysname(),))
    engine.register_scalar("sys.fn_cdc_map_lsn_to_time", _to_time, returns=DATETIME, parameters=(LSN,))
    engine.register_scalar(
        "sys.fn_cdc_map_time_to_lsn", _to_lsn, returns=LSN, parameters=(_RELATION, DATETIME)
    )


def _max_lsn(session: Session) -> bytes | None:
    return max_lsn(session.active_connection, session.catalog())


def _min_lsn(session: Session, name: str | None) -> bytes | None:
    catalog = session.catalog()
    instance = None if name is None else find_instance(catalog, name)
    if instance is None or not answers.may_read(session, catalog, instance):
        return lsn.ZERO
    return min_lsn(session.active_connection, catalog, instance)


def _to_time(session: Session, value: bytes | None) -> int | None:
    return lsn_to_time(session.active_connection, session.catalog(), value)


def _to_lsn(session: Session, relation: str | None, ticks: int | None) -> bytes | None:
    return time_to_lsn(session.active_connection, session.catalog(), relation=relation, ticks=ticks)
