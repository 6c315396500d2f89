"""Statements that steer: variables, SET, transactions, USE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
from airflow_provider_mssql_cdc.embedded.engine.compile.server_functions import OPTION_BITS
from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.run import execution
from airflow_provider_mssql_cdc.embedded.engine.schema.tables import collated
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import (
    converter,
)
from airflow_provider_mssql_cdc.embedded.seam import (
    Message,
    ResultSet,
    RowCount,
    SqlError,
    SqlType,
)

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


Outcome = ResultSet | RowCount | Message
_LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT")


def run(session: Session, statement: tree.Statement) -> Iterator[Outcome]:
    """One such statement."""
    match statement:
        case tree.Declare():
            _declare(session, statement)
        case tree.SetVariable():
            set_variable(session, statement.name, *execution.scalar(session, statement.value))
        case tree.SetOption():
            _set_option(session, statement)
        case tree.Transaction():
            _transaction(session, statement.action)
        case tree.Use():
            session.use(statement.database)
            yield Message(5701, f"Changed database context to '{session.database}'.")
    yield RowCount(None)


def _declare(session: Session, statement: tree.Declare) -> None:
    """Variables, NULL or with their first values."""
    catalog = session.catalog()
    compiler = Compiler(session.engine.registry, catalog, {})
    for name, type_name, initial in statement.variables:
        type_ = collated(compiler.type_of(type_name, default_length=1), None, catalog)
        session.variables[name] = (type_, None)
        if initial is not None:
            set_variable(session, name, *execution.scalar(session, initial))


def set_variable(session: Session, name: str, type_: SqlType, value: Any) -> None:
    """Error 137."""
    if name not in session.variables:
        raise SqlError(137, f'Must declare the scalar variable "{name}".', 15)
    target = session.variables[name][0]
    convert = converter(type_, target)
    session.variables[name] = (target, value if convert is None else convert(value))


def _set_option(session: Session, statement: tree.SetOption) -> None:
    name, value = statement.name, statement.value
    if name == "ISOLATION":
        _isolation(session, " ".join(value))
    elif name == "LOCK_TIMEOUT":
        session.lock_timeout_ms = int(value[0])
    elif name == "TEXTSIZE":
        session.text_size = int(value[0]) if int(value[0]) > 0 else 2147483647 if int(value[0]) else 4096
    elif name == "ROWCOUNT":
        session.row_limit = int(value[0])
    elif name == "LANGUAGE":
        session.language = value[0]
        session.date_format = "mdy" if value[0].lower() == "us_english" else "dmy"
    elif name == "DATEFORMAT":
        session.date_format = value[0].lower()
    elif name in OPTION_BITS:
        (session.options.add if value[0].upper() == "ON" else session.options.discard)(name)


def _isolation(session: Session, level: str) -> None:
    """Error 3951: a transaction cannot become a SNAPSHOT one midway."""
    if level not in _LEVELS:
        raise SqlError(102, f"Incorrect syntax near '{level}'.", 15)
    session.isolation = level


def _transaction(session: Session, action: str) -> None:
    if action == "BEGIN":
        session.transactions.begin()
    elif action == "COMMIT":
        session.transactions.commit()
    else:
        session.transactions.rollback()


def create_database(session: Session, node: ddl_tree.CreateDatabase) -> None:
    """Errors 262, 1801."""
    if not session.is_sysadmin:
        raise SqlError(262, "CREATE DATABASE permission denied in database 'master'.", 14)
    session.engine.create_database(node.name, node.collation)
