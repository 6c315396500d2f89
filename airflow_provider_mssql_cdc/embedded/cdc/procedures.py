"""The system procedures of change data capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from airflow_provider_mssql_cdc.embedded.cdc import answers, functions
from airflow_provider_mssql_cdc.embedded.cdc.database import (
    add_instance,
    disable_database,
    drop_instances,
    enable_database,
)
from airflow_provider_mssql_cdc.embedded.cdc.enable import EnableTable, plan_instance, source_table
from airflow_provider_mssql_cdc.embedded.cdc.errors import cdc_error
from airflow_provider_mssql_cdc.embedded.cdc.instances import CaptureInstance, find_instance, state_of
from airflow_provider_mssql_cdc.embedded.cdc.service import ChangeDataCapture
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.run.results import result_set
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.seam import Message, Parameter, ResultSet, RowCount

Arguments = dict[str, Parameter]
Outcomes = Iterable[ResultSet | RowCount | Message] | None

ENABLE_TABLE = (
    "source_schema",
    "source_name",
    "role_name",
    "capture_instance",
    "supports_net_changes",
    "index_name",
    "captured_column_list",
    "filegroup_name",
    "allow_partition_switch",
)


def register_procedures(engine: Engine, cdc: ChangeDataCapture) -> None:
    """Let every session of the engine call them."""
    table = ("source_schema", "source_name")
    procedures: dict[
        str, tuple[Callable[[ChangeDataCapture, Session, Arguments], Outcomes], tuple[str, ...]]
    ] = {
        "sp_cdc_enable_db": (_enable_db, ()),
        "sp_cdc_disable_db": (_disable_db, ()),
        "sp_cdc_enable_table": (_enable_table, ENABLE_TABLE),
        "sp_cdc_disable_table": (_disable_table, (*table, "capture_instance")),
        "sp_cdc_help_change_data_capture": (_help, table),
        "sp_cdc_get_captured_columns": (_captured_columns, ("capture_instance",)),
        "sp_cdc_get_ddl_history": (_ddl_history, ("capture_instance",)),
    }
    for name, (function, parameters) in procedures.items():
        engine.register_procedure(f"sys.{name}", _bound(cdc, function), parameters=parameters)


def _bound(
    cdc: ChangeDataCapture, function: Callable[[ChangeDataCapture, Session, Arguments], Outcomes]
) -> Callable[[Session, Arguments], Outcomes]:
    return lambda session, arguments: function(cdc, session, arguments)


def _value(arguments: Arguments, name: str, default: Any = None) -> Any:
    found = arguments.get(name)
    return default if found is None else found.value


def _enabled(session: Session) -> Catalog:
    catalog = session.catalog()
    if not catalog.cdc_enabled:
        raise cdc_error(22901, catalog.name)
    return catalog


def _enable_db(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    answers.require_sysadmin(session)
    with session.write() as write:
        enable_database(write)
    return None


def _disable_db(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    answers.require_sysadmin(session)
    if session.catalog().cdc_enabled:
        with session.write() as write:
            disable_database(write)
    return None


def _enable_table(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    answers.require_owner(session)
    given = {name: arguments[name].value for name in ENABLE_TABLE if name in arguments}
    net_changes, switch = given.get("supports_net_changes"), given.get("allow_partition_switch", 1)
    given["supports_net_changes"] = None if net_changes is None else bool(net_changes)
    given["allow_partition_switch"] = bool(switch)
    _enabled(session)
    with session.write() as write:
        log = cdc.log(write, session.database)
        birth_lsn = log.record()
        log.flush()
        add_instance(
            write,
            plan_instance(
                write.catalog(),
                EnableTable(**{"source_schema": None, "source_name": None, **given}),
                birth_lsn=birth_lsn,
                create_date=cdc.now_ticks(),
                command_ids=cdc.command_ids,
            ),
        )
    return None


def _disable_table(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    answers.require_owner(session)
    catalog = session.catalog()
    table = source_table(catalog, _value(arguments, "source_schema"), _value(arguments, "source_name"))
    wish = _value(arguments, "capture_instance")
    if not wish:
        raise cdc_error(22963, "@capture_instance")
    instances = state_of(catalog).of_table(table.object_id)
    if not instances:
        raise cdc_error(22985, table.schema, table.name)
    named = [i for i in instances if catalog.fold(i.name) == catalog.fold(wish)]
    chosen = list(instances) if wish.lower() == "all" else named
    if not chosen:
        raise cdc_error(22960, wish, table.schema, table.name)
    with session.write() as write:
        drop_instances(write, chosen)
    return None


def _visible(session: Session, catalog: Catalog) -> list[CaptureInstance]:
    """The instances that the login may see, under their tables' present names."""
    found = []
    for instance in state_of(catalog).instances:
        table = catalog.by_id(instance.source_object_id)
        if table is not None and answers.may_read(session, catalog, instance):
            found.append(replace(instance, source_schema=table.schema, source_table=table.name))
    return found


def _help(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    catalog = _enabled(session)
    schema, name = _value(arguments, "source_schema"), _value(arguments, "source_name")
    if bool(schema) != bool(name):
        raise cdc_error(22972)
    instances = _visible(session, catalog)
    if schema:
        table = catalog.table(schema, name)
        if table is None:
            raise cdc_error(22931, schema, name)
        if not table.tracked_by_cdc:
            raise cdc_error(22985, schema, name)
        instances = [i for i in instances if i.source_object_id == table.object_id]
    connection = session.read_connection()
    tables = functions.storage(catalog, "change_tables")
    query = f"SELECT start_lsn, has_drop_pending FROM {tables} WHERE object_id = ?"
    rows = []
    for instance in instances:
        low, pending = connection.execute(query, (instance.object_id,)).fetchone()
        rows.append(answers.help_row(instance, start_lsn=low, has_drop_pending=pending))
    return [result_set(answers.HELP, rows)]


def _named(session: Session, arguments: Arguments) -> CaptureInstance:
    catalog = _enabled(session)
    wish = _value(arguments, "capture_instance")
    if not wish:
        raise cdc_error(22963, "@capture_instance")
    found = find_instance(catalog, wish)
    visible = [i for i in _visible(session, catalog) if found and i.object_id == found.object_id]
    if not visible:
        raise cdc_error(22981)
    return visible[0]


def _captured_columns(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    rows = answers.captured_rows(_named(session, arguments))
    return [result_set(answers.CAPTURED_COLUMNS, rows)]


def _ddl_history(cdc: ChangeDataCapture, session: Session, arguments: Arguments) -> Outcomes:
    instance = _named(session, arguments)
    history = functions.storage(session.catalog(), "ddl_history")
    found = session.read_connection().execute(
        f"SELECT required_column_update, ddl_command, ddl_lsn, ddl_time FROM {history} "
        "WHERE object_id = ? ORDER BY ddl_lsn",
        (instance.object_id,),
    )
    head = (instance.source_schema, instance.source_table, instance.name)
    return [result_set(answers.DDL_HISTORY, [(*head, *row) for row in found])]
