"""Which error of this package an error of the server or of a driver is: one table, read by ``errors.py``.

Numbers are SQL Server's (``sys.messages``), db-lib's own above 20000 and Winsock's around 10054; SQLSTATEs
are ODBC's, by prefix. Texts stand in where a driver keeps the number to itself, as mssql-python
does for an error among the rows; sessions ask for English.
"""

from __future__ import annotations

import re
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
    """Errors that are one thing to the user, and what to do about it.

    :param names_only: the server's text quotes names of objects, never a value.
    :param not_connected: the remedy while nothing was connected yet, where it differs.
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
            *(3960, 3961, 3953, 3966, 6005, 6006, 17142, 18451, 701, 802, 8645, 8651, 9002),
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
        "Check the names against the catalog; if it was there before, somebody dropped or renamed it",
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
