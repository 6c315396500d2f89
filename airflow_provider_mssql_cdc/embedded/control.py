"""Steering the server from another process: procedures of a schema of its own, for sysadmins only.

Any driver's connection as sa can call them; there is no second protocol::

    EXEC embedded.capture_mode 'manual'             -- or 'auto'
    EXEC embedded.capture @commits = 1              -- one row: how many commits were captured
    EXEC embedded.stop_capture / start_capture
    EXEC embedded.idle                              -- one row: the entry's LSN, as text
    EXEC embedded.cleanup @instance = 'dbo_orders', @up_to = '0x...', @keep_seconds = 0
    EXEC embedded.key_updates 'images'              -- or 'pair', 'inserts first'
    EXEC embedded.commands 'statement'              -- or 'row': what __$command_id counts
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
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.run.results import result_set
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import MAX, Parameter, ResultSet, SqlError, SqlType

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer

Arguments = dict[str, Any]
Answer = list[ResultSet] | None
Control = Callable[["EmbeddedSqlServer", "Session", Arguments], Answer]

_ACTIONS = ("drop", "fail", "stall", "run", "truncate", "fail_login")
_DROP_SECONDS = 0.2
_TEXT = SqlType("nvarchar", MAX)
_FAULTS = (
    ("action", _TEXT),
    ("pattern", _TEXT),
    ("occurrence", types.INT),
    ("times", types.INT),
    ("after_rows", types.INT),
    ("seen", types.INT),
    ("acted", types.INT),
    ("reached", types.BIT),
)
_STATEMENTS = (
    ("session_id", types.INT),
    ("login", _TEXT),
    ("database_name", _TEXT),
    ("sql", _TEXT),
    ("rows", types.BIGINT),
    ("error", _TEXT),
)


def register_control(server: EmbeddedSqlServer) -> None:
    """Let sysadmins of the server's engine call them."""
    for name, (function, parameters) in _PROCEDURES.items():
        server.engine.register_procedure(
            f"embedded.{name}", _guarded(server, function), parameters=parameters
        )


def _guarded(
    server: EmbeddedSqlServer, function: Control
) -> Callable[[Session, dict[str, Parameter]], Answer]:
    def call(session: Session, arguments: dict[str, Parameter]) -> Answer:
        if not session.is_sysadmin:
            raise SqlError(229, "The EXECUTE permission was denied: schema 'embedded' is for sysadmins.", 14)
        values = {
            name: parameter.value for name, parameter in arguments.items() if parameter.value is not None
        }
        try:
            return function(server, session, values)
        except (KeyError, ValueError, TypeError) as exc:
            raise SqlError(50000, f"embedded: {type(exc).__name__}: {exc}") from exc

    return call


def _one(name: str, type_: SqlType, value: Any) -> Answer:
    return [result_set(((name, type_),), [(value,)])]


def _capture(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    done = server.capture(commits=given.get("commits"), database=session.database)
    return _one("commits", types.INT, done)


def _capture_mode(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.capture_mode = given["mode"]
    return None


def _key_updates(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.key_updates = given["form"]
    return None


def _commands(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.commands = given["per"]
    return None


def _stop_capture(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.stop_capture()
    return None


def _start_capture(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.start_capture()
    return None


def _idle(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    return _one("lsn", _TEXT, server.idle(database=session.database))


def _cleanup(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    keep = given.get("keep_seconds")
    low = server.cleanup(
        given.get("instance"),
        up_to=given.get("up_to"),
        keep=None if keep is None else timedelta(seconds=keep),
        database=session.database,
    )
    return _one("low_lsn", _TEXT, low)


def _clock(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    if "zone" in given:
        server.time_zone = given["zone"]
    if "set" in given:
        server.clock.set(datetime.fromisoformat(given["set"]))
    server.clock.shift(timedelta(seconds=given.get("shift_seconds", 0)))
    return _one("utc", _TEXT, server.clock.utc().isoformat())


def _fault(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    action = given.pop("action", None)
    if action not in _ACTIONS:
        raise ValueError(f"@action is one of {', '.join(_ACTIONS)}")
    if "at_end" in given:
        given["at_end"] = bool(given["at_end"])
    if given.get("times") == 0:
        given["times"] = None
    if action == "fail_login":
        server.faults.fail_login(given.pop("number"), **given)
    elif action == "fail":
        server.faults.fail(given.pop("pattern"), given.pop("number"), **given)
    elif action == "run":
        sql, database = given.pop("sql"), session.database
        server.faults.run(given.pop("pattern"), lambda: server.execute(sql, database=database), **given)
    else:
        getattr(server.faults, action)(given.pop("pattern"), **given)
    return None


def _release(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    for fault in server.faults.set_now():
        fault.release()
    return None


def _clear_faults(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.faults.clear()
    return None


def _faults(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    rows = [
        (
            f.action,
            f.pattern.pattern,
            f.occurrence,
            f.times,
            f.after_rows,
            f.seen,
            f.acted,
            int(f.reached.is_set()),
        )
        for f in server.faults.set_now()
    ]
    return [result_set(_FAULTS, rows)]


def _statements(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    log = server.faults.log(given.get("session_id"))
    return [
        result_set(_STATEMENTS, [(s.session_id, s.login, s.database, s.sql, s.rows, s.error) for s in log])
    ]


def _replica(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    return _one("port", types.INT, server.replica(given.get("name", "secondary")).port)


def _replica_hold(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.replica(given.get("name", "secondary")).hold()
    return None


def _replica_catch_up(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    server.replica(given.get("name", "secondary")).catch_up()
    return None


def _later(call: Callable[[], object]) -> None:
    """From a thread of its own, after the answer: the caller's connection is among those that end."""
    timer = threading.Timer(_DROP_SECONDS, call)
    timer.daemon = True
    timer.start()


def _drop_connections(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    _later(server.drop_connections)
    return None


def _restart(server: EmbeddedSqlServer, session: Session, given: Arguments) -> Answer:
    _later(server.restart)
    return None


_PROCEDURES: dict[str, tuple[Control, Iterable[str]]] = {
    "capture": (_capture, ("commits",)),
    "capture_mode": (_capture_mode, ("mode",)),
    "key_updates": (_key_updates, ("form",)),
    "commands": (_commands, ("per",)),
    "stop_capture": (_stop_capture, ()),
    "start_capture": (_start_capture, ()),
    "idle": (_idle, ()),
    "cleanup": (_cleanup, ("instance", "up_to", "keep_seconds")),
    "clock": (_clock, ("shift_seconds", "set", "zone")),
    "fault": (_fault, ("action", "pattern")),
    "release": (_release, ()),
    "clear_faults": (_clear_faults, ()),
    "faults": (_faults, ()),
    "statements": (_statements, ("session_id",)),
    "replica": (_replica, ("name",)),
    "replica_hold": (_replica_hold, ("name",)),
    "replica_catch_up": (_replica_catch_up, ("name",)),
    "drop_connections": (_drop_connections, ()),
    "restart": (_restart, ()),
}
