"""Statements that set a session up, and transactions."""

from __future__ import annotations

from airflow_provider_mssql_cdc.tsql.statement import Statement

LONGEST_TEXT = 2147483647
"""Bytes of a (max) value; drivers ask for less by default and then cut values without an error."""

SET_TEXTSIZE = Statement(f"SET TEXTSIZE {LONGEST_TEXT}")
SET_ENGLISH = Statement("SET LANGUAGE us_english")
SET_NOCOUNT = Statement("SET NOCOUNT ON")
SET_SNAPSHOT = Statement("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
SET_READ_COMMITTED = Statement("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
BEGIN = Statement("BEGIN TRANSACTION")
COMMIT = Statement("COMMIT TRANSACTION")
ROLLBACK = Statement("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")
PING = Statement("SELECT 1 AS alive")


def textsize() -> Statement:
    """What the server will really send of a (max) value, in bytes, as ``textsize``."""
    return Statement("SELECT @@TEXTSIZE AS textsize")


def set_lock_timeout(milliseconds: int) -> Statement:
    """How long a statement waits for a lock before error 1222; -1 waits for ever.

    :raises ValueError: a number below -1.
    """
    if milliseconds < -1:
        raise ValueError(f"a lock timeout is -1 or a number of milliseconds, got {milliseconds}")
    return Statement(f"SET LOCK_TIMEOUT {int(milliseconds)}")
