"""What can go wrong between a client and a SQL Server, on request: faults as values, and their list.

``faulty_engine`` carries them out. A fault matches a batch (or a procedure's name)
by a regular expression, ignoring case; it acts at the ``occurrence``-th match from when it was set, and
again at the following matches until it has acted ``times`` times (None: for ever).
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from airflow_provider_mssql_cdc.embedded.seam import SqlError

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

    def drop(
        self, pattern: str, *, after_rows: int | None = None, occurrence: int = 1, times: int | None = 1
    ) -> Fault:
        """Close the connection without an answer, before the statement or after n of its rows."""
        return self._add(Fault("drop", _compile(pattern), occurrence, times, after_rows))

    def fail(
        self,
        pattern: str,
        number: int,
        *,
        text: str = "The embedded server was told to fail here.",
        severity: int = 16,
        after_rows: int | None = None,
        occurrence: int = 1,
        times: int | None = 1,
    ) -> Fault:
        """Raise an error number (1205, 1222, 3960 ...) instead of running, or after n rows."""
        error = SqlError(number, text, severity)
        return self._add(Fault("fail", _compile(pattern), occurrence, times, after_rows, error=error))

    def stall(
        self,
        pattern: str,
        *,
        seconds: float | None = None,
        after_rows: int | None = None,
        occurrence: int = 1,
        times: int | None = 1,
    ) -> Fault:
        """Say nothing for some seconds, or until ``release()``; a client's cancel ends it too."""
        return self._add(Fault("stall", _compile(pattern), occurrence, times, after_rows, seconds=seconds))

    def run(
        self,
        pattern: str,
        call: Callable[[], object],
        *,
        after_rows: int | None = None,
        at_end: bool = False,
        occurrence: int = 1,
        times: int | None = 1,
    ) -> Fault:
        """Call something (commit a change ...) before the statement, after n rows, or at its end."""
        return self._add(Fault("run", _compile(pattern), occurrence, times, after_rows, at_end, call=call))

    def truncate(self, pattern: str, *, after_rows: int, occurrence: int = 1, times: int | None = 1) -> Fault:
        """End the rows early, as if there were no more: no error; the server counts all of them as sent."""
        return self._add(Fault("truncate", _compile(pattern), occurrence, times, after_rows))

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
