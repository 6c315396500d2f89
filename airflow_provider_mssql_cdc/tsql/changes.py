"""What reading changes asks beside the rows: commits of a window, the server's wall clock, times to LSNs.

``cdc.lsn_time_mapping`` has an entry for each commit that capture processed and for each idle moment.
"""

from __future__ import annotations

from datetime import datetime

from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.tsql.cdc import ServerZone
from airflow_provider_mssql_cdc.tsql.statement import Statement

CLOCK_STEPS = 8
"""Quarter hours of the wall clock that are asked for on either side of an instant."""


def window_commits(window: Window, *, limit: int, zone: ServerZone) -> Statement:
    """The first ``limit`` commits of a window in order: lsn, and utc_time as datetime2(3)."""
    return Statement(
        f"SELECT TOP ({int(limit)}) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,\n"
        f"       CAST({zone.utc('m.tran_end_time')} AS datetime2(3)) AS utc_time\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.start_lsn > CONVERT(binary(10), %(after)s, 1)\n"
        "  AND m.start_lsn <= CONVERT(binary(10), %(until)s, 1)\n"
        "ORDER BY m.start_lsn",
        {"after": window.after.text, "until": window.until.text, **zone.parameters},
    )


def wall_clock(at: datetime, zone: str) -> Statement:
    """The server's local time at quarter hours around an instant: step (number), local_time (style 126).

    :param at: UTC without zone, a quarter of an hour.
    """
    steps = ", ".join(f"({step})" for step in range(-CLOCK_STEPS, CLOCK_STEPS + 1))
    moved = "DATEADD(minute, 15 * g.step, CAST(%(at)s AS datetime2(0)))"
    return Statement(
        "SELECT g.step, CONVERT(varchar(19), CAST(\n"
        f"       {moved} AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(0)), 126) AS local_time\n"
        f"FROM (VALUES {steps}) AS g(step)\n"
        "ORDER BY g.step",
        {"at": at.isoformat(timespec="seconds"), "zone": zone},
    )


def commits_around(local: datetime) -> Statement:
    """The last commit before a local time, as before_lsn, and the first at or after it, as passed_lsn.

    :param local: whole seconds, without zone; ISO 8601 reads alike under every DATEFORMAT.
    """
    mapped = "CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn({}, CAST(%(local)s AS datetime)), 1)"
    return Statement(
        f"SELECT {mapped.format(chr(39) + 'largest less than' + chr(39))} AS before_lsn,\n"
        f"       {mapped.format(chr(39) + 'smallest greater than or equal' + chr(39))} AS passed_lsn",
        {"local": local.isoformat(timespec="seconds")},
    )


def first_entry_past(lsn: Lsn, local: datetime) -> Statement:
    """The first entry above an LSN with a commit time at or above a local time, as lsn; NULL: not yet."""
    return Statement(
        "SELECT CONVERT(varchar(22), MIN(m.start_lsn), 1) AS lsn\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.start_lsn > CONVERT(binary(10), %(lsn)s, 1)\n"
        "  AND m.tran_end_time >= CAST(%(local)s AS datetime)",
        {"lsn": lsn.text, "local": local.isoformat(timespec="seconds")},
    )


def updateability() -> Statement:
    """Whether this copy of the database can be written to: READ_WRITE or READ_ONLY (a replica)."""
    return Statement(
        "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability"
    )
