"""Statements that steer: variables, SET, transactions, USE, WAITFOR, PRINT, errors, dynamic SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile.server_functions import OPTION_BITS
from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.engine.values.conversions import converter
from airflow_provider_mssql_cdc.embedded.seam import (
    Message,
    Parameter,
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
    from airflow_provider_mssql_cdc.embedded.engine.run import execution

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
        case tree.Print():
            _, text = _as_text(session, statement.value)
            yield Message(0, text or "")
        case tree.Throw():
            _, number = execution.scalar(session, statement.number)
            raise SqlError(int(number), str(_as_text(session, statement.message)[1]))
        case tree.WaitFor():
            _, text = _as_text(session, statement.delay)
            session.wait(moments.parse(str(text), "time").units % moments.DAY / moments.SECOND)
    yield RowCount(None)


def _as_text(session: Session, node: tree.Expression) -> tuple[SqlType, Any]:
    from airflow_provider_mssql_cdc.embedded.engine.run import execution

    return execution.scalar(session, tree.Cast(node, tree.TypeName(("nvarchar",), (4000,))))


def _declare(session: Session, statement: tree.Declare) -> None:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.run import execution
    from airflow_provider_mssql_cdc.embedded.engine.schema.tables import collated

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
    elif name == "IDENTITY_INSERT":
        table = session.catalog().require(tuple(value[1:]))
        session.identity_insert = table.object_id if value[0] == "ON" else None
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


def select_into(session: Session, query: tree.Query, body: tree.Select) -> int:
    """SELECT … INTO: a table of the result's columns, then its rows."""
    from dataclasses import replace

    from airflow_provider_mssql_cdc.embedded.engine.run import definitions, execution, runner

    assert body.into is not None
    plain = replace(query, body=replace(body, into=None))
    ready, _, cursor = execution.open_query(session, plain, ("into", plain))
    cursor.close()
    session.active = None
    columns = tuple(
        ddl_tree.ColumnDefinition(c.name, _type_name(c.type), c.nullable, collation=c.type.collation)
        for c in ready.columns
    )
    with session.write():
        definitions.create_table(session, ddl_tree.CreateTable(body.into, columns, ()))
        names = tuple(c.name for c in columns)
        insert = tree.Insert(body.into, names, plain, text=f"INSERT INTO {body.into} {plain}")
        return runner.change(session, insert)


def _type_name(type_: SqlType) -> tree.TypeName:
    spelled = types.spelled(type_)
    name, _, rest = spelled.partition("(")
    arguments = tuple(-1 if a == "max" else int(a) for a in rest.rstrip(")").split(",")) if rest else ()
    return tree.TypeName((name,), arguments)


def insert_execute(session: Session, statement: tree.Insert) -> int:
    """INSERT … EXEC: the rows of the procedure's results."""
    from airflow_provider_mssql_cdc.embedded.engine.run import runner
    from airflow_provider_mssql_cdc.embedded.engine.run.results import python_rows

    assert isinstance(statement.source, tree.Execute)
    rows = []
    for outcome in runner.run(session, statement.source):
        if isinstance(outcome, ResultSet):
            rows += python_rows(outcome)
    if not rows:
        return 0
    marks = ", ".join("?" * len(rows[0]))
    head = statement.text[: statement.text.upper().rindex("EXEC")]
    return session.executemany(f"{head} VALUES ({marks})", rows)


def execute_sql(session: Session, parameters: Sequence[Parameter]) -> Iterator[Outcome]:
    """sp_executesql: the statement, the parameters' declaration, their values."""
    from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse
    from airflow_provider_mssql_cdc.embedded.engine.run import runner

    text = str(parameters[0].value)
    declared = parse(f"DECLARE {parameters[1].value}") if len(parameters) > 1 and parameters[1].value else ()
    kept, session.variables = session.variables, {}
    try:
        names: list[str] = []
        for statement in declared:
            assert isinstance(statement, tree.Declare)
            _declare(session, statement)
            names = [name for name, _, _ in statement.variables]
        for place, parameter in enumerate(parameters[2:]):
            set_variable(session, parameter.name.lower() or names[place], parameter.type, parameter.value)
        yield from runner.batch(session, parse(text), text=text)
    finally:
        session.variables = kept
