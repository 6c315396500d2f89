"""A source table of random columns under a random key, and somebody who changes it at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.tsql.statement import shown
from tests.support.key_values import KEY_VALUES
from tests.support.type_values import TYPE_VALUES

KEYS = (
    *("smallint", "bigint", "decimal(5,2)", "decimal(38,0)", "money", "date", "datetime2(3)", "datetime2(6)"),
    *("varchar(20) COLLATE Latin1_General_CS_AS", "nvarchar(20)", "char(20)", "varbinary(8)"),
    "uniqueidentifier",
)
"""Types of key columns; their values are apart under the column's collation."""

NAMES = ("id", "Order No_", "a.b", "x]y", "{k}", "select", "100%", "Größe", "🌺", "c,d", " e", "OrderId")
KEYS_IN_PLAY = 40


@dataclass
class RandomTable:
    """``dbo.<name>`` on the embedded server; every statement is one that SQL Server allows."""

    server: EmbeddedSqlServer
    name: str
    rng: random.Random
    key: tuple[tuple[str, str], ...] = field(init=False)
    data: list[tuple[str, str]] = field(init=False)
    keys: list[tuple[Any, ...]] = field(init=False)
    gained: int = 0

    def __post_init__(self) -> None:
        names = self.rng.sample(NAMES, len(NAMES))
        self.key = tuple((names.pop(), self.rng.choice(KEYS)) for _ in range(self.rng.choice([1, 1, 2])))
        self.data = [(names.pop(), self._data_type()) for _ in range(self.rng.randrange(1, 5))]
        pools = [self.rng.sample(KEY_VALUES[declared], 20) for _, declared in self.key]
        drawn = [tuple(self.rng.choice(pool) for pool in pools) for _ in range(4 * KEYS_IN_PLAY)]
        self.keys = list(dict.fromkeys(drawn))[:KEYS_IN_PLAY]
        columns = [f"{shown(name)} {declared} NOT NULL" for name, declared in self.key]
        columns += [f"{shown(name)} {declared} NULL" for name, declared in self.data]
        ordered = ", ".join(shown(name) for name, _ in self.key)
        server, table = self.server, self.table
        server.execute(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({ordered}))")

    @property
    def table(self) -> str:
        return f"dbo.{self.name}"

    @property
    def other_than_key(self) -> tuple[str, ...] | None:
        """What ranges can be cut on instead of the key: values that repeat, are NULL, and change."""
        name, declared = self.data[0]
        return (name,) if declared in KEY_VALUES else None

    def _data_type(self) -> str:
        return self.rng.choice(sorted(TYPE_VALUES))

    def _value(self, declared: str) -> Any:
        return self.rng.choice([None, *TYPE_VALUES[declared][0]])

    def _row(self, key: Sequence[Any]) -> tuple[Any, ...]:
        return (*key, *(self._value(declared) for _, declared in self.data))

    def fill(self) -> None:
        """A history that nobody recorded."""
        with self.server.session() as session:
            for key in self.rng.sample(self.keys, self.rng.randrange(len(self.keys))):
                self._insert(session, key)

    def gain_a_column(self) -> None:
        """As ALTER TABLE does it: NULL in the rows that are there; no instance captures it yet."""
        self.gained += 1
        added = (f"gained {self.gained}", self._data_type())
        self.server.execute(f"ALTER TABLE {self.table} ADD {shown(added[0])} {added[1]} NULL")
        self.data.append(added)

    def lose_a_column(self) -> None:
        """One of those that are no key, but for the first: ranges may be cut on it."""
        if len(self.data) > 1:
            name, _ = self.data.pop(self.rng.randrange(1, len(self.data)))
            self.server.execute(f"ALTER TABLE {self.table} DROP COLUMN {shown(name)}")

    # -- changes

    def transaction(self) -> None:
        """One to four statements; one in ten is rolled back."""
        with self.server.session() as session:
            session.run("BEGIN TRANSACTION")
            for _ in range(self.rng.randrange(1, 5)):
                self._statement(session)
            session.run("COMMIT TRANSACTION" if self.rng.random() < 0.9 else "ROLLBACK TRANSACTION")

    def _statement(self, session: Any) -> None:
        key, other = self.rng.sample(self.keys, 2)
        there, other_there = self._has(session, key), self._has(session, other)
        match self.rng.choice(["insert", "insert", "update", "many", "delete", "move", "swap", "reinsert"]):
            case "insert" if not there:
                self._insert(session, key)
            case "update" | "many" as how:
                name, declared = self.rng.choice(self.data)
                where = self._where() if how == "update" else self._where(">=")
                value, keys = self._value(declared), key if how == "update" else key[:1]
                marks, values = _marks([value])
                session.rows(f"UPDATE {self.table} SET {shown(name)} = {marks} WHERE {where}", *values, *keys)
            case "delete" if there:
                self._delete(session, key)
            case "move" if there and not other_there:
                self._move(session, key, other)
            case "swap" if there and other_there:
                self._delete(session, other)
                self._move(session, key, other)
                self._insert(session, key)
            case "reinsert" if there:
                self._delete(session, key)
                self._insert(session, key)

    def _where(self, comparison: str = "=") -> str:
        columns = self.key if comparison == "=" else self.key[:1]
        return " AND ".join(f"{shown(name)} {comparison} ?" for name, _ in columns)

    def _has(self, session: Any, key: Sequence[Any]) -> bool:
        return bool(session.rows(f"SELECT 1 FROM {self.table} WHERE {self._where()}", *key))

    def _insert(self, session: Any, key: Sequence[Any]) -> None:
        columns = ", ".join(shown(name) for name, _ in (*self.key, *self.data))
        marks, values = _marks(self._row(key))
        session.rows(f"INSERT INTO {self.table} ({columns}) VALUES ({marks})", *values)

    def _delete(self, session: Any, key: Sequence[Any]) -> None:
        session.rows(f"DELETE FROM {self.table} WHERE {self._where()}", *key)

    def _move(self, session: Any, key: Sequence[Any], other: Sequence[Any]) -> None:
        columns = ", ".join(f"{shown(name)} = ?" for name, _ in self.key)
        session.rows(f"UPDATE {self.table} SET {columns} WHERE {self._where()}", *other, *key)


def _marks(values: Sequence[Any]) -> tuple[str, list[Any]]:
    """Placeholders and their values; a NULL is written out, since one as text fits no binary column."""
    marks = ", ".join("NULL" if value is None else "?" for value in values)
    return marks, [value for value in values if value is not None]
