"""Steering the server from another process: procedures of a separate schema, for sysadmins only.

Any driver's connection as sa can call them; there is no second protocol::

    EXEC embedded.capture_mode 'manual'             -- or 'auto'
    EXEC embedded.capture @commits = 1              -- one row: how many commits were captured
    EXEC embedded.stop_capture / start_capture
    EXEC embedded.idle                              -- one row: the entry's LSN, as text
    EXEC embedded.cleanup @instance = 'dbo_orders', @up_to = '0x...', @keep_seconds = 0
    EXEC embedded.key_updates 'images'              -- or 'pair', 'inserts first'
    EXEC embedded.commands 'statement'              -- or 'row': what __$command_id counts
    EXEC embedded.text_casts 'utf-8'                -- or 'utf-16': what nvarchar gives as varbinary
    EXEC embedded.clock @shift_seconds = 3600, @zone = 'Europe/Berlin'
    EXEC embedded.fault @action = 'drop', @pattern = 'FROM .*orders', @after_rows = 1000
    EXEC embedded.fault @action = 'fail', @pattern = '...', @number = 1205, @occurrence = 3, @times = 1
    EXEC embedded.fault @action = 'stall', @pattern = '...', @seconds = 5        -- or until release
    EXEC embedded.fault @action = 'run', @pattern = '...', @sql = 'DELETE ...', @at_end = 0
    EXEC embedded.fault @action = 'truncate', @pattern = '...', @after_rows = 10
    EXEC embedded.fault @action = 'fail_login', @number = 4060, @times = 2
    EXEC embedded.release                           -- let stalled statements go on
    EXEC embedded.clear_faults
    EXEC embedded.faults                            -- what is set, how often it matched and acted
    EXEC embedded.statements @session_id = 52       -- what sessions sent; all without an argument
    EXEC embedded.replica 'secondary'               -- one row: its port; made when it is new
    EXEC embedded.replica_hold 'secondary'
    EXEC embedded.replica_catch_up 'secondary'
    EXEC embedded.drop_connections                  -- this one, too
    EXEC embedded.restart                           -- drops this connection, too
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.run.results import result_set
from airflow_provider_mssql_cdc.embedded.engine.schema.views import columns
from airflow_provider_mssql_cdc.embedded.seam import Parameter, ResultSet, SqlError

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.listener import Replica
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

Arguments = dict[str, Any]
Answer = list[ResultSet] | None
Control = Callable[["EmbeddedSqlServer", "Session", Arguments], Any]

_ACTIONS = ("drop", "fail", "stall", "run", "truncate", "fail_login")
_DROP_SECONDS = 0.2
_FAULTS = columns(
    "action:text pattern:text occurrence:int times:int after_rows:int seen:int acted:int reached:bit"
)
_STATEMENTS = columns("session_id:int login:text database_name:text sql:text rows:bigint error:text")


def register_control(server: EmbeddedSqlServer) -> None:
    """Let sysadmins of the server's engine call them."""
    for name, (parameters, function) in _PROCEDURES.items():
        server.engine.register_procedure(
            f"embedded.{name}", _guarded(server, function), parameters=parameters.split()
        )


def _guarded(
    server: EmbeddedSqlServer, function: Control
) -> Callable[[Session, dict[str, Parameter]], Answer]:
    def call(session: Session, arguments: dict[str, Parameter]) -> Answer:
        if not session.is_sysadmin:
            raise SqlError(229, "The EXECUTE permission was denied: schema 'embedded' is for sysadmins.", 14)
        given = {name: p.value for name, p in arguments.items() if p.value is not None}
        try:
            answer: Answer = function(server, session, given)
        except (KeyError, ValueError, TypeError) as exc:
            raise SqlError(50000, f"embedded: {type(exc).__name__}: {exc}") from exc
        return answer

    return call


def _one(column: str, value: Any) -> Answer:
    return [result_set(columns(column), [(value,)])]


def _setting(attribute: str, parameter: str) -> Control:
    return lambda server, _, given: setattr(server, attribute, given[parameter])


def _cleanup(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    keep = timedelta(seconds=given["keep_seconds"]) if "keep_seconds" in given else None
    low = server.cleanup(
        given.get("instance"), up_to=given.get("up_to"), keep=keep, database=session.database
    )
    return _one("low_lsn:text", low)


def _clock(server: EmbeddedSqlServer, _: Session, given: Arguments) -> Answer:
    if "zone" in given:
        server.time_zone = given["zone"]
    if "set" in given:
        server.clock.set(datetime.fromisoformat(given["set"]))
    server.clock.shift(timedelta(seconds=given.get("shift_seconds", 0)))
    return _one("utc:text", server.clock.utc().isoformat())


def _fault(server: EmbeddedSqlServer, session: Session, given: Arguments) -> None:
    action = given.pop("action", None)
    if action not in _ACTIONS:
        raise ValueError(f"@action is one of {', '.join(_ACTIONS)}")
    if "at_end" in given:
        given["at_end"] = bool(given["at_end"])
    if given.get("times") == 0:
        given["times"] = None
    if action == "run":
        sql, database = given.pop("sql"), session.database
        given["call"] = lambda: server.execute(sql, database=database)
    getattr(server.faults, action)(**given)


def _faults(server: EmbeddedSqlServer, _: Session, given: Arguments) -> Answer:
    names = ("occurrence", "times", "after_rows", "seen", "acted")
    rows = [
        (f.action, f.pattern.pattern, *(getattr(f, name) for name in names), int(f.reached.is_set()))
        for f in server.faults.set_now()
    ]
    return [result_set(_FAULTS, rows)]


def _statements(server: EmbeddedSqlServer, _: Session, given: Arguments) -> Answer:
    log = server.faults.log(given.get("session_id"))
    return [
        result_set(_STATEMENTS, [(s.session_id, s.login, s.database, s.sql, s.rows, s.error) for s in log])
    ]


def _replica(server: EmbeddedSqlServer, given: Arguments) -> Replica:
    return server.replica(given.get("name", "secondary"))


def _later(call: Callable[[], object]) -> None:
    """From a separate thread, after the answer: the caller's connection is among those that end."""
    timer = threading.Timer(_DROP_SECONDS, call)
    timer.daemon = True
    timer.start()


_PROCEDURES: dict[str, tuple[str, Control]] = {
    "capture": (
        "commits",
        lambda server, session, given: _one(
            "commits:int", server.capture(commits=given.get("commits"), database=session.database)
        ),
    ),
    "capture_mode": ("mode", _setting("capture_mode", "mode")),
    "key_updates": ("form", _setting("key_updates", "form")),
    "commands": ("per", _setting("commands", "per")),
    "text_casts": ("units", _setting("text_casts", "units")),
    "stop_capture": ("", lambda server, _, given: server.stop_capture()),
    "start_capture": ("", lambda server, _, given: server.start_capture()),
    "idle": ("", lambda server, session, _: _one("lsn:text", server.idle(database=session.database))),
    "cleanup": ("instance up_to keep_seconds", _cleanup),
    "clock": ("shift_seconds set zone", _clock),
    "fault": ("action pattern", _fault),
    "release": ("", lambda server, _, given: server.faults.release()),
    "clear_faults": ("", lambda server, _, given: server.faults.clear()),
    "faults": ("", _faults),
    "statements": ("session_id", _statements),
    "replica": ("name", lambda server, _, given: _one("port:int", _replica(server, given).port)),
    "replica_hold": ("name", lambda server, _, given: _replica(server, given).hold()),
    "replica_catch_up": ("name", lambda server, _, given: _replica(server, given).catch_up()),
    "drop_connections": ("", lambda server, _, given: _later(server.drop_connections)),
    "restart": ("", lambda server, _, given: _later(server.restart)),
}
