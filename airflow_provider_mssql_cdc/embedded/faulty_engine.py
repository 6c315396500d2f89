"""A wrapper at the seam, between the protocol and the engine: it sees each batch and each row that goes out,
and does what ``Faults`` was told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime

from airflow_provider_mssql_cdc.embedded.faults import Fault, Faults, Statement
from airflow_provider_mssql_cdc.embedded.seam import (
    DropConnection,
    Engine,
    EngineSession,
    Message,
    Parameter,
    ResultSet,
    Row,
    RowCount,
    SqlError,
)

Outcome = ResultSet | RowCount | Message

ABORTING = frozenset({1205, 3960, 3961})
"""Errors with which SQL Server rolls the transaction back."""

_WAIT_STEP_SECONDS = 0.02


class FaultyEngine:
    """An engine whose sessions misbehave as ``faults`` says."""

    def __init__(self, engine: Engine, faults: Faults, now: Callable[[], datetime]) -> None:
        self._engine, self._faults, self._now = engine, faults, now

    def login(self, user: str, password: str, database: str, *, replica: str | None = None) -> EngineSession:
        """Log in to the engine behind, unless a login fault is set."""
        if error := self._faults.login_error():
            raise error
        session = self._engine.login(user, password, database, replica=replica)
        return FaultySession(session, self._faults, login=user, now=self._now)


class FaultySession:
    """A session of the engine behind, with what the faults do to it."""

    def __init__(
        self, session: EngineSession, faults: Faults, *, login: str, now: Callable[[], datetime]
    ) -> None:
        self._session, self._faults, self._login, self._now = session, faults, login, now
        self._cancelled = threading.Event()
        self.session_id = session.session_id

    @property
    def database(self) -> str:
        """The current database."""
        return self._session.database

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> Iterator[Outcome]:
        """Run a batch, with the faults that match its text."""
        return self._run(sql, parameters, lambda: self._session.execute(sql, parameters))

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Outcome]:
        """Call a procedure, with the faults that match its name."""
        return self._run(procedure, parameters, lambda: self._session.call(procedure, parameters))

    def begin(self) -> None:
        """Begin a transaction."""
        self._session.begin()

    def commit(self) -> None:
        """Commit the transaction."""
        self._session.commit()

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._session.rollback()

    def cancel(self) -> None:
        """Stop what runs, a stall too."""
        self._cancelled.set()
        self._session.cancel()

    def reset(self) -> None:
        """Reset the session."""
        self._session.reset()

    def close(self) -> None:
        """Close the session."""
        self._cancelled.set()
        self._session.close()

    def _run(
        self, sql: str, parameters: Sequence[Parameter], start: Callable[[], Iterator[Outcome]]
    ) -> Iterator[Outcome]:
        self._cancelled.clear()
        values = tuple(parameter.value for parameter in parameters)
        statement = Statement(self.session_id, self._login, self.database, sql, values, self._now())
        faults = self._faults.matching(statement)
        try:
            yield from self._outcomes(statement, faults, start)
        except SqlError as exc:
            statement.error = str(exc)
            raise

    def _outcomes(
        self, statement: Statement, faults: list[Fault], start: Callable[[], Iterator[Outcome]]
    ) -> Iterator[Outcome]:
        for fault in faults:
            if fault.after_rows is None and not fault.at_end:
                self._act(fault, statement)
        within = sorted((f for f in faults if f.after_rows is not None), key=lambda f: f.after_rows or 0)
        for outcome in start():
            if isinstance(outcome, ResultSet):
                rows = self._rows(statement, outcome.batches, within)
                outcome = ResultSet(outcome.columns, rows)
            yield outcome
        for fault in faults:
            if fault.at_end:
                self._act(fault, statement)

    def _rows(
        self, statement: Statement, batches: Iterator[list[Row]], faults: list[Fault]
    ) -> Iterator[list[Row]]:
        """The rows, cut where a fault acts; a fault past the last row does not act."""
        sent = 0
        for batch in batches:
            while faults and (faults[0].after_rows or 0) <= sent + len(batch):
                fault = faults.pop(0)
                cut = (fault.after_rows or 0) - sent
                head, batch = batch[:cut], batch[cut:]
                sent += cut
                statement.rows += cut
                if head:
                    yield head
                self._act(fault, statement, batches)
                if fault.action == "truncate":
                    return
            sent += len(batch)
            statement.rows += len(batch)
            if batch:
                yield batch

    def _act(self, fault: Fault, statement: Statement, batches: Iterator[list[Row]] | None = None) -> None:
        """Do what the fault says; ``batches`` are the rows that were being sent."""
        fault.reached.set()
        if fault.action in ("drop", "fail"):
            _close(batches)
        if fault.action == "truncate":
            _drain(batches)
        if fault.action == "drop":
            statement.error = "connection dropped"
            raise DropConnection
        if fault.error is not None:
            statement.error = str(fault.error)
            if fault.error.number in ABORTING:
                self._session.rollback()
            raise fault.error
        if fault.call is not None:
            fault.call()
        if fault.action == "stall":
            self._wait(fault)

    def _wait(self, fault: Fault) -> None:
        until = None if fault.seconds is None else time.monotonic() + fault.seconds
        while not fault.released.wait(_WAIT_STEP_SECONDS):
            if self._cancelled.is_set():
                raise SqlError(3617, "The embedded server's stall was ended by the client.", 11)
            if until is not None and time.monotonic() >= until:
                return


def _drain(batches: Iterator[list[Row]] | None) -> None:
    """The rows get lost on their way: the engine has them sent, and counts them in @@ROWCOUNT."""
    for _ in batches or ():
        pass


def _close(batches: Iterator[list[Row]] | None) -> None:
    """End what the engine is reading."""
    if isinstance(batches, Generator):
        batches.close()
