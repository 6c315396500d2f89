"""A table that answers this package's statements by other means: SQLite for logic and order, sqlglot for
the dialect, collations written here. Nothing of the package decides an answer.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import sqlglot

from airflow_provider_mssql_cdc.model.source_table import CHAR_TYPES, Column, SourceTable
from airflow_provider_mssql_cdc.tsql.predicates import Predicate
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.support.tables import CASELESS, ORDERS

_MARKER = re.compile(r"%\((\w+)\)s")


def folded(text: str) -> str:
    """Two texts are equal for the server when these are: case and trailing blanks do not count."""
    return text.rstrip(" ").lower()


def _collate(left: str, right: str) -> int:
    a, b = folded(left), folded(right)
    return (a > b) - (a < b)


class SqliteTable:
    """Rows of one table under SQL Server's comparison rules, as far as this model goes.

    :param columns: the key columns, integer or char types; each row has an ``id`` beside them.
    """

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Any]], *, table: SourceTable = ORDERS
    ) -> None:
        self.columns, self.keys_read, self.statements = tuple(columns), 0, 0
        self._database = sqlite3.connect(":memory:")
        # A string cast to bytes shows its UTF-16 units, as SQL Server's does (SQLite: PRAGMA encoding, CAST).
        self._database.execute("PRAGMA encoding = 'UTF-16le'")
        self._database.create_collation(CASELESS, _collate)
        self._database.create_function("__keys_read", 0, self._count)
        self._database.execute("ATTACH ':memory:' AS dbo")
        self.rows = {number: tuple(row) for number, row in enumerate(rows)}
        self._fill(table)

    def _fill(self, table: SourceTable) -> None:
        described = ", ".join(f"{_quoted(column.name)} {_storage(column)}" for column in self.columns)
        name = f"{table.schema}.{_quoted(table.name)}"
        self._database.execute(f"CREATE TABLE {name} (__row INTEGER, {described})")
        marks = ", ".join("?" * (len(self.columns) + 1))
        filled = [(number, *row) for number, row in self.rows.items()]
        self._database.executemany(f"INSERT INTO {name} VALUES ({marks})", filled)
        keys = ", ".join(_quoted(column.name) for column in self.columns)
        self._database.execute(f"CREATE INDEX {table.schema}.key_order ON {_quoted(table.name)} ({keys})")
        self._name = name

    def _count(self) -> int:
        self.keys_read += 1
        return 1

    def answer(self, statement: Statement) -> list[dict[str, Any]]:
        """Run a statement; every row that its innermost scan reads is counted in ``keys_read``."""
        self.statements += 1
        text = _MARKER.sub(r"@\1", statement.text).replace("%%", "%")
        (translated,) = sqlglot.transpile(text, read="tsql", write="sqlite")
        cursor = self._database.execute(self._counting(translated), dict(statement.parameters))
        names = [described[0] for described in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _counting(self, text: str) -> str:
        scan = 'FROM "dbo"."orders"'
        if f"{scan} WHERE" in text:
            return text.replace(f"{scan} WHERE", f"{scan} WHERE __keys_read() = 1 AND")
        return text.replace(scan, f"{scan} WHERE __keys_read() = 1") if "ROW_NUMBER" in text else text

    def matching(self, predicate: Predicate) -> list[int]:
        """Numbers of the rows that fulfil a condition, each as often as it does."""
        where = _MARKER.sub(r":\1", predicate.where).replace("%%", "%")
        return [
            row[0]
            for row in self._database.execute(
                f"SELECT __row FROM {self._name}{where}", dict(predicate.parameters)
            )
        ]

    def order(self) -> list[int]:
        """Row numbers in the order of the key."""
        keys = ", ".join(_quoted(column.name) for column in self.columns)
        return [row[0] for row in self._database.execute(f"SELECT __row FROM {self._name} ORDER BY {keys}")]

    def close(self) -> None:
        self._database.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _storage(column: Column) -> str:
    return f"TEXT COLLATE {CASELESS}" if column.sql_type.name in CHAR_TYPES else "INTEGER"
