"""Time zones: SQL Server knows Windows' names, Python IANA's (unicode.org, CLDR windowsZones)."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo

from airflow_provider_mssql_cdc.embedded.engine import moments
from airflow_provider_mssql_cdc.embedded.seam import SqlError

_IANA = {
    "UTC": "UTC",
    "Alaskan Standard Time": "America/Anchorage",
    "Arabian Standard Time": "Asia/Dubai",
    "Atlantic Standard Time": "America/Halifax",
    "AUS Eastern Standard Time": "Australia/Sydney",
    "Central European Standard Time": "Europe/Warsaw",
    "Central Standard Time": "America/Chicago",
    "China Standard Time": "Asia/Shanghai",
    "E. South America Standard Time": "America/Sao_Paulo",
    "Eastern Standard Time": "America/New_York",
    "FLE Standard Time": "Europe/Kyiv",
    "GMT Standard Time": "Europe/London",
    "GTB Standard Time": "Europe/Athens",
    "Hawaiian Standard Time": "Pacific/Honolulu",
    "India Standard Time": "Asia/Kolkata",
    "Lord Howe Standard Time": "Australia/Lord_Howe",
    "Mountain Standard Time": "America/Denver",
    "Nepal Standard Time": "Asia/Kathmandu",
    "New Zealand Standard Time": "Pacific/Auckland",
    "Newfoundland Standard Time": "America/St_Johns",
    "Pacific Standard Time": "America/Los_Angeles",
    "Romance Standard Time": "Europe/Paris",
    "Russian Standard Time": "Europe/Moscow",
    "Singapore Standard Time": "Asia/Singapore",
    "Tokyo Standard Time": "Asia/Tokyo",
    "W. Europe Standard Time": "Europe/Berlin",
}
_WINDOWS = {iana: windows for windows, iana in _IANA.items()}
_FOLDED = {windows.lower(): iana for windows, iana in _IANA.items()}


def windows_name(iana: str) -> str:
    """What CURRENT_TIMEZONE_ID() says for a zone; the IANA name itself for one that is not in the table."""
    return _WINDOWS.get(iana, iana)


def zone(name: str) -> tzinfo:
    """A zone by Windows' or IANA's name. Error 9820."""
    found = _FOLDED.get(name.lower(), name)
    if found == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(found)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise SqlError(
            9820, f"The time zone parameter '{name}' provided to AT TIME ZONE clause is invalid."
        ) from None


def at_zone(moment: moments.Moment, name: str) -> moments.Moment:
    """AT TIME ZONE: gives a local time its offset, or shows an instant in another zone.

    An hour that repeats has the offset before the change; one that is left out is moved past it.
    """
    if moment.offset is None:
        local = datetime.min.replace(tzinfo=zone(name)) + timedelta(microseconds=moment.units // 10)
        utc = moment.units - _offset(local) * moments.MINUTE
    else:
        utc = moment.utc
    instant = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=utc // 10)
    offset = _offset(instant.astimezone(zone(name)))
    return moments.Moment(utc + offset * moments.MINUTE, offset)


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(minutes=1)
