"""Capture instances, targets that capture must pass, and the windows that changes are read in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """Hold one row of ``sys.sp_cdc_help_change_data_capture``; names have the catalog's spelling.

    :param start_lsn: the low endpoint, which cleanup raises.
    :param index_columns: columns of the unique index named when the table was enabled, in key order.
    :param create_date: in the server's local time.
    """

    name: str
    source_schema: str
    source_table: str
    source_object_id: int
    change_table_id: int
    start_lsn: Lsn | None
    create_date: datetime
    captured_columns: tuple[str, ...]
    index_columns: tuple[str, ...] = ()
    index_name: str | None = None
    role_name: str | None = None
    drop_pending: bool = False

    @property
    def identity(self) -> str:
        """The change table's identity: an instance that is dropped and made again has another one."""
        return f"{self.change_table_id}@{self.create_date.isoformat()}"


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """Hold what capture must pass: exactly one of an LSN, a time and a horizon.

    :param lsn: capture has processed this LSN.
    :param time: every commit before this instant (UTC) is captured.
    :param horizon: of a snapshot's reads; the rebuilt state equals the source once changes have passed it.
    """

    lsn: Lsn | None = None
    time: datetime | None = None
    horizon: ReadHorizon | None = None

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.lsn, self.time, self.horizon)) != 1:
            raise ConfigurationError("exactly one of lsn, time and consistent_after must be given")
        if self.time is not None and self.time.tzinfo is None:
            raise ConfigurationError(f"time must have a zone, got {self.time.isoformat()}")

    @classmethod
    def of(cls, *, lsn: str | None, time: datetime | str | None, consistent_after: Any) -> CaptureTarget:
        """Build a target from an operator's rendered arguments.

        :param consistent_after: the result of ``complete``, or its ``consistent_after``.
        :raises ConfigurationError: names the argument that cannot be used.
        """
        try:
            moment = datetime.fromisoformat(time) if isinstance(time, str) else time
            if moment is not None and not isinstance(moment, datetime):
                raise TypeError(f"time must be a datetime or an ISO 8601 string, got {type(moment).__name__}")
            return cls(
                lsn=None if lsn is None else Lsn.parse(lsn),
                time=moment,
                horizon=None if consistent_after is None else _horizon(consistent_after),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"the target of the wait cannot be used: {exc}") from exc

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON types."""
        if self.horizon is not None:
            return {"horizon": self.horizon.to_xcom()}
        if self.time is not None:
            return {"time": self.time.astimezone(UTC).isoformat()}
        assert self.lsn is not None
        return {"lsn": self.lsn.text}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> CaptureTarget:
        """Read the result of :meth:`to_json`."""
        return cls(
            lsn=Lsn.parse(item["lsn"]) if "lsn" in item else None,
            time=datetime.fromisoformat(item["time"]) if "time" in item else None,
            horizon=ReadHorizon.from_xcom(item["horizon"]) if "horizon" in item else None,
        )

    def __str__(self) -> str:
        if self.horizon is not None:
            after = self.horizon.consistent_after()
            return f"the snapshot's horizon, {after['lsn']} and {after['commit_time']}"
        return f"{self.time.isoformat()}" if self.time is not None else f"{self.lsn}"


def _horizon(given: Any) -> ReadHorizon:
    """Read a horizon from ``consistent_after``, whose time is one second later."""
    if not isinstance(given, Mapping):
        raise TypeError(f"consistent_after must be a dict, got {type(given).__name__}: pass complete.output")
    after = given.get("consistent_after") or given
    passed = datetime.fromisoformat(after["commit_time"])
    return ReadHorizon(Lsn.parse(after["lsn"]), passed - timedelta(seconds=1))


@dataclass(frozen=True, slots=True)
class Window:
    """Hold the LSN window ``(after, until]``; both ends are ends of whole commits, and it is never empty."""

    after: Lsn
    until: Lsn

    def __post_init__(self) -> None:
        if self.until <= self.after:
            raise ValueError(f"a window must end above its start, got ({self.after}, {self.until}]")

    def __str__(self) -> str:
        return f"({self.after}, {self.until}]"


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Count the changes of a window; an update counts once in ``updates`` and has two rows."""

    rows: int = 0
    deletes: int = 0
    inserts: int = 0
    updates: int = 0
    min_lsn: Lsn | None = None
    max_lsn: Lsn | None = None

    def plus(self, other: ChangeCounts) -> ChangeCounts:
        lows = [lsn for lsn in (self.min_lsn, other.min_lsn) if lsn is not None]
        highs = [lsn for lsn in (self.max_lsn, other.max_lsn) if lsn is not None]
        return ChangeCounts(
            rows=self.rows + other.rows,
            deletes=self.deletes + other.deletes,
            inserts=self.inserts + other.inserts,
            updates=self.updates + other.updates,
            min_lsn=min(lows, default=None),
            max_lsn=max(highs, default=None),
        )


@dataclass(frozen=True, slots=True)
class CommitStamp:
    """Hold an LSN and its commit time (UTC) as the server reported it when bronze recorded it."""

    # A restored database assigns the same LSN to another commit, at another time.

    lsn: Lsn
    time: datetime


@dataclass(frozen=True, slots=True)
class RepeatedHour:
    """Hold a period that the server's clock shows twice, because it is set back at its end.

    :param first: instant at which the first pass begins (UTC).
    :param change: instant at which the first pass ends and the second begins.
    :param second: first LSN of the second pass; None when unknown.
    """

    first: datetime
    change: datetime
    second: Lsn | None = None

    def instant_of(self, stamp: CommitStamp) -> datetime:
        """Return the instant of a commit; ``stamp.time`` was computed for the first pass."""
        repeats = self.first <= stamp.time < self.change
        if repeats and self.second is not None and stamp.lsn >= self.second:
            return stamp.time + (self.change - self.first)
        return stamp.time


@dataclass(frozen=True, slots=True)
class InstanceMark:
    """Identify the change table that was read last: its object id and creation (server's local time)."""

    change_table_id: int
    create_date: datetime


@dataclass(frozen=True, slots=True)
class ChangesState:
    """Hold the state of bronze's changes that its coverage does not.

    :param batch: number of the last commit of changes, extension or repair; 0 before the first.
    :param stamp: an LSN at or below the position with its commit time; None when unknown.
    :param instance: the instance that was read last; None before the first window.
    """

    batch: int = 0
    stamp: CommitStamp | None = None
    instance: InstanceMark | None = None
