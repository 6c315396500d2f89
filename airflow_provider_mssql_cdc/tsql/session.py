"""Statements for session options and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_mssql_cdc.tsql.bounds import utf16_units
from airflow_provider_mssql_cdc.tsql.statement import Statement

LONGEST_TEXT = 2147483647
"""Bytes of a (max) value; drivers' defaults are lower and truncate values silently."""

SET_SNAPSHOT = Statement("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
SET_READ_COMMITTED = Statement("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
BEGIN = Statement("BEGIN TRANSACTION")
COMMIT = Statement("COMMIT TRANSACTION")
ROLLBACK = Statement("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")

NEEDED = (
    "SET IMPLICIT_TRANSACTIONS OFF",
    ROLLBACK.text,
    SET_READ_COMMITTED.text,
    "SET ROWCOUNT 0",
    f"SET TEXTSIZE {LONGEST_TEXT}",
)
"""Required options: without them values are truncated, or rows are rolled back or read uncommitted."""

STATED = (
    # First: under FMTONLY results have columns and no rows (Microsoft Learn, "SET FMTONLY").
    "SET FMTONLY OFF",
    # LANGUAGE sets DATEFORMAT, so it comes first. Errors without a number are told by their English text.
    "SET LANGUAGE us_english",
    "SET DATEFORMAT mdy",
    "SET XACT_ABORT ON",
    "SET ANSI_NULLS ON",
    "SET ANSI_PADDING ON",
    "SET ANSI_WARNINGS ON",
    "SET ARITHABORT ON",
    "SET CONCAT_NULL_YIELDS_NULL ON",
    "SET QUOTED_IDENTIFIER ON",
    "SET NUMERIC_ROUNDABORT OFF",
)
"""Options that fix the meaning of statements; optional, since a server without one has a fixed behaviour."""

_OPTIONS = {
    "IMPLICIT_TRANSACTIONS": (2, False),
    "ANSI_WARNINGS": (8, True),
    "ANSI_PADDING": (16, True),
    "ANSI_NULLS": (32, True),
    "ARITHABORT": (64, True),
    "QUOTED_IDENTIFIER": (256, True),
    "CONCAT_NULL_YIELDS_NULL": (4096, True),
    "NUMERIC_ROUNDABORT": (8192, False),
    "XACT_ABORT": (16384, True),
}
"""Required bits of @@OPTIONS (Microsoft Learn, "Server configuration: user options")."""

FIRST_WITH_ZONE = 16

READ_UNCOMMITTED = 1
"""Value of ``transaction_isolation_level``; 2 is READ COMMITTED (Microsoft Learn, "sys.dm_exec_sessions")."""

_GLOBALS = "@@TEXTSIZE AS size_of_text, @@TRANCOUNT AS open_transactions, @@LOCK_TIMEOUT AS lock_wait_ms"
_LEVELS = (
    "s.transaction_isolation_level AS isolation_level, s.date_format AS date_order,\n"
    "       s.language AS language_name"
)
# Cast as columns are. The euro sign is other bytes in UTF-8 and in code pages: before versions 4.5 and 5.1
# Babelfish gave those (github.com/babelfish-for-postgresql/babelfish_extensions, pull request 3072).
_EURO = utf16_units("nvarchar(2)", "N'A\u20ac'")
# As tsql.catalog.server_facts asks them: Babelfish answers both.
_SERVER = (
    "CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) AS product_version,\n"
    "       CAST(SERVERPROPERTY('Edition') AS nvarchar(128)) AS edition"
)
_TEXTS = f"CASE WHEN {_EURO} = 0x4100AC20 THEN 1 ELSE 0 END AS utf16"


def set_lock_timeout(milliseconds: int) -> Statement:
    """Set how long a statement waits for a lock before error 1222; -1 for no limit.

    :raises ValueError: a number below -1.
    """
    if milliseconds < -1:
        raise ValueError(f"a lock timeout must be -1 or a number of milliseconds, got {milliseconds}")
    return Statement(f"SET LOCK_TIMEOUT {int(milliseconds)}")


def globals_in_effect() -> Statement:
    """Return what every T-SQL engine reports: size_of_text, open_transactions, lock_wait_ms."""
    return Statement(f"SELECT {_GLOBALS}")


def options_in_effect() -> Statement:
    """Return the bits of @@OPTIONS, as option_bits."""
    return Statement("SELECT @@OPTIONS AS option_bits")


def levels_in_effect() -> Statement:
    """Return the session's own row of ``sys.dm_exec_sessions``, visible to every login: isolation_level,
    date_order, language_name.
    """
    return Statement(f"SELECT {_LEVELS}\nFROM sys.dm_exec_sessions AS s\nWHERE s.session_id = @@SPID")


def texts_in_effect() -> Statement:
    """Return whether casting a string to varbinary gives its UTF-16 units, as utf16 (1 or 0)."""
    return Statement(f"SELECT {_TEXTS}")


def set_up(lock_timeout_ms: int) -> Statement:
    """Return all options in one batch, then their effective state in one row: the columns of
    :func:`globals_in_effect`, :func:`options_in_effect`, :func:`levels_in_effect` (NULL if not
    visible) and :func:`texts_in_effect`, and the server's version and edition.
    """
    settings = (*STATED, *NEEDED, set_lock_timeout(lock_timeout_ms).text)
    stated = ";\n".join(settings)
    return Statement(
        f"{stated};\n"
        # A LEFT JOIN: an engine may not list the session, and the other columns must still arrive.
        f"SELECT {_GLOBALS},\n       @@OPTIONS AS option_bits, {_LEVELS},\n"
        f"       {_TEXTS},\n       {_SERVER}\n"
        "FROM (SELECT @@SPID AS own_id) AS o\n"
        "LEFT JOIN sys.dm_exec_sessions AS s ON s.session_id = o.own_id"
    )


def needed_settings() -> Statement:
    """Return the required options in one batch."""
    return Statement(";\n".join(NEEDED))


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state that a server reports for its session; None for unknown values."""

    size_of_text: int | None = None
    open_transactions: int | None = None
    lock_wait_ms: int | None = None
    option_bits: int | None = None
    isolation_level: int | None = None
    date_order: str | None = None
    language_name: str | None = None
    utf16: int | None = None
    product_version: str | None = None
    edition: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> SessionState:
        return cls(**{name: row[name] for name in cls.__slots__ if name in row})

    @property
    def knows_zone(self) -> bool | None:
        """Return whether the server has CURRENT_TIMEZONE_ID; None if its version is unknown.

        It exists in SQL Server 2022 (16.x) and later, Azure SQL Database and Azure SQL Managed Instance
        (Microsoft Learn, "CURRENT_TIMEZONE_ID"); both of Azure's report "SQL Azure" and version 12.
        """
        if self.product_version is None:
            return None
        major = self.product_version.partition(".")[0]
        return self.edition == "SQL Azure" or (major.isdecimal() and int(major) >= FIRST_WITH_ZONE)

    def wrong(self) -> tuple[str, ...]:
        """Return required options that are not in effect although they were set."""
        found = []
        if self.size_of_text not in (None, -1, LONGEST_TEXT):
            found.append(f"TEXTSIZE is {self.size_of_text}, so long values would be cut")
        if self.open_transactions:
            found.append(f"{self.open_transactions} transactions are open")
        if self.isolation_level == READ_UNCOMMITTED:
            found.append("the isolation level is READ UNCOMMITTED, so rows that never were would be read")
        if self.option_bits is not None and self.option_bits & 2:
            found.append("IMPLICIT_TRANSACTIONS is ON, so every read would open a transaction")
        return tuple(found)

    def other(self) -> tuple[str, ...]:
        """Return optional settings not in effect that change a statement's meaning in edge cases."""
        bits = self.option_bits
        found = [] if bits is None else [n for n, (b, on) in _OPTIONS.items() if bool(bits & b) is not on]
        if self.date_order not in (None, "mdy"):
            found.append("DATEFORMAT")
        return tuple(found)
