"""Faults between a client and a SQL Server, on request, and the wrapper that brings them about."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

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

Action = Literal["drop", "fail", "stall", "run", "truncate"]

LOG_LENGTH = 100_000
"""How many statements the log holds; older ones are forgotten."""

_CONTROL = re.compile(r"\s*(exec(ute)?\s+)?\[?embedded\]?\s*\.", re.IGNORECASE)


@dataclass(slots=True)
class Statement:
    """One batch that a session sent: what it was and what became of it."""

    session_id: int
    login: str
    database: str
    sql: str
    parameters: tuple[Any, ...]
    started: datetime
    rows: int = 0
    error: str | None = None


class When(TypedDict, total=False):
    """Which statement that matches, how often (None: always), and after how many of its rows."""

    occurrence: int
    times: int | None
    after_rows: int | None


@dataclass(slots=True, eq=False)
class Fault:
    """One thing that goes wrong; ``reached`` is set when it acts, ``release()`` ends a stall.

    ``after_rows`` None acts before the statement runs, n when n of its rows have been sent; ``at_end``
    acts after its last row (or after a statement without rows).
    """

    action: Action
    pattern: re.Pattern[str]
    occurrence: int = 1
    times: int | None = 1
    after_rows: int | None = None
    at_end: bool = False
    error: SqlError | None = None
    seconds: float | None = None
    call: Callable[[], object] | None = None
    seen: int = 0
    acted: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let the stalled statement (and those that would stall later) go on."""
        self.released.set()


class Faults:
    """The faults of one server, and the log of what its sessions sent.

    Every method that sets one returns it, so that a test can wait for ``fault.reached``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._log: deque[Statement] = deque(maxlen=LOG_LENGTH)
        self._login_errors: list[SqlError] = []

    def drop(self, pattern: str, **when: Unpack[When]) -> Fault:
        """Close the connection without an answer, before the statement or after n of its rows."""
        return self._add(Fault("drop", _compile(pattern), **when))

    def fail(
        self,
        pattern: str,
        number: int,
        *,
        text: str = "The embedded server was told to fail here.",
        severity: int = 16,
        **when: Unpack[When],
    ) -> Fault:
        """Raise an error number (1205, 1222, 3960 ...) instead of running, or after n rows."""
        return self._add(Fault("fail", _compile(pattern), error=SqlError(number, text, severity), **when))

    def stall(self, pattern: str, *, seconds: float | None = None, **when: Unpack[When]) -> Fault:
        """Say nothing for some seconds, or until ``release()``; a client's cancel ends it too."""
        return self._add(Fault("stall", _compile(pattern), seconds=seconds, **when))

    def run(
        self, pattern: str, call: Callable[[], object], *, at_end: bool = False, **when: Unpack[When]
    ) -> Fault:
        """Call something (commit a change ...) before the statement, after n rows, or at its end."""
        return self._add(Fault("run", _compile(pattern), at_end=at_end, call=call, **when))

    def truncate(self, pattern: str, **when: Unpack[When]) -> Fault:
        """End the rows after n, as if there were no more: no error; the server counts all of them as sent."""
        return self._add(Fault("truncate", _compile(pattern), **when))

    def fail_login(self, number: int, *, text: str = "Login failed.", times: int = 1) -> None:
        """Refuse the next logins with an error number (4060 while a failover goes on, 18456 ...)."""
        with self._lock:
            self._login_errors += [SqlError(number, text, 14)] * times

    def clear(self) -> None:
        """Forget all faults and let go of what is stalled; the log stays."""
        with self._lock:
            faults, self._faults, self._login_errors = self._faults, [], []
        for fault in faults:
            fault.release()

    def release(self) -> None:
        """Let go of what is stalled, now and later."""
        for fault in self.set_now():
            fault.release()

    def set_now(self) -> list[Fault]:
        """The faults that are set, oldest first."""
        with self._lock:
            return list(self._faults)

    def log(self, session_id: int | None = None) -> list[Statement]:
        """The statements so far, of one session or of all, oldest first."""
        with self._lock:
            return [s for s in self._log if session_id is None or s.session_id == session_id]

    def clear_log(self) -> None:
        """Forget the statements so far."""
        with self._lock:
            self._log.clear()

    def login_error(self) -> SqlError | None:
        """The error that the next login gets, taken off the list."""
        with self._lock:
            return self._login_errors.pop(0) if self._login_errors else None

    def matching(self, statement: Statement) -> list[Fault]:
        """Log a statement and return the faults that act on it now."""
        with self._lock:
            self._log.append(statement)
            if _CONTROL.match(statement.sql):
                return []
            return [fault for fault in self._faults if _due(fault, statement.sql)]

    def _add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _due(fault: Fault, sql: str) -> bool:
    if not fault.pattern.search(sql):
        return False
    fault.seen += 1
    if fault.seen < fault.occurrence or (fault.times is not None and fault.acted >= fault.times):
        return False
    fault.acted += 1
    return True


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
