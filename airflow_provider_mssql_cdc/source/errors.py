"""Translate driver errors by error number, SQLSTATE and message text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    DeadlockVictim,
    IsolationRefused,
    LockTimeout,
    LoginFailed,
    MssqlCdcError,
    PermissionDenied,
    RetentionGap,
    ServerBusy,
    SourceObjectMissing,
    StatementFailed,
    ValueDoesNotFit,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A group of driver errors with one meaning for the user, and the remedy.

    :param names_only: the server's message quotes object names, never values.
    :param not_connected: remedy for errors before the login, if it differs.
    """

    error: type[MssqlCdcError]
    remedy: str
    numbers: frozenset[int] = frozenset()
    sqlstates: tuple[str, ...] = ()
    pattern: str | None = None
    names_only: bool = True
    not_connected: str | None = None

    def matches_text(self, text: str) -> bool:
        return self.pattern is not None and re.search(self.pattern, text, re.IGNORECASE) is not None


def _numbers(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


BROKEN = Rule(
    ConnectionBroken,
    "The connection is gone; what was being read starts again at the next attempt. If it keeps happening, "
    "look at the network, at the server's log and at the timeouts of the connection",
    # db-lib's own numbers, Winsock's, and "transport-level error"
    _numbers(20003, 20004, 20006, 20009, 20017, 20019, 20020, 20047, 64, 121, 233, 258, 10053, 10054, 10060),
    ("08", "HYT"),
    # "Unknown DDBC error": a fetch of a large value that mssql-python's query timeout ended
    r"communication link failure|timeout expired|unable to connect|DBPROCESS is dead|unknown DDBC error"
    r"|could not set connection properties",  # pymssql, when the connection ends right after the login
    not_connected="The server takes TCP connections, and the login was not finished: it may be starting, "
    "failing over or out of connections, or what listens there is not a SQL Server. The task tries again, "
    "as its retries say; if it keeps happening, look at the server's log and at login_timeout_seconds of "
    "the connection",
)

# The first rule that matches is taken: numbers of all rules first, then texts, then SQLSTATEs.
RULES = (
    Rule(
        DeadlockVictim,
        "Another attempt usually gets through; a deadlock that comes back is seen in the server's "
        "system_health session",
        _numbers(1205),
        ("40001",),
        r"chosen as the deadlock victim|deadlocked on",
    ),
    Rule(
        LockTimeout,
        "A writer holds a lock for longer than lock_timeout_seconds of the connection; raise it, or read "
        'under isolation="snapshot"',
        _numbers(1222),
        (),
        r"lock request time out",
    ),
    Rule(
        IsolationRefused,
        "Allow it once with ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON, or leave isolation=None",
        _numbers(3952),
        (),
        r"snapshot isolation is not allowed",
    ),
    Rule(
        ServerBusy,
        "The server asks to come back later (paused, moving, out of a resource, or a snapshot that a change "
        "of the table overtook)",
        _numbers(
            # Microsoft's pages "Database engine events and errors" (0 to 999, 1000 to 1999 ...)
            *(3960, 3961, 3953, 3966, 6005, 6006, 17142, 18451, 701, 802, 8645, 8651, 9002),
            # a session or a statement that was ended for want of locks, latches, versions or time
            *(596, 844, 845, 847, 1204, 3958, 3959, 8628, 10922),
            # a database that is being recovered, restored or handed over
            *(921, 922, 927, 952, 35293),
            # Azure SQL Database ended a session that used too much for the moment
            *(40549, 40551, 40553),
            *(40197, 40501, 40540, 40613, 40143, 49918, 49919, 49920, 10928, 10929, 10936, 4221),
            *(615, 976, 978, 979, 982, 983, 988, 41301, 41302, 41305, 41325, 42108, 42109),
        ),
        (),
        r"update conflict|modified by a DDL statement|currently busy|not currently available|please try again"
        r"|cannot process request|limit for the database is .* reached|insufficient system memory"
        r"|SHUTDOWN is in progress",
    ),
    Rule(
        LoginFailed,
        "Check login, password and database of the Airflow connection (the Database field is the schema), "
        "and that the login has a user in the database",
        _numbers(
            18456, 18452, 18470, 18486, 18487, 18488, 4060, 4062, 4063, 4064, 40532, 40607, 40615, 40914
        ),
        ("28",),
        r"login failed for user|cannot open database|cannot open server",
    ),
    Rule(
        PermissionDenied,
        "Have it granted, for instance GRANT SELECT ON <object> TO <user>; the least rights that are enough "
        "are in the documentation",
        _numbers(229, 230, 262, 297, 300, 371, 378, 916, 15247, 22904, 22981),
        (),
        r"permission was denied|does not have permission|not able to access the database",
    ),
    Rule(
        SourceObjectMissing,
        "Check the names against the catalog; if it existed before, it was dropped or renamed",
        _numbers(207, 208, 2812, 4121, 15009, 15151, 15250, 911, 2706, 22901, 22985),
        ("42S02", "42S22"),
        r"invalid object name|invalid column name|could not find stored procedure",
    ),
    Rule(
        RetentionGap,
        "The range of LSNs is no longer inside the capture instance: CDC cleanup has purged its lower end",
        pattern=r"insufficient number of arguments .*fn_cdc_get_(all|net)_changes",
    ),
    Rule(
        ConfigurationError,
        "SQL Server has no such conversion: name another type in casts",
        _numbers(206, 529),
        (),
        r"explicit conversion from data type .* is not allowed|operand type clash",
    ),
    Rule(
        ValueDoesNotFit,
        "A value, or a bound, cannot be converted to the type it is planned with; name a wider type in casts",
        _numbers(
            220, 232, 235, 236, 241, 242, 244, 245, 248, 295, 517, 8114, 8115, 8152, 9803, 9807, 9828, 6354
        ),
        ("22",),
        names_only=False,
    ),
    Rule(
        ConfigurationError,
        "The server's certificate is not one that this machine trusts. Install its authority here, or name "
        "its file in certificate_authorities of the connection, or trust it on purpose with "
        "trust_server_certificate",
        pattern=r"certificate verify failed|certificate chain|self.signed certificate|certificate.*match",
    ),
    Rule(
        ConfigurationError,
        "The connection asks for encryption and the server has none; enable it there, or set encryption "
        "of the connection to request",
        pattern=r"encryption not supported|does not support encryption|SSL is required",
    ),
    Rule(
        ConnectionBroken,
        "The server ended the handshake, what listens there is not a SQL Server, or its certificate was "
        "refused: pymssql does not tell these apart. "
        "If it keeps happening where encryption is required, see which certificate the server has, and name "
        "its authority in certificate_authorities of the connection",
        _numbers(20002),
    ),
    BROKEN,
)
BY_NUMBER = {number: rule for rule in RULES for number in rule.numbers}
UNKNOWN = Rule(
    StatementFailed,
    "The server refused it for a reason that this package has no class for; the number is explained in "
    "SQL Server's documentation",
    names_only=False,
    not_connected="What listens there may not be a SQL Server, or may speak another version of its protocol; "
    "check host and port",
)


@dataclass(frozen=True, slots=True)
class Reported:
    """What a driver reported: error number, SQLSTATE and text; None for what it did not report."""

    number: int | None = None
    sqlstate: str | None = None
    text: str = ""


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\(<[^>]*>\)|(?<=value is )\(.*\)", re.DOTALL)
_VENDOR_PREFIX = re.compile(r"\A(?:\[[^\]]*\])+")
_DB_LIB = re.compile(r"DB-Lib error message (\d+), severity \d+:\n(.*)")
_GENERAL = 20018  # "General SQL Server error: Check messages from the SQL Server"


def translate(exc: BaseException, *, doing: str, connected: bool = True) -> MssqlCdcError:
    """Return the error to raise in place of a driver's; raise it ``from`` nothing that shows a statement.

    :param doing: the action and its place, for instance ``erp (db:1433/shop): reading dbo.orders``.
    :param connected: whether the login had succeeded; before it nothing can have been read.
    """
    if isinstance(exc, MssqlCdcError):
        return exc
    reported = max(reports_of(exc), key=lambda report: report.number in BY_NUMBER)
    rule = rule_for(reported)
    remedy = rule.remedy if connected else rule.not_connected or rule.remedy
    return rule.error(f"{doing}: {_said(reported, rule)}. {remedy}")


_PASSES = re.compile(
    r"\bre-?run (the|your|this)\b|try again (later|after)|in transition|wait a few minutes"
    r"|retry (later|the (request|query|statement|operation|connection|transaction))",
    re.IGNORECASE,
)
"""Phrases of SQL Server's messages for transient errors, for numbers that are not in the table."""


def rule_for(reported: Reported) -> Rule:
    """Return the first matching rule: by number, by text if the number is hidden, then by SQLSTATE class."""
    if reported.number in BY_NUMBER:
        return BY_NUMBER[reported.number]
    for rule in RULES:
        if rule.matches_text(reported.text):
            return rule
    for rule in RULES:
        if reported.sqlstate and reported.sqlstate.startswith(rule.sqlstates or ("-",)):
            return rule
    return BY_NUMBER[3960] if _PASSES.search(_QUOTED.sub("", reported.text)) else UNKNOWN


def reports_of(exc: BaseException) -> Iterator[Reported]:
    """Return everything that either driver reported about an error, the server's own report first."""
    diagnostics = getattr(exc, "diagnostics", None)
    if diagnostics:
        for head, text in diagnostics:
            yield _from_diagnostic(head, text)
    elif exc.args and isinstance(exc.args[0], tuple):
        yield from _from_db_lib(*exc.args[0][:2])
    elif len(exc.args) == 2 and isinstance(exc.args[0], int):
        yield from _from_db_lib(*exc.args)
    elif said := getattr(exc, "ddbc_error", None):
        yield Reported(None, _sqlstate(exc), _plain(str(said)))
    else:
        yield Reported(None, _sqlstate(exc), str(exc))


def _sqlstate(exc: BaseException) -> str | None:
    """Return the SQLSTATE, from the inner exception of a failed connect or as the reader noted it."""
    hidden = re.match(r"SQLSTATE:(\w{5}):", str(exc.__context__ or ""))
    noted: str | None = getattr(exc, "sqlstate", None)
    return hidden[1] if hidden else noted


def _from_diagnostic(head: str, text: str) -> Reported:
    """Parse one ODBC diagnostic record: ``[42000] (1205)`` and its text."""
    match = re.match(r"\[(\w{5})\] \((-?\d+)\)", head)
    number = int(match[2]) if match else 0
    return Reported(number or None, match[1] if match else None, _plain(text))


def _from_db_lib(number: int, message: bytes | str) -> Iterator[Reported]:
    """Return the server's text, then db-lib's.

    After the second failed connect of a process, pymssql loses the server's text and may report the number
    of an earlier error, so the number counts only if db-lib refers to the server's messages.
    """
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    server_text = _DB_LIB.split(text)[0].strip()
    own = [(int(own_number), own_text.strip()) for own_number, own_text in _DB_LIB.findall(text)]
    if server_text or not own or any(own_number == _GENERAL for own_number, _ in own):
        yield Reported(number, None, server_text or "the server refused it")
    for own_number, own_text in own:
        if own_number != _GENERAL:
            yield Reported(own_number, None, own_text)


def _plain(text: str) -> str:
    return _VENDOR_PREFIX.sub("", text).strip()


def _said(reported: Reported, rule: Rule) -> str:
    code = f"error {reported.number}" if reported.number else f"SQLSTATE {reported.sqlstate}"
    text = " ".join(reported.text.split()).rstrip(".")
    if not rule.names_only:
        text = _QUOTED.sub("'…'", text)
    if reported.number is None and reported.sqlstate is None:
        return text or "the driver gave no reason"
    return f"{text} ({code})"
