"""Running statements: compile (or find compiled), check permissions, execute, stream."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.collected import collect
from airflow_provider_mssql_cdc.embedded.engine.compile import dml
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiled, Compiler
from airflow_provider_mssql_cdc.embedded.engine.parser import ddl_tree, tree
from airflow_provider_mssql_cdc.embedded.engine.run import (
    control,
    definitions,
    execution,
    moved_keys,
    transactions,
)
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.seam import (
    Message,
    Parameter,
    ResultColumn,
    ResultSet,
    RowCount,
    SqlError,
)

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table


Outcome = ResultSet | RowCount | Message


def batch(
    session: Session, statements: Sequence[tree.Statement], *, text: str | None = None
) -> Iterator[Outcome]:
    """The statements of a batch, one after the other; an error ends the batch."""
    for statement in statements:
        yield from run(session, statement)
    if text is not None:
        collect("accepted", text)


def run(session: Session, statement: tree.Statement) -> Iterator[Outcome]:
    """One statement between its hooks."""
    match statement:
        case tree.Block():
            yield from batch(session, statement.statements)
        case tree.If():
            if execution.condition(session, statement.condition):
                yield from run(session, statement.then)
            elif statement.otherwise is not None:
                yield from run(session, statement.otherwise)
        case tree.While():
            while execution.condition(session, statement.condition):
                yield from run(session, statement.body)
        case _:
            session.begin_statement()
            for hook in session.engine.hooks.before_statement:
                hook(session, statement.text)
            if isinstance(statement, _OPENING) and "IMPLICIT_TRANSACTIONS" in session.options:
                session.transactions.begin_implicitly()
            yield from _simple(session, statement)
            for hook in session.engine.hooks.after_statement:
                hook(session, statement.text)


_OPENING = (tree.QueryStatement, tree.Insert, tree.Update, tree.Delete)
"""What begins a transaction under IMPLICIT_TRANSACTIONS ON; DDL does so on SQL Server, too."""

_DEFINITIONS: dict[type[tree.Statement], Callable[..., None]] = {
    ddl_tree.CreateTable: definitions.create_table,
    ddl_tree.CreateIndex: definitions.create_index,
    ddl_tree.AlterTable: definitions.alter_table,
    ddl_tree.AlterDatabase: definitions.alter_database,
    ddl_tree.DropObject: definitions.drop,
    ddl_tree.CreateSchema: definitions.create_schema,
    ddl_tree.CreateType: definitions.create_type,
    ddl_tree.CreateSecurityPolicy: definitions.create_policy,
    ddl_tree.CreateDatabase: control.create_database,
    ddl_tree.CreatePrincipal: permissions.create_principal,
    ddl_tree.AlterRole: permissions.alter_role,
    ddl_tree.Permission: permissions.permission,
}


def _simple(session: Session, statement: tree.Statement) -> Iterator[Outcome]:
    define = _DEFINITIONS.get(type(statement))
    if define is not None:
        with _translating(session):
            define(session, statement)
        yield RowCount(None)
        return
    match statement:
        case tree.QueryStatement():
            yield from _query(session, statement)
        case tree.Insert() | tree.Update() | tree.Delete():
            yield _counted(session, change(session, statement))
        case tree.Execute():
            yield from _execute(session, statement)
        case _:
            yield from control.run(session, statement)


def _counted(session: Session, rows: int) -> RowCount:
    session.row_count = rows
    return RowCount(rows if session.count_rows else None)


class _translating:
    """SQLite's errors on the writing connection as SQL Server's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, exc: BaseException | None, trace: object) -> None:
        if isinstance(exc, sqlite3.Error):
            active = self._session.active or self._session.transactions.last_link
            if active is None:
                raise exc
            raise transactions.translated(active, exc, self._session.catalog()) from exc


def _query(session: Session, statement: tree.QueryStatement) -> Iterator[Outcome]:
    ready, link, cursor = execution.open_query(session, statement.query, statement.text)
    session.cursor = cursor
    columns = tuple(ResultColumn(c.name, c.type, c.nullable) for c in ready.columns)
    batches = execution.batches(session, link, cursor)
    if session.text_size < execution.LONGEST_TEXT:
        batches = execution.cut_texts(batches, columns, session.text_size)
    for hook in session.engine.hooks.wrap_batches:
        batches = hook(session, statement.text, batches)
    try:
        yield ResultSet(columns, batches)
    finally:
        cursor.close()
        session.active = None
    execution.record(session, link, statement.text)


def change(session: Session, statement: tree.Insert | tree.Update | tree.Delete) -> int:
    """INSERT, UPDATE, DELETE; the number of rows."""
    with session.write() as write:
        catalog = write.catalog()
        if session.isolation == "SNAPSHOT" and not catalog.snapshot_isolation:
            raise execution.snapshot_refused(catalog)
        ready = execution.compiled(
            session, catalog, (statement.text, "change"), lambda c: _compile_change(c, statement)
        )
        table = dml_table(catalog, statement, ready)
        permissions.require(session, catalog, type(statement).__name__.upper(), table=table)
        reads = {i: c for i, c in ready.needs.columns.items() if i != table.object_id}
        permissions.check_columns(session, catalog, reads)
        session.transactions.statement += 1
        try:
            cursor = execution.start(session, write.link, catalog, ready=ready)
            return max(cursor.rowcount, 0)
        except SqlError as exc:
            if not isinstance(statement, tree.Update) or exc.number not in moved_keys.DUPLICATE_KEY:
                raise
            return moved_keys.split_update(session, write, catalog, node=statement, table=table)
        finally:
            session.active = None


def dml_table(catalog: Catalog, statement: tree.Insert | tree.Update | tree.Delete, ready: Compiled) -> Table:
    table = catalog.by_id(int(ready.variables[0]))
    assert table is not None
    return table


def _compile_change(compiler: Compiler, statement: tree.Insert | tree.Update | tree.Delete) -> Compiled:
    if isinstance(statement, tree.Insert):
        ready, table = dml.insert(compiler, statement)
    elif isinstance(statement, tree.Update):
        ready, table = dml.update(compiler, statement)
    else:
        ready, table = dml.delete(compiler, statement)
    return Compiled(ready.sql, ready.needs, (), (str(table.object_id),))


def _execute(session: Session, statement: tree.Execute) -> Iterator[Outcome]:
    """EXEC of a procedure."""
    parameters = []
    for name, node, output in statement.arguments:
        type_, value = execution.scalar(session, node)
        parameters.append(Parameter(name or "", type_, value, output))
    yield from procedure(session, statement.procedure, parameters, text="")


def procedure(
    session: Session, name: tree.Name, parameters: Sequence[Parameter], *, text: str
) -> Iterator[Outcome]:
    """A registered procedure. Errors 2812, 8144 (too many arguments)."""
    session.begin_statement()
    if text:
        for hook in session.engine.hooks.before_statement:
            hook(session, text)
    found = session.engine.registry.procedure(name)
    if found is None:
        raise SqlError(2812, f"Could not find stored procedure '{'.'.join(name)}'.", 16, 62)
    arguments: dict[str, Parameter] = {}
    for place, parameter in enumerate(parameters):
        if not parameter.name and place >= len(found.parameters):
            raise SqlError(8144, f"Procedure or function {name[-1]} has too many arguments specified.", 16, 2)
        arguments[(parameter.name or found.parameters[place]).lower().lstrip("@")] = parameter
    with _translating(session):
        yield from found.call(session, arguments) or ()
    if text:
        for hook in session.engine.hooks.after_statement:
            hook(session, text)
