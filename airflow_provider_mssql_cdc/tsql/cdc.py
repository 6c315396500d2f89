"""Statements about change data capture: instances, watermarks, windows, change rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import PlannedColumn
from airflow_provider_mssql_cdc.tsql.statement import Statement, qualified, quote_identifier, result_name

NEAR_HOURS = 2
"""Largest step by which any zone sets its clock back: usually 30 to 60 minutes, two hours at Troll."""


@dataclass(frozen=True, slots=True)
class ServerZone:
    """Conversion of the server's local time to UTC; :meth:`utc` reads all commit times.

    A local time in the repeated hour in autumn is read as of its first pass: ``AT TIME ZONE`` uses the
    offset before the clock change (Microsoft Learn, "AT TIME ZONE", remarks).

    :param name: a Windows zone as returned by ``CURRENT_TIMEZONE_ID()`` (SQL Server 2022, Azure); None on
        older servers, where the current offset is used.
    """

    name: str | None = None

    def utc(self, local: str) -> str:
        """Return T-SQL for a local datetime in UTC, datetime2(3); a named zone needs the parameter
        ``zone``.
        """
        if self.name is None:
            offset = "-DATEPART(tzoffset, SYSDATETIMEOFFSET())"
            return f"CAST(DATEADD(minute, {offset}, {local}) AS datetime2(3))"
        return f"CAST({local} AT TIME ZONE %(zone)s AT TIME ZONE 'UTC' AS datetime2(3))"

    def near_change(self, local: str) -> str:
        """Return T-SQL: 1 if the clock is set back within :data:`NEAR_HOURS` after a local time, else 0.

        Only such a time can have a second pass. Without a named zone this is unknown, so 0.
        """
        if self.name is None:
            return "0"
        later = f"DATEADD(hour, {NEAR_HOURS}, {self.utc(local)})"
        shown = f"CAST({later} AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(3))"
        return (
            f"CASE WHEN {shown}\n"
            f"            < DATEADD(hour, {NEAR_HOURS}, CAST({local} AS datetime2(3))) THEN 1 ELSE 0 END"
        )

    @property
    def parameters(self) -> dict[str, str]:
        return {} if self.name is None else {"zone": self.name}


def instances(source: tuple[str, str] | None = None) -> Statement:
    """Return the capture instances that this login may see, all or those of one (schema, table).

    Columns as documented for ``sys.sp_cdc_help_change_data_capture``; LSNs are binary(10) here.
    """
    if source is None:
        return Statement("EXEC sys.sp_cdc_help_change_data_capture")
    return Statement(
        "EXEC sys.sp_cdc_help_change_data_capture @source_schema = %(schema)s, @source_name = %(name)s",
        {"schema": source[0], "name": source[1]},
    )


def captured_columns(capture_instance: str) -> Statement:
    """Columns as documented for ``sys.sp_cdc_get_captured_columns``; the order column has two names."""
    return Statement(
        "EXEC sys.sp_cdc_get_captured_columns @capture_instance = %(instance)s",
        {"instance": capture_instance},
    )


def ddl_history(capture_instance: str) -> Statement:
    """Columns as documented for ``sys.sp_cdc_get_ddl_history``."""
    return Statement(
        "EXEC sys.sp_cdc_get_ddl_history @capture_instance = %(instance)s", {"instance": capture_instance}
    )


def max_lsn() -> Statement:
    """Return what capture has processed, as max_lsn; NULL in a database that never captured."""
    return Statement("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS max_lsn")


def min_lsn(capture_instance: str) -> Statement:
    """Return the instance's low endpoint, as min_lsn; NULL or all-zero when unknown or not visible."""
    return Statement(
        "SELECT CONVERT(varchar(22),\n"
        # All zero if the instance does not exist or this login may not access it (Microsoft Learn,
        # "sys.fn_cdc_get_min_lsn"), so the answer alone proves neither.
        "               sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128))), 1) AS min_lsn",
        {"instance": capture_instance},
    )


def first_mapping_kept(capture_instance: str, zone: ServerZone = ServerZone()) -> Statement:
    """Return the first entry of ``cdc.lsn_time_mapping`` at or above the instance's low endpoint: lsn,
    utc_time, near_change. The low endpoint itself is an entry only after cleanup has moved it.
    """
    return Statement(
        "SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,\n"
        f"       CONVERT(varchar(23), {zone.utc('m.tran_end_time')}, 126) AS utc_time,\n"
        f"       {zone.near_change('m.tran_end_time')} AS near_change\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.start_lsn >= sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128)))\n"
        "ORDER BY m.start_lsn",
        {"instance": capture_instance, **zone.parameters},
    )


def read_horizon() -> Statement:
    """Return, for use after a read's last row: the server's UTC clock, as utc_time, and max LSN, as max_lsn.

    updateability tells whose clock it is: READ_ONLY on a replica.
    """
    return Statement(
        "SELECT CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_time,\n"
        "       CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS max_lsn,\n"
        "       CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability"
    )


def server_clock() -> Statement:
    """Return the server's clock: utc_time, local_time, and its current utc_offset_minutes."""
    return Statement(
        "SELECT CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_time,\n"
        "       CONVERT(varchar(27), SYSDATETIME(), 126) AS local_time,\n"
        "       DATEPART(tzoffset, SYSDATETIMEOFFSET()) AS utc_offset_minutes"
    )


def server_zone() -> Statement:
    """Return the server's Windows time zone, as zone; error 195 before SQL Server 2022."""
    return Statement("SELECT CURRENT_TIMEZONE_ID() AS zone")


def commit_time(lsn: Lsn, zone: ServerZone = ServerZone()) -> Statement:
    """Return an LSN's commit time: local_time, utc_time (both NULL if it is not a commit), near_change."""
    mapped = "sys.fn_cdc_map_lsn_to_time(CONVERT(binary(10), %(lsn)s, 1))"
    return Statement(
        f"SELECT CONVERT(varchar(23), m.local_time, 126) AS local_time,\n"
        f"       CONVERT(varchar(23), {zone.utc('m.local_time')}, 126) AS utc_time,\n"
        f"       {zone.near_change('m.local_time')} AS near_change\n"
        f"FROM (SELECT {mapped} AS local_time) AS m",
        {"lsn": lsn.text, **zone.parameters},
    )


def history(capture_instance: str, lsns: Sequence[Lsn], zone: ServerZone = ServerZone()) -> Statement:
    """Return what distinguishes a server's history from another; queried in this order, in one round trip.

    One row: max_lsn; entry_0, entry_1, ... (commit time in UTC of each of ``lsns`` by
    ``cdc.lsn_time_mapping``, NULL if it has no entry); smallest (its lowest entry); low (of the instance);
    updateability (READ_WRITE or READ_ONLY). Statements of a batch run in sequence, so an entry that cleanup
    removes after ``max_lsn`` was read is no longer above ``low``.
    """
    # Variables, because the order is the guarantee: within one SELECT the server chooses the order of the
    # subqueries.
    entries = [f"@entry_{number}" for number in range(len(lsns))]
    declared = "".join(f", {name} datetime" for name in entries)
    asked = "".join(
        f"SET {name} = (SELECT m.tran_end_time FROM cdc.lsn_time_mapping AS m\n"
        f"    WHERE m.start_lsn = CONVERT(binary(10), %(lsn_{number})s, 1));\n"
        for number, name in enumerate(entries)
    )
    told = "".join(
        f"       CONVERT(varchar(23), {zone.utc(name)}, 126) AS entry_{number},\n"
        for number, name in enumerate(entries)
    )
    zoned = zone.parameters if lsns else {}
    return Statement(
        f"DECLARE @reached binary(10), @smallest binary(10), @low binary(10){declared};\n"
        f"SET @reached = sys.fn_cdc_get_max_lsn();\n{asked}"
        "SET @smallest = (SELECT MIN(m.start_lsn) FROM cdc.lsn_time_mapping AS m);\n"
        "SET @low = sys.fn_cdc_get_min_lsn(CAST(%(instance)s AS nvarchar(128)));\n"
        f"SELECT CONVERT(varchar(22), @reached, 1) AS max_lsn,\n{told}"
        "       CONVERT(varchar(22), @smallest, 1) AS smallest,\n"
        "       CONVERT(varchar(22), @low, 1) AS low,\n"
        "       CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability",
        {
            **{f"lsn_{number}": lsn.text for number, lsn in enumerate(lsns)},
            "instance": capture_instance,
            **zoned,
        },
    )


def newest_mapping(zone: ServerZone = ServerZone()) -> Statement:
    """Return the newest entry of ``cdc.lsn_time_mapping``: lsn, utc_time, near_change; and the clock,
    utc_now.
    """
    return Statement(
        "SELECT TOP (1) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,\n"
        f"       CONVERT(varchar(23), {zone.utc('m.tran_end_time')}, 126) AS utc_time,\n"
        f"       {zone.near_change('m.tran_end_time')} AS near_change,\n"
        "       CONVERT(varchar(27), SYSUTCDATETIME(), 126) AS utc_now\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "ORDER BY m.start_lsn DESC",
        zone.parameters,
    )


def change_table(capture_instance: str) -> str:
    """``[cdc].[<instance>_CT]``."""
    return qualified("cdc", f"{capture_instance}_CT")


def any_change(capture_instance: str, *, after: Lsn) -> Statement:
    """Return one row, ``found``, when the change table has a change above an LSN."""
    return Statement(
        f"SELECT TOP (1) 1 AS found\nFROM {change_table(capture_instance)} AS c\n"
        "WHERE c.[__$start_lsn] > CONVERT(binary(10), %(after)s, 1)",
        {"after": after.text},
    )


def change_rows(
    capture_instance: str,
    columns: Sequence[PlannedColumn],
    *,
    after: Lsn,
    until: Lsn,
    has_command_id: bool = True,
) -> Statement:
    """Return change rows with a commit LSN in ``(after, until]``, in commit order.

    Read from the change table itself, which has the command id and does not fail on a purged range: the
    caller checks the low watermark before and after. ``_start_lsn`` and ``_seqval`` are binary(10), followed
    by ``_operation``, ``_command_id`` (NULL on builds without it) and the columns under the lake's names.
    """
    # Bytes, not text: printing two LSNs per row costs the server more than reading it, and 24 bytes.
    command_id = "c.[__$command_id]" if has_command_id else "CAST(NULL AS int)"
    # Microsoft Learn, "cdc.<capture_instance>_CT": __$seqval should not be used for ordering; __$command_id
    # orders the operations of a transaction. Builds without it have nothing better than __$seqval.
    order = "c.[__$start_lsn], c.[__$command_id], " if has_command_id else "c.[__$start_lsn], "
    captured = "".join(
        f",\n       {column.projection} AS {quote_identifier(result_name(column.lake.name))}"
        for column in columns
    )
    return Statement(
        "SELECT c.[__$start_lsn] AS [_start_lsn], c.[__$seqval] AS [_seqval],\n"
        f"       c.[__$operation] AS [_operation], {command_id} AS [_command_id]{captured}\n"
        f"FROM {change_table(capture_instance)} AS c\n"
        "WHERE c.[__$start_lsn] > CONVERT(binary(10), %(after)s, 1)\n"
        "  AND c.[__$start_lsn] <= CONVERT(binary(10), %(until)s, 1)\n"
        f"ORDER BY {order}c.[__$seqval], c.[__$operation]",
        {"after": after.text, "until": until.text},
    )


CLOCK_STEPS = 8
"""Quarter hours of the wall clock to query on either side of an instant."""


def window_commits(window: Window, *, limit: int, zone: ServerZone) -> Statement:
    """Return the first ``limit`` commits of a window in order: lsn, utc_time as datetime2(3),
    near_change.
    """
    return Statement(
        f"SELECT TOP ({int(limit)}) CONVERT(varchar(22), m.start_lsn, 1) AS lsn,\n"
        f"       {zone.utc('m.tran_end_time')} AS utc_time,\n"
        f"       {zone.near_change('m.tran_end_time')} AS near_change\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.start_lsn > CONVERT(binary(10), %(after)s, 1)\n"
        "  AND m.start_lsn <= CONVERT(binary(10), %(until)s, 1)\n"
        "ORDER BY m.start_lsn",
        {"after": window.after.text, "until": window.until.text, **zone.parameters},
    )


def wall_clock(at: datetime, zone: str) -> Statement:
    """Return the server's local time at quarter hours around an instant: step (number), local_time (style
    126).

    :param at: UTC without zone, a multiple of 15 minutes.
    """
    # The server knows the rules of its zones, this process may have others: so the server converts.
    steps = ", ".join(f"({step})" for step in range(-CLOCK_STEPS, CLOCK_STEPS + 1))
    moved = "DATEADD(minute, 15 * g.step, CAST(%(at)s AS datetime2(0)))"
    return Statement(
        "SELECT g.step, CONVERT(varchar(19), CAST(\n"
        f"       {moved} AT TIME ZONE 'UTC' AT TIME ZONE %(zone)s AS datetime2(0)), 126) AS local_time\n"
        f"FROM (VALUES {steps}) AS g(step)\n"
        "ORDER BY g.step",
        {"at": at.isoformat(timespec="seconds"), "zone": zone},
    )


def second_pass(begins: datetime, ends: datetime) -> Statement:
    """Return where the second pass of a repeated clock period begins, as lsn; NULL if no entry shows it.

    It is the first entry of the period's first third above an entry of its last third: a step back of ten
    minutes or more, which is no rounding error. Capture shows it while it runs, since it writes an entry at
    least every five minutes.

    :param begins: local time without zone, like ``ends``; both whole minutes.
    """
    third = (ends - begins) / 3
    return Statement(
        "SELECT CONVERT(varchar(22), MIN(m.start_lsn), 1) AS lsn\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.tran_end_time >= CAST(%(begins)s AS datetime)\n"
        "  AND m.tran_end_time < CAST(%(early)s AS datetime)\n"
        "  AND m.start_lsn > (SELECT MIN(p.start_lsn) FROM cdc.lsn_time_mapping AS p\n"
        "                     WHERE p.tran_end_time >= CAST(%(late)s AS datetime)\n"
        "                       AND p.tran_end_time < CAST(%(ends)s AS datetime))",
        {
            name: at.isoformat(timespec="seconds")
            for name, at in {
                "begins": begins,
                "early": begins + third,
                "late": ends - third,
                "ends": ends,
            }.items()
        },
    )


def commits_around(local: datetime) -> Statement:
    """Return the last commit before a local time, as before_lsn, and the first at or after it, as
    passed_lsn.

    :param local: whole seconds, without zone; ISO 8601 does not depend on DATEFORMAT.
    """
    mapped = "CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn({}, CAST(%(local)s AS datetime)), 1)"
    return Statement(
        f"SELECT {mapped.format(chr(39) + 'largest less than' + chr(39))} AS before_lsn,\n"
        f"       {mapped.format(chr(39) + 'smallest greater than or equal' + chr(39))} AS passed_lsn",
        {"local": local.isoformat(timespec="seconds")},
    )


def first_entry_past(lsn: Lsn, local: datetime) -> Statement:
    """Return the first entry above an LSN with a commit time at or above a local time, as lsn; NULL: not
    yet.
    """
    return Statement(
        "SELECT CONVERT(varchar(22), MIN(m.start_lsn), 1) AS lsn\n"
        "FROM cdc.lsn_time_mapping AS m\n"
        "WHERE m.start_lsn > CONVERT(binary(10), %(lsn)s, 1)\n"
        "  AND m.tran_end_time >= CAST(%(local)s AS datetime)",
        {"lsn": lsn.text, "local": local.isoformat(timespec="seconds")},
    )


def updateability() -> Statement:
    """Return whether this copy of the database is writable: READ_WRITE or READ_ONLY (a replica)."""
    return Statement(
        "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(60)) AS updateability"
    )
