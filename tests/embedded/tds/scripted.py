"""A scripted engine: the smallest thing that implements the seam, so that the protocol is tested alone.

What a statement answers is a function from its parameters to items, looked up by the statement's text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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

Items = Iterator[ResultSet | RowCount | Message]
Script = Callable[["ScriptedSession", Sequence[Parameter]], Items]


def rows_of(columns: Sequence[tuple[str, SqlType]], *batches: list[Row]) -> ResultSet:
    return ResultSet(tuple(ResultColumn(name, sql_type) for name, sql_type in columns), iter(batches))


class ScriptedSession:
    def __init__(self, engine: ScriptedEngine, database: str, session_id: int) -> None:
        self.engine, self.session_id, self.database = engine, session_id, database
        self.calls: list[tuple[str, list[Parameter]]] = []
        self.cancelled = threading.Event()
        self.closed = False

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> Items:
        self.cancelled.clear()
        self.calls.append((sql, list(parameters)))
        script = self.engine.scripts.get(sql.strip())
        if script is None:
            return iter([RowCount(None)])
        return script(self, parameters)

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Items:
        self.calls.append((procedure, list(parameters)))
        script = self.engine.scripts.get(procedure)
        if script is None:
            raise SqlError(2812, f"Could not find stored procedure '{procedure}'.")
        return script(self, parameters)

    def begin(self) -> None:
        self.calls.append(("<begin>", []))

    def commit(self) -> None:
        self.calls.append(("<commit>", []))

    def rollback(self) -> None:
        self.calls.append(("<rollback>", []))

    def cancel(self) -> None:
        self.cancelled.set()

    def reset(self) -> None:
        self.calls.append(("<reset>", []))

    def close(self) -> None:
        self.closed = True


class ScriptedEngine:
    """Answers statements by their text; anything else is done and gives no rows."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.sessions: list[ScriptedSession] = []

    def login(
        self, user: str, password: str, database: str, *, replica: str | None = None
    ) -> ScriptedSession:
        if (user, password) != ("sa", "Pa:s@/?#%w0rd"):
            raise SqlError(18456, f"Login failed for user '{user}'.", severity=14)
        session = ScriptedSession(self, database or "master", 51 + len(self.sessions))
        self.sessions.append(session)
        return session

    def on(self, sql: str, *items: Any) -> None:
        """Answer ``sql`` with these items; a callable is called for a fresh one."""

        def script(_: ScriptedSession, __: Sequence[Parameter]) -> Items:
            return iter([item() if callable(item) else item for item in items])

        self.scripts[sql] = script

    def select(self, sql: str, columns: Sequence[tuple[str, SqlType]], *batches: list[Row]) -> None:
        self.on(sql, lambda: rows_of(columns, *batches))

    def texts(self) -> list[str]:
        return [sql for session in self.sessions for sql, _ in session.calls]
