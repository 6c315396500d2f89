"""The functions of change data capture: watermarks, ``sys.fn_cdc_*``, all changes of an instance."""

from __future__ import annotations

import sqlite3
from typing import Any

from airflow_provider_mssql_cdc.embedded.cdc import answers, lsn
from airflow_provider_mssql_cdc.embedded.cdc.errors import range_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import (
    DATETIME,
    INT,
    LSN,
    MASK,
    CaptureInstance,
    find_instance,
    sysname,
)
from airflow_provider_mssql_cdc.embedded.cdc.lsn import ZERO
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import bracket, quote
from airflow_provider_mssql_cdc.embedded.engine.run.registry import TableFunction
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

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


def in_range(low: bytes, high: bytes | None, *, start: bytes | None, end: bytes | None) -> bool:
    """Whether ``fn_cdc_get_all_changes`` takes start to end; else it raises 313."""
    if start is None or end is None or high is None or low == ZERO:
        return False
    return low <= start <= end <= high


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


ALL_CHANGES = "fn_cdc_get_all_changes_"

_FILTER = SqlType("nvarchar", 60)
_RELATION = SqlType("nvarchar", 60)


def register_functions(engine: Engine) -> None:
    """Let every session of the engine call them."""
    engine.register_scalar("sys.fn_cdc_get_max_lsn", _max_lsn, returns=LSN)
    engine.register_scalar("sys.fn_cdc_get_min_lsn", _min_lsn, returns=LSN, parameters=(sysname(),))
    engine.register_scalar("sys.fn_cdc_increment_lsn", _increment, returns=LSN, parameters=(LSN,))
    engine.register_scalar("sys.fn_cdc_decrement_lsn", _decrement, returns=LSN, parameters=(LSN,))
    engine.register_scalar("sys.fn_cdc_map_lsn_to_time", _to_time, returns=DATETIME, parameters=(LSN,))
    engine.register_scalar(
        "sys.fn_cdc_map_time_to_lsn", _to_lsn, returns=LSN, parameters=(_RELATION, DATETIME)
    )
    engine.register_scalar(
        "sys.fn_cdc_is_bit_set", _is_bit_set, returns=SqlType("bit"), parameters=(INT, MASK)
    )
    engine.register_scalar(
        "sys.fn_cdc_get_column_ordinal", _ordinal, returns=INT, parameters=(sysname(), sysname())
    )
    engine.register_table_function(_all_changes)


def _max_lsn(session: Session) -> bytes | None:
    return max_lsn(session.active_connection, session.catalog())


def _min_lsn(session: Session, name: str | None) -> bytes | None:
    catalog = session.catalog()
    instance = None if name is None else find_instance(catalog, name)
    if instance is None or not answers.may_read(session, catalog, instance):
        return lsn.ZERO
    return min_lsn(session.active_connection, catalog, instance)


def _increment(session: Session, value: bytes | None) -> bytes | None:
    return None if value is None else lsn.increment(value)


def _decrement(session: Session, value: bytes | None) -> bytes | None:
    return None if value is None else lsn.decrement(value)


def _to_time(session: Session, value: bytes | None) -> int | None:
    return lsn_to_time(session.active_connection, session.catalog(), value)


def _to_lsn(session: Session, relation: str | None, ticks: int | None) -> bytes | None:
    return time_to_lsn(session.active_connection, session.catalog(), relation=relation, ticks=ticks)


def _is_bit_set(session: Session, position: int | None, mask: bytes | None) -> int | None:
    if position is None or mask is None or position < 1:
        return None
    return int.from_bytes(mask, "big") >> (position - 1) & 1


def _ordinal(session: Session, name: str | None, column: str | None) -> int | None:
    catalog = session.catalog()
    instance = None if name is None else find_instance(catalog, name)
    if instance is None or column is None or not answers.may_read(session, catalog, instance):
        return None
    return next((c.ordinal for c in instance.columns if catalog.fold(c.name) == catalog.fold(column)), None)


def _all_changes(session: Session, schema: str, name: str) -> TableFunction | None:
    if schema.lower() != "cdc" or not name.lower().startswith(ALL_CHANGES):
        return None
    catalog = session.catalog()
    instance = find_instance(catalog, name[len(ALL_CHANGES) :])
    if instance is None:
        return None
    if not answers.may_read(session, catalog, instance):
        raise _denied(name, catalog.name)

    def check(session: Session, *arguments: Any) -> None:
        _check_range(session, instance, *arguments)

    parameters = (("from_lsn", LSN), ("to_lsn", LSN), ("row_filter_option", _FILTER))
    return TableFunction(parameters=parameters, sql=_query(instance), check=check)


def _check_range(
    session: Session,
    instance: CaptureInstance,
    start: bytes | None,
    end: bytes | None,
    row_filter: str | None,
) -> None:
    catalog, connection = session.catalog(), session.active_connection
    low = min_lsn(connection, catalog, instance)
    high = max_lsn(connection, catalog)
    known = (row_filter or "").strip().lower() in ("all", "all update old")
    if not known or not in_range(low, high, start=start, end=end):
        raise range_error()


def _query(instance: CaptureInstance) -> str:
    columns = ["__$start_lsn", "__$seqval", "__$operation", "__$update_mask"]
    columns += [column.name for column in instance.columns]
    return (
        f"SELECT {', '.join(bracket(column) for column in columns)} "
        f"FROM [cdc].{bracket(instance.change_table)} "
        "WHERE [__$start_lsn] >= @from_lsn AND [__$start_lsn] <= @to_lsn "
        "AND ([__$operation] <> 3 OR @row_filter_option = N'all update old')"
    )


def _denied(function: str, database: str) -> SqlError:
    return SqlError(
        229,
        f"The SELECT permission was denied on the object '{function}', database '{database}', schema 'cdc'.",
        14,
        5,
    )
