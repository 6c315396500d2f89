"""The server's clock: real time, shifted or frozen by a test, shown in a time zone of the server's.

``GETDATE()`` and ``cdc.lsn_time_mapping`` show the local time without a zone, as SQL Server does; so an
hour repeats in autumn. Everything else of the package counts in UTC.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

_DAY_ONE = datetime(1900, 1, 1)  # noqa: DTZ001  (local time, as SQL Server's datetime is)
_YEAR_ONE = datetime(1, 1, 1, tzinfo=UTC)
_TICKS_PER_SECOND = 300


class ServerClock:
    """What the server takes for the time of day; safe to use from several threads.

    :param zone: the server's time zone, by IANA name or as a tzinfo.
    """

    def __init__(self, zone: str | tzinfo = UTC) -> None:
        self._lock = threading.Lock()
        self._shift = timedelta()
        self._frozen: datetime | None = None
        self.zone = zone

    @property
    def zone(self) -> tzinfo:
        """The server's time zone. To change it in a test, set ``server.time_zone``."""
        return self._zone

    @zone.setter
    def zone(self, zone: str | tzinfo) -> None:
        self._zone = zone if isinstance(zone, tzinfo) else UTC if zone == "UTC" else ZoneInfo(zone)

    def utc(self) -> datetime:
        """Now, aware, in UTC."""
        with self._lock:
            if self._frozen is not None:
                return self._frozen
            return datetime.now(UTC) + self._shift

    def aware(self) -> datetime:
        """Now in the server's zone, with its offset (``SYSDATETIMEOFFSET()``)."""
        return self.utc().astimezone(self._zone)

    def local(self) -> datetime:
        """Now as the server's wall shows it, without a zone (``SYSDATETIME()``)."""
        return self.aware().replace(tzinfo=None)

    def units(self) -> int:
        """Now in UTC, in units of 100 ns since 0001-01-01, as the engine counts."""
        elapsed = self.utc() - _YEAR_ONE
        return (elapsed.days * 86_400 + elapsed.seconds) * 10_000_000 + elapsed.microseconds * 10

    def set(self, moment: datetime) -> None:
        """Jump to a moment and go on from there; one without a zone is the server's local time."""
        aware = self._aware(moment)
        with self._lock:
            self._frozen, self._shift = None, aware - datetime.now(UTC)

    def freeze(self, moment: datetime | None = None) -> None:
        """Stand still, at ``moment`` or now, until ``set``, ``shift`` or ``run``."""
        frozen = self.utc() if moment is None else self._aware(moment)
        with self._lock:
            self._frozen = frozen

    def shift(self, by: timedelta) -> None:
        """Move forward (or back); a frozen clock stays frozen at the new moment."""
        with self._lock:
            if self._frozen is None:
                self._shift += by
            else:
                self._frozen += by

    def run(self) -> None:
        """Go on from where a frozen clock stands."""
        self.set(self.utc())

    def _aware(self, moment: datetime) -> datetime:
        local = moment if moment.tzinfo else moment.replace(tzinfo=self._zone)
        return local.astimezone(UTC)


def to_ticks(local: datetime) -> int:
    """A local time as ``datetime`` stores it: 1/300 s since 1900-01-01, rounded to the nearest tick."""
    elapsed = local - _DAY_ONE
    micros = (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    return (micros * _TICKS_PER_SECOND + 500_000) // 1_000_000
