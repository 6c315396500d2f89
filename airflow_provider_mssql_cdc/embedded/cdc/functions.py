"""The functions of change data capture: ``sys.fn_cdc_*`` and ``cdc.fn_cdc_get_all_changes_<instance>``."""

from __future__ import annotations

from typing import Any

from airflow_provider_mssql_cdc.embedded.cdc import access, lsn, watermarks
from airflow_provider_mssql_cdc.embedded.cdc.errors import range_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, find_instance
from airflow_provider_mssql_cdc.embedded.cdc.schema import DATETIME, INT, LSN, MASK, sysname
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.names import bracket
from airflow_provider_mssql_cdc.embedded.engine.registry import TableFunction
from airflow_provider_mssql_cdc.embedded.engine.session import Session
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

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
    return watermarks.max_lsn(session.active_connection, session.catalog())


def _min_lsn(session: Session, name: str | None) -> bytes | None:
    catalog = session.catalog()
    instance = None if name is None else find_instance(catalog, name)
    if instance is None or not access.may_read(session, catalog, instance):
        return lsn.ZERO
    return watermarks.min_lsn(session.active_connection, catalog, instance)


def _increment(session: Session, value: bytes | None) -> bytes | None:
    return None if value is None else lsn.increment(value)


def _decrement(session: Session, value: bytes | None) -> bytes | None:
    return None if value is None else lsn.decrement(value)


def _to_time(session: Session, value: bytes | None) -> int | None:
    return watermarks.lsn_to_time(session.active_connection, session.catalog(), value)


def _to_lsn(session: Session, relation: str | None, ticks: int | None) -> bytes | None:
    return watermarks.time_to_lsn(
        session.active_connection, session.catalog(), relation=relation, ticks=ticks
    )


def _is_bit_set(session: Session, position: int | None, mask: bytes | None) -> int | None:
    if position is None or mask is None or position < 1:
        return None
    return int.from_bytes(mask, "big") >> (position - 1) & 1


def _ordinal(session: Session, name: str | None, column: str | None) -> int | None:
    catalog = session.catalog()
    instance = None if name is None else find_instance(catalog, name)
    if instance is None or column is None or not access.may_read(session, catalog, instance):
        return None
    return next((c.ordinal for c in instance.columns if catalog.fold(c.name) == catalog.fold(column)), None)


def _all_changes(session: Session, schema: str, name: str) -> TableFunction | None:
    if schema.lower() != "cdc" or not name.lower().startswith(ALL_CHANGES):
        return None
    catalog = session.catalog()
    instance = find_instance(catalog, name[len(ALL_CHANGES) :])
    if instance is None:
        return None
    if not access.may_read(session, catalog, instance):
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
    low = watermarks.min_lsn(connection, catalog, instance)
    high = watermarks.max_lsn(connection, catalog)
    known = (row_filter or "").strip().lower() in ("all", "all update old")
    if not known or not watermarks.in_range(low, high, start=start, end=end):
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
