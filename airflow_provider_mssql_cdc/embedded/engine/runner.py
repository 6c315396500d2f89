"""Running statements: compile (or find compiled), check permissions, execute, stream."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine import (
    control,
    definitions,
    dml,
    errors,
    grants,
    moved_keys,
    permissions,
    select,
    tree,
    types,
)
from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler
from airflow_provider_mssql_cdc.embedded.engine.names import quote
from airflow_provider_mssql_cdc.embedded.engine.parse_ddl import parse
from airflow_provider_mssql_cdc.embedded.engine.typed import Compiled
from airflow_provider_mssql_cdc.embedded.seam import (
    Message,
    Parameter,
    ResultColumn,
    ResultSet,
    Row,
    RowCount,
    SqlError,
    SqlType,
)

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.catalog import Catalog, Table
    from airflow_provider_mssql_cdc.embedded.engine.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.storage import Link

Outcome = ResultSet | RowCount | Message
_FIRST_ROWS, _BATCH_ROWS = 1_000, 10_000


def batch(session: Session, statements: Sequence[tree.Statement]) -> Iterator[Outcome]:
    """The statements of a batch, one after the other; an error ends the batch."""
    for statement in statements:
        yield from run(session, statement)


def run(session: Session, statement: tree.Statement) -> Iterator[Outcome]:
    """One statement between its hooks."""
    match statement:
        case tree.Block():
            yield from batch(session, statement.statements)
        case tree.If():
            if condition(session, statement.condition):
                yield from run(session, statement.then)
            elif statement.otherwise is not None:
                yield from run(session, statement.otherwise)
        case tree.While():
            while condition(session, statement.condition):
                yield from run(session, statement.body)
        case _:
            session.begin_statement()
            for hook in session.engine.hooks.before_statement:
                hook(session, statement.text)
            yield from _simple(session, statement)
            for hook in session.engine.hooks.after_statement:
                hook(session, statement.text)


_DEFINITIONS: dict[type[tree.Statement], Callable[..., None]] = {
    tree.CreateTable: definitions.create_table,
    tree.CreateIndex: definitions.create_index,
    tree.AlterTable: definitions.alter_table,
    tree.AlterDatabase: definitions.alter_database,
    tree.DropObject: definitions.drop,
    tree.Truncate: definitions.truncate,
    tree.CreateSchema: definitions.create_schema,
    tree.CreateType: definitions.create_type,
    tree.CreateSecurityPolicy: definitions.create_policy,
    tree.CreateDatabase: control.create_database,
    tree.CreatePrincipal: grants.create_principal,
    tree.AlterRole: grants.alter_role,
    tree.Permission: grants.permission,
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
            raise errors.translated(active, exc, self._session.catalog()) from exc


def compiled(session: Session, catalog: Catalog, key: Any, build: Callable[[Compiler], Compiled]) -> Compiled:
    """A compiled statement, from the cache if the same was compiled against this catalog before."""
    counting = bool(session.engine.counters)
    variables = {name: type_ for name, (type_, _) in session.variables.items()}
    full = (key, catalog.version, tuple(variables.items()), counting, session.identity_insert)
    found = session.engine.cache.get(full)
    if found is None:
        compiler = Compiler(session.engine.registry, catalog, variables, session=session, counting=counting)
        found = build(compiler)
        session.engine.cache[full] = found
    assert isinstance(found, Compiled)
    return found


def _build_query(query: tree.Query) -> Callable[[Compiler], Compiled]:
    def build(compiler: Compiler) -> Compiled:
        inner = select.query(compiler, query)
        return Compiled(inner.sql, compiler.needs, inner.columns, inner.variables)

    return build


def _query(session: Session, statement: tree.QueryStatement) -> Iterator[Outcome]:
    body = statement.query.body
    if isinstance(body, tree.Select) and body.into is not None:
        yield _counted(session, control.select_into(session, statement.query, body))
        return
    ready, link, cursor = open_query(session, statement.query, statement.text)
    if ready.variables:
        _assign(session, ready, cursor)
        session.active = None
        return
    columns = tuple(ResultColumn(c.name, c.type, c.nullable) for c in ready.columns)
    batches = _batches(session, link, cursor, text=statement.text)
    for hook in session.engine.hooks.wrap_batches:
        batches = hook(session, statement.text, batches)
    try:
        yield ResultSet(columns, batches)
    finally:
        cursor.close()
        session.active = None
    _record(session, link, statement.text)


def open_query(session: Session, query: tree.Query, key: Any) -> tuple[Compiled, Link, sqlite3.Cursor]:
    """Compile and start a query on the connection that the transaction asks for. Error 3952."""
    database = session.database_file
    link = session.transactions.reader(database)
    catalog = database.catalog(link)
    ready = compiled(session, catalog, key, _build_query(query))
    if ready.needs.reads_data:
        if session.isolation == "SNAPSHOT" and ready.needs.columns and not catalog.snapshot_isolation:
            raise snapshot_refused(catalog)
        link, pinned = session.transactions.pin(database)
        if pinned:
            catalog = database.catalog(link)
            ready = compiled(session, catalog, key, _build_query(query))
    permissions.check_columns(session, catalog, ready.needs.columns)
    return ready, link, start(session, link, catalog, ready=ready)


def plan(session: Session, sql: str) -> str:
    """EXPLAIN QUERY PLAN of one query."""
    (statement,) = parse(sql)
    assert isinstance(statement, tree.QueryStatement)
    ready, link, cursor = open_query(session, statement.query, statement.text)
    cursor.close()
    values = {f"b{i}": None for i in range(len(ready.needs.bindings))}
    steps = link.connection.execute("EXPLAIN QUERY PLAN " + ready.sql, values).fetchall()
    return "\n".join(step[3] for step in steps)


def snapshot_refused(catalog: Catalog) -> SqlError:
    return SqlError(
        3952,
        f"Snapshot isolation transaction failed accessing database '{catalog.name}' because snapshot isolation is not "
        "allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
    )


def start(session: Session, link: Link, catalog: Catalog, *, ready: Compiled) -> sqlite3.Cursor:
    """Bind and execute."""
    needs = ready.needs
    link.know_collations(needs.collations)
    link.know_functions(needs.functions)
    for key in needs.views:
        _fill_view(session, link, catalog, key=key)
    values = {f"b{i}": session.variables[b][1] if isinstance(b, str) else b(session)
              for i, b in enumerate(needs.bindings)}  # fmt: skip
    session.active, link.reads, link.error = link, {}, None
    cursor = link.connection.cursor()
    try:
        for check, sql in needs.checks:
            check(session, *link.connection.execute(sql, values).fetchone())
        return cursor.execute(ready.sql, values)
    except sqlite3.Error as exc:
        session.active = None
        raise errors.translated(link, exc, catalog) from exc
    except BaseException:
        session.active = None
        raise


def _fill_view(session: Session, link: Link, catalog: Catalog, *, key: tuple[str, str]) -> None:
    """Put the rows of a catalog view into a temporary table of the connection."""
    view = session.engine.registry.views[key]
    stamp = (catalog.version, session.login_name)
    name = ".".join(key)
    if view.cached and link.views.get(name) == stamp:
        return
    rows = list(view.rows(session))
    table = f"temp.{quote(name)}"
    if name not in link.views:
        columns = ", ".join(
            quote(c) + (f" COLLATE {quote(_collation(catalog))}" if types.is_text(t) else "")
            for c, t in view.columns
        )
        link.connection.execute(f"CREATE TEMP TABLE {quote(name)} ({columns})")
    else:
        link.connection.execute(f"DELETE FROM {table}")
    link.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(view.columns))})", rows)
    link.views[name] = stamp


def _collation(catalog: Catalog) -> str:
    from airflow_provider_mssql_cdc.embedded.engine.collations import sqlite_name

    return sqlite_name(catalog.collation)


def _batches(session: Session, link: Link, cursor: sqlite3.Cursor, *, text: str) -> Iterator[list[Row]]:
    """Rows as SQLite gives them, the first batch small so that the client sees it soon."""
    count, size = 0, _FIRST_ROWS
    try:
        while True:
            session.check_cancelled()
            rows = cursor.fetchmany(size)
            if not rows:
                break
            count += len(rows)
            yield rows
            size = _BATCH_ROWS
    except sqlite3.Error as exc:
        raise errors.translated(link, exc) from exc
    finally:
        cursor.close()
    session.row_count = count


def _record(session: Session, link: Link, text: str) -> None:
    for counter in session.engine.counters:
        counter.record(text, link.reads)


def _assign(session: Session, ready: Compiled, cursor: sqlite3.Cursor) -> None:
    """``SELECT @x = …``: the last row's values."""
    last = None
    for last in cursor:
        pass
    session.row_count = 0 if last is None else 1
    if last is None:
        return
    for name, column, value in zip(ready.variables, ready.columns, last, strict=True):
        control.set_variable(session, name, column.type, value)


def condition(session: Session, node: tree.Expression) -> bool:
    """IF and WHILE."""
    one = tree.Literal("integer", "1")
    chosen = tree.Case(None, ((node, one),), tree.Literal("integer", "0"))
    return bool(scalar(session, chosen)[1])


def scalar(session: Session, node: tree.Expression) -> tuple[SqlType, Any]:
    """The type and stored value of an expression."""
    query = tree.Query(tree.Select((tree.SelectItem(node),)))
    ready, link, cursor = open_query(session, query, node)
    try:
        row = cursor.fetchone()
    except sqlite3.Error as exc:
        raise errors.translated(link, exc) from exc
    finally:
        cursor.close()
        session.active = None
    return ready.columns[0].type, row[0]


def change(session: Session, statement: tree.Insert | tree.Update | tree.Delete) -> int:
    """INSERT, UPDATE, DELETE; the number of rows."""
    if isinstance(statement, tree.Insert) and isinstance(statement.source, tree.Execute):
        return control.insert_execute(session, statement)
    with session.write() as write:
        catalog = write.catalog()
        if session.isolation == "SNAPSHOT" and not catalog.snapshot_isolation:
            raise snapshot_refused(catalog)
        ready = compiled(
            session, catalog, (statement.text, "change"), lambda c: _compile_change(c, session, statement)
        )
        table = dml_table(catalog, statement, ready)
        permissions.require(session, catalog, type(statement).__name__.upper(), table=table)
        reads = {i: c for i, c in ready.needs.columns.items() if i != table.object_id}
        permissions.check_columns(session, catalog, reads)
        session.transactions.statement += 1
        try:
            cursor = start(session, write.link, catalog, ready=ready)
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


def _compile_change(
    compiler: Compiler, session: Session, statement: tree.Insert | tree.Update | tree.Delete
) -> Compiled:
    if isinstance(statement, tree.Insert):
        named = compiler.catalog.resolve(statement.table)
        allowed = named is not None and named.object_id == session.identity_insert
        ready, table = dml.insert(compiler, statement, identity_insert=allowed)
    elif isinstance(statement, tree.Update):
        ready, table = dml.update(compiler, statement)
    else:
        ready, table = dml.delete(compiler, statement)
    return Compiled(ready.sql, ready.needs, (), (str(table.object_id),))


def _execute(session: Session, statement: tree.Execute) -> Iterator[Outcome]:
    """EXEC of a procedure, or of a string."""
    if statement.sql is not None:
        _, text = scalar(session, statement.sql)
        kept, session.variables = session.variables, {}
        yield from batch(session, parse(text or ""))
        session.variables = kept
        return
    parameters = []
    for name, node, output in statement.arguments:
        if isinstance(node, tree.Call) and node.name == ("default",):
            continue
        type_, value = scalar(session, node)
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
    if name[-1].lower() == "sp_executesql":
        yield from control.execute_sql(session, parameters)
        return
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
