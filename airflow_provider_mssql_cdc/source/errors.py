"""The one place where a driver's error becomes one of this package's: number or SQLSTATE → class.

A driver's text may quote a value of the source (error 245 does) or, through a literal, a parameter, so
quoted parts are blotted out unless the error is one that quotes names only.
"""

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
class Reported:
    """What a driver said: the server's error number, the SQLSTATE and the text, as far as it told."""

    number: int | None = None
    sqlstate: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    error: type[MssqlCdcError]
    remedy: str
    numbers: frozenset[int] = frozenset()
    sqlstates: tuple[str, ...] = ()
    pattern: str | None = None
    names_only: bool = True

    def matches_text(self, text: str) -> bool:
        return self.pattern is not None and re.search(self.pattern, text, re.IGNORECASE) is not None


def _numbers(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


_BROKEN = _Rule(
    ConnectionBroken,
    "The connection is gone; what was being read starts again at the next attempt. If it keeps happening, look "
    "at the network, at the server's log and at the timeouts of the connection",
    # db-lib's own numbers, Winsock's, and "transport-level error"
    _numbers(
        20002, 20003, 20004, 20006, 20009, 20017, 20019, 20020, 20047, 64, 121, 233, 258, 10053, 10054, 10060
    ),
    ("08", "HYT"),
    r"communication link failure|timeout expired|unable to connect|DBPROCESS is dead",
)

# The first rule that matches is taken: numbers of all rules first, then texts, then SQLSTATEs.
_RULES = (
    _Rule(
        DeadlockVictim,
        "Another attempt usually gets through; a deadlock that comes back is seen in the server's system_health "
        "session",
        _numbers(1205),
        ("40001",),
        r"chosen as the deadlock victim|deadlocked on",
    ),
    _Rule(
        LockTimeout,
        "A writer holds a lock for longer than lock_timeout_seconds of the connection; raise it, or read under "
        'isolation="snapshot"',
        _numbers(1222),
        (),
        r"lock request time out",
    ),
    _Rule(
        IsolationRefused,
        "Allow it once with ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON, or leave isolation=None",
        _numbers(3952),
        (),
        r"snapshot isolation is not allowed",
    ),
    _Rule(
        ServerBusy,
        "The server asks to come back later (paused, moving, out of a resource, or a snapshot that a change of "
        "the table overtook)",
        _numbers(
            *(3960, 3961, 3953, 3966, 6005, 6006, 17142, 18451, 701, 802, 8645, 8651, 9002),
            *(40197, 40501, 40540, 40613, 40143, 49918, 49919, 49920, 10928, 10929, 10936, 4221),
            *(615, 976, 978, 979, 982, 983, 988, 41301, 41302, 41305, 41325, 42108, 42109),
        ),
    ),
    _Rule(
        LoginFailed,
        "Check login, password and database of the Airflow connection (the Database field is the schema), and "
        "that the login has a user in the database",
        _numbers(
            18456, 18452, 18470, 18486, 18487, 18488, 4060, 4062, 4063, 4064, 40532, 40607, 40615, 40914
        ),
        ("28",),
        r"login failed for user|cannot open database|cannot open server",
    ),
    _Rule(
        PermissionDenied,
        "Have it granted, for instance GRANT SELECT ON <object> TO <user>; the least rights that are enough are "
        "in the documentation",
        _numbers(229, 230, 262, 297, 300, 371, 378, 916, 15247, 22904, 22981),
        (),
        r"permission was denied|does not have permission|not able to access the database",
    ),
    _Rule(
        SourceObjectMissing,
        "Check the names against the catalog; if it was there before, somebody dropped or renamed it",
        _numbers(207, 208, 2812, 4121, 15009, 15151, 15250, 911, 2706, 22901, 22985),
        ("42S02", "42S22"),
        r"invalid object name|invalid column name|could not find stored procedure",
    ),
    _Rule(
        RetentionGap,
        "The range of LSNs is no longer inside the capture instance: CDC cleanup has purged its lower end",
        pattern=r"insufficient number of arguments .*fn_cdc_get_(all|net)_changes",
    ),
    _Rule(
        ValueDoesNotFit,
        "A value, or a bound, cannot be converted to the type it is planned with; name a wider type in casts",
        _numbers(
            220, 232, 235, 236, 241, 242, 244, 245, 248, 295, 517, 8114, 8115, 8152, 9803, 9807, 9828, 6354
        ),
        ("22",),
        names_only=False,
    ),
    _Rule(
        ConfigurationError,
        "The server's certificate is not one that this machine trusts. Install its authority here, or name its "
        'file in {"mssql_cdc": {"certificate_authorities": "/path/ca.pem"}}, or trust it on purpose with '
        '{"mssql_cdc": {"trust_server_certificate": true}}',
        pattern=r"certificate verify failed|certificate chain|self.signed certificate|certificate.*(name|host).*match",
    ),
    _Rule(
        ConfigurationError,
        "The connection asks for encryption and the server has none; enable it there, or set "
        '{"mssql_cdc": {"encrypt": "request"}}',
        pattern=r"encryption not supported|does not support encryption|SSL is required",
    ),
    _BROKEN,
)
_BY_NUMBER = {number: rule for rule in _RULES for number in rule.numbers}
_UNKNOWN = _Rule(
    StatementFailed,
    "The server refused it for a reason that this package has no class for; the number is explained in "
    "SQL Server's documentation",
    names_only=False,
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\(<[^>]*>\)")
_VENDOR_PREFIX = re.compile(r"\A(?:\[[^\]]*\])+")
_DB_LIB = re.compile(r"DB-Lib error message (\d+), severity \d+:\n(.*)")
_GENERAL = 20018  # "General SQL Server error: Check messages from the SQL Server"


def translate(exc: BaseException, *, doing: str) -> MssqlCdcError:
    """The error to raise in place of a driver's; raise it ``from`` nothing that shows a statement.

    :param doing: what was being done and where, for instance ``erp (db:1433/shop): reading dbo.orders``.
    """
    if isinstance(exc, MssqlCdcError):
        return exc
    reported = max(
        reports_of(exc), key=lambda report: report.number in _BY_NUMBER, default=Reported(text=str(exc))
    )
    rule = rule_for(reported)
    return rule.error(f"{doing}: {_said(reported, rule)}. {rule.remedy}")


def rule_for(reported: Reported) -> _Rule:
    """Number first; where a driver keeps it to itself, the text; at last the SQLSTATE's class."""
    if reported.number in _BY_NUMBER:
        return _BY_NUMBER[reported.number]
    for rule in _RULES:
        if rule.matches_text(reported.text):
            return rule
    for rule in _RULES:
        if reported.sqlstate and reported.sqlstate.startswith(rule.sqlstates or ("-",)):
            return rule
    return _UNKNOWN


def reports_of(exc: BaseException) -> Iterator[Reported]:
    """Everything that either driver told about an error, the server's word first."""
    diagnostics = getattr(exc, "diagnostics", None)
    if diagnostics:
        for head, text in diagnostics:
            yield _from_diagnostic(head, text)
    elif exc.args and isinstance(exc.args[0], tuple):
        yield from _from_db_lib(*exc.args[0][:2])
    elif len(exc.args) == 2 and isinstance(exc.args[0], int):
        yield from _from_db_lib(*exc.args)
    elif hasattr(exc, "ddbc_error"):
        state = re.match(r"SQLSTATE:(\w{5}):", str(exc.__context__ or ""))
        yield Reported(None, state[1] if state else None, _plain(exc.ddbc_error or exc.driver_error))


def _from_diagnostic(head: str, text: str) -> Reported:
    """One ODBC diagnostic record: ``[42000] (1205)`` and its text."""
    match = re.match(r"\[(\w{5})\] \((-?\d+)\)", head)
    number = int(match[2]) if match else 0
    return Reported(number or None, match[1] if match else None, _plain(text))


def _from_db_lib(number: int, message: bytes | str) -> Iterator[Reported]:
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    server_text = _DB_LIB.split(text)[0].strip()
    if server_text:
        yield Reported(number, None, server_text)
    for own_number, own_text in _DB_LIB.findall(text):
        if int(own_number) != _GENERAL:
            yield Reported(int(own_number), None, own_text.strip())
    if not server_text:
        yield Reported(number, None, text.strip())


def _plain(text: str) -> str:
    return _VENDOR_PREFIX.sub("", text).strip()


def _said(reported: Reported, rule: _Rule) -> str:
    code = f"error {reported.number}" if reported.number else f"SQLSTATE {reported.sqlstate}"
    text = " ".join(reported.text.split()).rstrip(".")
    if not rule.names_only:
        text = _QUOTED.sub("'…'", text)
    if reported.number is None and reported.sqlstate is None:
        return text or "the driver gave no reason"
    return f"{text} ({code})"
