"""Compiling (or finding compiled), binding, starting and streaming one query or change, or many rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.engine.compile import dml, select
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiled, Compiler
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run import transactions
from airflow_provider_mssql_cdc.embedded.engine.run.results import encode_rows, encoder
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation, sqlite_name
from airflow_provider_mssql_cdc.embedded.seam import MAX, ResultColumn, Row, SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.run.storage import Link
    from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog


LONGEST_TEXT = 2147483647
_FIRST_ROWS, _BATCH_ROWS = 1_000, 10_000
_LOBS = frozenset({"text", "ntext", "image", "xml"})


def compiled(session: Session, catalog: Catalog, key: Any, build: Callable[[Compiler], Compiled]) -> Compiled:
    """A compiled statement, from the cache if the same was compiled against this catalog before."""
    counting = bool(session.engine.counters)
    variables = {name: type_ for name, (type_, _) in session.variables.items()}
    full = (key, catalog.version, tuple(variables.items()), counting)
    found = session.engine.cache.get(full)
    if found is None:
        compiler = Compiler(session.engine.registry, catalog, variables, session=session, counting=counting)
        found = build(compiler)
        session.engine.cache[full] = found
    assert isinstance(found, Compiled)
    return found


def build_query(query: tree.Query) -> Callable[[Compiler], Compiled]:
    def build(compiler: Compiler) -> Compiled:
        inner = select.query(compiler, query)
        return Compiled(inner.sql, compiler.needs, inner.columns)

    return build


def open_query(session: Session, query: tree.Query, key: Any) -> tuple[Compiled, Link, sqlite3.Cursor]:
    """Compile and start a query on the connection that the transaction asks for. Error 3952."""
    database = session.database_file
    link = session.transactions.reader(database)
    catalog = database.catalog(link)
    ready = compiled(session, catalog, key, build_query(query))
    if ready.needs.reads_data:
        if session.isolation == "SNAPSHOT" and ready.needs.columns and not catalog.snapshot_isolation:
            raise snapshot_refused(catalog)
        link, pinned = session.transactions.pin(database)
        if pinned:
            catalog = database.catalog(link)
            ready = compiled(session, catalog, key, build_query(query))
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
        f"Snapshot isolation transaction failed accessing database '{catalog.name}' because "
        "snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
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
        return cursor.execute(ready.sql, values)
    except sqlite3.Error as exc:
        session.active = None
        raise transactions.translated(link, exc, catalog) from exc
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
            quote(c) + (f" COLLATE {quote(sqlite_name(catalog.collation))}" if types.is_text(t) else "")
            for c, t in view.columns
        )
        link.connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {quote(name)} ({columns})")
    link.connection.execute(f"DELETE FROM {table}")
    link.connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(view.columns))})", rows)
    link.views[name] = stamp


def batches(session: Session, link: Link, cursor: sqlite3.Cursor) -> Iterator[list[Row]]:
    """Rows as SQLite gives them, the first batch small so that the client sees it soon."""
    count, size = 0, _FIRST_ROWS
    try:
        while True:
            session.check_cancelled()
            rows = cursor.fetchmany(size)
            if session.row_limit:  # SET ROWCOUNT
                rows = rows[: session.row_limit - count]
            if not rows:
                break
            count += len(rows)
            yield rows
            size = _BATCH_ROWS
    except sqlite3.Error as exc:
        raise transactions.translated(link, exc) from exc
    finally:
        cursor.close()
    session.row_count = count


def cut_texts(
    batches: Iterator[list[Row]], columns: tuple[ResultColumn, ...], size: int
) -> Iterator[list[Row]]:
    """Values of (max) and text types cut at TEXTSIZE bytes, without an error, as the server does."""
    places = [i for i, c in enumerate(columns) if c.type.length == MAX or c.type.name in _LOBS]
    if not places:
        yield from batches
        return
    for batch in batches:
        rows = [list(row) for row in batch]
        for row in rows:
            for i in places:
                row[i] = _cut(row[i], columns[i].type, size)
        yield [tuple(row) for row in rows]


def _cut(value: Any, type_: SqlType, size: int) -> Any:
    if not isinstance(value, str):
        return None if value is None else value[:size]
    if type_.name in types.NATIONAL:
        return halves.cut(value, 0, size // 2)
    codec = collation(type_.collation or DEFAULT).codec
    return value.encode(codec, "replace")[:size].decode(codec, "ignore")


def record(session: Session, link: Link, text: str) -> None:
    for counter in session.engine.counters:
        counter.record(text, link.reads)


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
        raise transactions.translated(link, exc) from exc
    finally:
        cursor.close()
        session.active = None
    return ready.columns[0].type, row[0]


_MARKER = re.compile(r"(\[(?:[^\]]|\]\])*\]|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|%s|@[pP]\d+")
"""A marker, or (group 1) a quoted name or text, which holds none."""


def executemany(session: Session, sql: str, rows: Iterable[Sequence[Any]]) -> int:
    """``INSERT INTO t (…) VALUES (?, ?)`` goes straight to SQLite; anything else runs row by row."""
    sql = _MARKER.sub(lambda match: match[0] if match[1] else "?", sql)
    (statement,) = parse(sql)
    if isinstance(statement, tree.Insert) and _plain(statement):
        return _insert(session, statement, rows)
    with session.write():
        return sum(session.run(sql, *row) for row in rows)


def _plain(statement: tree.Insert) -> bool:
    source = statement.source
    if (
        not isinstance(source, tree.Query)
        or not isinstance(source.body, tree.Values)
        or len(source.body.rows) != 1
    ):
        return False
    return all(isinstance(v, tree.Variable) and v.name.startswith("?") for v in source.body.rows[0])


def _insert(session: Session, statement: tree.Insert, rows: Iterable[Sequence[Any]]) -> int:
    with session.write() as write:
        catalog = write.catalog()
        compiler = Compiler(session.engine.registry, catalog, {})
        table = catalog.require(statement.table)
        permissions.require(session, catalog, "INSERT", table=table)
        columns = dml.target_columns(compiler, table, statement.columns)
        more = dml.generated(compiler, table, columns)
        names = ", ".join(quote(c.storage) for c in [*columns, *(c for c, _ in more)])
        marks = ", ".join(["?"] * len(columns) + [sql for _, sql in more])
        write.link.know_functions(compiler.needs.functions)
        session.transactions.statement += 1
        session.begin_statement()
        session.active = write.link
        try:
            cursor = write.connection.executemany(
                f"INSERT INTO {quote(table.storage)} ({names}) VALUES ({marks})",
                encode_rows([encoder(c.type) for c in columns], rows),
            )
            return max(cursor.rowcount, 0)
        except sqlite3.Error as exc:
            raise transactions.translated(write.link, exc, catalog) from exc
        finally:
            session.active = None
