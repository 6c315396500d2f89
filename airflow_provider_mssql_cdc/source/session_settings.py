"""States what a session's reads rest on, after the user's own settings, and asks what came of it."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from airflow_provider_mssql_cdc.errors import ConfigurationError, PermanentError
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql import session as statements
from airflow_provider_mssql_cdc.tsql.session import SessionState
from airflow_provider_mssql_cdc.tsql.statement import Statement

log = logging.getLogger(__name__)

_SETTING = "setting the session up"


class Session(Protocol):
    """The part of :class:`~.session.SourceSession` that is needed here."""

    @property
    def settings(self) -> ConnectionSettings: ...

    def rows(self, statement: Statement, *, doing: str = ...) -> list[dict[str, Any]]: ...

    def execute(self, statement: Statement, *, doing: str = ...) -> None: ...


def state_session(session: Session) -> SessionState:
    """One round trip on SQL Server; setting by setting on an engine that does not know all of them.

    What the server said of its session, after it was judged.

    :raises ConfigurationError: a setting that rows depend on is not in effect although it was made.
    :raises StatementFailed: the server does not know a setting that rows depend on.
    """
    seconds = session.settings.lock_timeout_seconds
    milliseconds = seconds * 1000 if seconds else -1
    try:
        (row,) = session.rows(statements.set_up(milliseconds), doing=_SETTING)
    except PermanentError as exc:
        row = _one_by_one(session, milliseconds, why=exc)
    state = SessionState.of(row)
    _judge(session, state)
    return state


def _one_by_one(session: Session, lock_timeout_ms: int, *, why: PermanentError) -> dict[str, Any]:
    """What rows depend on has to be taken; of the rest, the log says what is missing.

    Which error an engine gives for what it lacks is its own affair, a cast that it refuses for one.
    """
    missing = [
        text
        for text in (*statements.STATED, statements.set_lock_timeout(lock_timeout_ms).text)
        if not _taken(session, Statement(text))
    ]
    session.execute(statements.needed_settings(), doing=_SETTING)
    row: dict[str, Any] = {}
    for question in (
        statements.globals_in_effect(),
        statements.options_in_effect(),
        statements.levels_in_effect(),
        statements.texts_in_effect(),
    ):
        try:
            row.update(*session.rows(question, doing=_SETTING)[:1])
        except PermanentError:
            missing.append(question.text)
    log.warning(
        "%s: this server does not know all of what a session states (%s). Missing: %s",
        session.settings.label,
        why,
        "; ".join(missing) or "nothing when asked one by one",
    )
    return row


def _taken(session: Session, statement: Statement) -> bool:
    try:
        session.execute(statement, doing=_SETTING)
    except PermanentError:
        return False
    return True


def _judge(session: Session, state: SessionState) -> None:
    if wrong := state.wrong():
        raise ConfigurationError(
            f"{session.settings.label}: the session was set up, and then {'; '.join(wrong)}: take the "
            "opposite out of conn_properties, or ask who limits it on the server (a logon trigger, a proxy)"
        )
    if other := state.other():
        log.warning(
            "%s: the server took these settings and does not show them as made: %s",
            session.settings.label,
            ", ".join(other),
        )
    if state.utf16 != 1:
        log.warning(
            "%s: this server does not cast texts to their UTF-16 units, so they are read as it and the "
            "driver give them: half of a surrogate pair would not be noticed",
            session.settings.label,
        )
