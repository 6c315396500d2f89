"""A session: settings, batches, transactions, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_mssql_cdc.embedded.engine.parser import tokens
from airflow_provider_mssql_cdc.embedded.engine.parser.ddl import parse
from airflow_provider_mssql_cdc.embedded.engine.run import execution, runner, transactions
from airflow_provider_mssql_cdc.embedded.engine.run.results import encoder, guessed_type, python_rows
from airflow_provider_mssql_cdc.embedded.engine.run.transactions import Transactions, WriteTransaction
from airflow_provider_mssql_cdc.embedded.seam import (
    Message,
    Parameter,
    ResultSet,
    Row,
    RowCount,
    SqlError,
    SqlType,
)

if TYPE_CHECKING:
    import sqlite3

    from airflow_provider_mssql_cdc.embedded.engine.run.engine import Engine
    from airflow_provider_mssql_cdc.embedded.engine.run.storage import Database, Link
    from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Table


Outcome = ResultSet | RowCount | Message
DEFAULT_OPTIONS = frozenset(
    "ANSI_WARNINGS ANSI_PADDING ANSI_NULLS ARITHABORT QUOTED_IDENTIFIER ANSI_NULL_DFLT_ON "
    "CONCAT_NULL_YIELDS_NULL".split()
)


class Session:
    """One logged-in session. Used by one thread at a time; ``cancel`` may come from another."""

    def __init__(
        self,
        engine: Engine,
        session_id: int,
        login_name: str,
        *,
        replica: str | None = None,
        internal: bool = False,
    ) -> None:
        self.engine: Engine = engine
        self.session_id: int = session_id
        self.login_name: str = login_name
        self.replica, self.internal = replica, internal
        self.is_sysadmin = login_name.casefold() == "sa"
        self.transactions: Transactions = Transactions(self)
        self.variables: dict[str, tuple[SqlType, Any]] = {}
        self.active: Link | None = None
        self.cursor: sqlite3.Cursor | None = None
        self.row_count: int = 0
        self._cancelled = threading.Event()
        self._clock = 0
        self._database: Database | None = None
        self._database_name = ""
        self._default_options()

    def _default_options(self) -> None:
        self.isolation = "READ COMMITTED"
        self.lock_timeout_ms: int = -1
        self.text_size: int = 2147483647
        self.row_limit: int = 0
        self.options: set[str] = set(DEFAULT_OPTIONS)
        self.language: str = "us_english"
        self.date_format: str = "mdy"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, exc: object, trace: object) -> None:
        self.close()

    # what the protocol calls

    @property
    def database(self) -> str:
        return self._database_name

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> Iterator[Outcome]:
        """Run a batch. Errors: SqlError by SQL Server's numbers, DropConnection."""
        self._cancelled.clear()
        self.close_cursor()
        self.variables = {p.name.lower(): (p.type, p.value) for p in parameters}
        return runner.batch(self, parse(sql), text=sql)

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Outcome]:
        """Run a stored procedure. Error 2812."""
        self._cancelled.clear()
        self.close_cursor()
        return runner.procedure(self, tokens.split(procedure), parameters, text=procedure)

    def begin(self) -> None:
        self.transactions.begin()

    def commit(self) -> None:
        if self.transactions.count:
            self.transactions.commit()

    def rollback(self) -> None:
        self.transactions.abandon()

    def cancel(self) -> None:
        self._cancelled.set()
        active = self.active
        if active is not None:
            active.connection.interrupt()

    def reset(self) -> None:
        self.close_cursor()
        self.transactions.abandon()
        self._default_options()
        self.variables = {}

    def close(self) -> None:
        self.cancel()
        self.close_cursor()
        self.transactions.close()
        if self in self.engine.sessions:
            self.engine.sessions.remove(self)

    # what Python code calls

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a batch; the rows of its last result as Python values. ``values`` are @p1, @p2 …"""
        found: list[Row] = []
        for outcome in self.execute(sql, self.parameters(values)):
            if isinstance(outcome, ResultSet):
                found = python_rows(outcome)
        return found

    def run(self, sql: str, *values: Any) -> int:
        """Run a batch; the sum of the rows touched."""
        total = 0
        for outcome in self.execute(sql, self.parameters(values)):
            if isinstance(outcome, ResultSet):
                for _ in outcome.batches:
                    pass
            elif isinstance(outcome, RowCount):
                total += outcome.rows or 0
        return total

    def plan(self, sql: str, *values: Any) -> str:
        """How SQLite would run a query (EXPLAIN QUERY PLAN), one line per step."""
        self.variables = {p.name: (p.type, p.value) for p in self.parameters(values)}
        return execution.plan(self, sql)

    @staticmethod
    def parameters(values: Iterable[Any]) -> list[Parameter]:
        """Python values as parameters @p1, @p2 … (and ?1, ?2 …), typed as a driver would."""
        made = []
        for number, value in enumerate(values, 1):
            type_ = guessed_type(value)
            stored = None if value is None else encoder(type_)(value)
            made += [Parameter(f"@p{number}", type_, stored), Parameter(f"?{number}", type_, stored)]
        return made

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Run a statement for each row of Python values (``?``, ``%s`` or ``@p1`` …) in one transaction."""
        return execution.executemany(self, sql, rows)

    # what the engine's parts call

    @property
    def database_file(self) -> Database:
        assert self._database is not None
        return self._database

    @property
    def count_rows(self) -> bool:
        return "NOCOUNT" not in self.options

    def enter(self, database: Database) -> None:
        self._database = database
        self._database_name = self.engine.catalog_of(database).name

    def use(self, name: str) -> None:
        """Errors 911, 916."""
        database = self.engine.find_database(name, self.replica)
        if database is None:
            raise SqlError(
                911, f"Database '{name}' does not exist. Make sure that the name is entered correctly."
            )
        if not self.engine.may_enter(self, database):
            raise SqlError(
                916,
                f'The server principal "{self.login_name}" is not able to access '
                f'the database "{name}" '
                "under the current security context.",
                14,
            )
        self.enter(database)

    def forget(self, database: Database) -> None:
        """A database goes away: give its connections back."""
        self.transactions.close()
        if self._database is database:
            self._database = None

    def catalog(self) -> Catalog:
        """The catalog that a statement of this session sees now; shared, not to be changed."""
        return self.database_file.catalog(self.transactions.reader(self.database_file))

    def write(self, database: Database | None = None) -> AbstractContextManager[WriteTransaction]:
        """The open write transaction, or one that commits when the context ends. Errors 1222, 3906, 3960."""
        return self.transactions.write(database or self.database_file)

    def read_connection(self) -> sqlite3.Connection:
        """Where a SELECT of this session would read now."""
        link = self.transactions.reader(self.database_file)
        self.database_file.catalog(link)
        return link.connection

    @property
    def active_connection(self) -> sqlite3.Connection:
        """The connection of the statement that is running, with its snapshot."""
        return self.read_connection() if self.active is None else self.active.connection

    @property
    def transaction_number(self) -> int:
        return self.transactions.number

    @property
    def statement_number(self) -> int:
        return self.transactions.statement

    def statement_clock(self) -> int:
        """The moment at which the statement began, UTC, units of 100 ns."""
        return self._clock

    def close_cursor(self) -> None:
        """End a result that was not read to its end: an open cursor would keep its old view of the rows."""
        cursor, self.cursor, self.active = self.cursor, None, None
        if cursor is not None:
            cursor.close()

    def begin_statement(self) -> None:
        self._clock = self.engine.utc_units()
        self.check_cancelled()

    def check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise transactions.cancelled()

    def needs_functions(self, functions: set[str]) -> None:
        self.transactions.reader(self.database_file).know_functions(functions)

    def changed(self, write: WriteTransaction, kind: str, table: Table, text: str) -> None:
        """Tell the DDL hooks."""
        for hook in self.engine.hooks.ddl:
            hook(self, write, kind, table, text)
