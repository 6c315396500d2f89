"""UPDATE of many rows whose unique keys pass through each other (a swap, ``id = id + 1``)."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.compile import dml
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiled, Scope
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import quote
from airflow_provider_mssql_cdc.embedded.engine.run import execution, transactions

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction
    from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table


DUPLICATE_KEY = (2601, 2627)


def compile_rows(compiler: Compiler, node: tree.Update, table: Table) -> Compiled:
    """A query for the rows that an update changes: their old keys, then all columns with the new values."""
    scope = Scope()
    from_sql, tail, key_sql = dml._changed(compiler, node, table, scope)
    new = {}
    for at, (name, expression) in enumerate(node.assignments):
        column = compiler.catalog.require_column(table, name)
        new[column.name] = (at, dml._new_value(compiler, expression, scope, column=column))
    stamp = dml.rowversion(compiler)
    keys = [f"{sql} AS k{i}" for i, sql in enumerate(key_sql)]
    values = [f"{sql} AS v{at}" for at, sql in new.values()]
    shown = [f"source.k{i}" for i in range(len(keys))]
    for column in table.stored_columns:
        changed = (
            f"source.v{new[column.name][0]}" if column.name in new else f"target.{quote(column.storage)}"
        )
        shown.append(stamp if column.type.name == "timestamp" else changed)
    joined = " AND ".join(f"target.{k} = source.k{i}" for i, k in enumerate(dml.keys(table)))
    order = ", ".join(f"target.{k}" for k in dml.keys(table))
    sql = (
        f"SELECT {', '.join(shown)} FROM (SELECT {', '.join(keys + values)}{from_sql}{tail}) AS source "
        f"JOIN {quote(table.storage)} AS target ON {joined} ORDER BY {order}"
    )
    return Compiled(sql, compiler.needs, (), (str(table.object_id),))


def split_update(
    session: Session, write: WriteTransaction, catalog: Catalog, *, node: tree.Update, table: Table
) -> int:
    """Delete the rows, insert them with their new keys; all or nothing. Errors 2601, 2627."""
    ready = execution.compiled(session, catalog, (node.text, "split"), lambda c: compile_rows(c, node, table))
    rows = execution.start(session, write.link, catalog, ready=ready).fetchall()
    keys = dml.keys(table)
    found = " AND ".join(f"{key} = ?" for key in keys)
    columns = ", ".join(quote(column.storage) for column in table.stored_columns)
    marks = ", ".join("?" * len(table.stored_columns))
    connection = write.connection
    connection.execute("SAVEPOINT split_update")
    try:
        connection.executemany(
            f"DELETE FROM {quote(table.storage)} WHERE {found}", [row[: len(keys)] for row in rows]
        )
        connection.executemany(
            f"INSERT INTO {quote(table.storage)} ({columns}) VALUES ({marks})",
            [row[len(keys) :] for row in rows],
        )
    except sqlite3.Error as exc:
        connection.execute("ROLLBACK TO split_update")
        raise transactions.translated(write.link, exc, catalog) from exc
    finally:
        connection.execute("RELEASE split_update")
    return len(rows)
