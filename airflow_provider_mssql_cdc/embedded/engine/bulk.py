"""One statement for many rows of Python values."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine import dml, errors, permissions, tree
from airflow_provider_mssql_cdc.embedded.engine.compiler import Compiler
from airflow_provider_mssql_cdc.embedded.engine.names import quote
from airflow_provider_mssql_cdc.embedded.engine.parse_ddl import parse
from airflow_provider_mssql_cdc.embedded.engine.results import encode_rows, encoder

_MARKER = re.compile(r"(\[(?:[^\]]|\]\])*\]|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|%s|@[pP]\d+")
"""A marker, or (group 1) a quoted name or text, which holds none."""

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.session import Session


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
        allowed = table.object_id == session.identity_insert
        columns = dml.target_columns(compiler, table, statement.columns, identity_insert=allowed)
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
            raise errors.translated(write.link, exc, catalog) from exc
        finally:
            session.active = None
