"""Python values as the seam stores them, for tables of cases."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

from airflow_provider_mssql_cdc.embedded.seam import GUID_ORDER

UNITS_PER_DAY = 864_000_000_000


def units(moment: dt.datetime, digit: int = 0) -> int:
    """datetime2: units of 100 ns since year 1; ``digit`` is the seventh digit of the second."""
    since = moment.replace(tzinfo=None) - dt.datetime(1, 1, 1)
    return (since.days * 86_400 + since.seconds) * 10**7 + since.microseconds * 10 + digit


def days(date: dt.date) -> int:
    return date.toordinal() - 1


def offset(moment: dt.datetime, digit: int = 0) -> str:
    zone = moment.utcoffset() or dt.timedelta()
    utc = units(moment.astimezone(dt.UTC), digit)
    return f"{utc:020d}{int(zone.total_seconds()) // 60:+05d}"


def guid(text: str) -> bytes:
    wire = uuid.UUID(text).bytes_le
    return bytes(wire[i] for i in GUID_ORDER)


def decimal38(value: str, scale: int) -> bytes:
    scaled = int(Decimal(value).scaleb(scale).to_integral_exact()) if len(value) < 28 else _exact(value)
    return (scaled + 2**127).to_bytes(16, "big")


def _exact(value: str) -> int:
    return int(value.replace(".", ""))
