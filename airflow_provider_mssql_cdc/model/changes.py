"""Values of reading changes: a window of the log, what it held, and what bronze remembers of the last one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Window:
    """Changes with a commit LSN in ``(after, until]``; both ends are ends of whole commits, never empty."""

    after: Lsn
    until: Lsn

    def __post_init__(self) -> None:
        if self.until <= self.after:
            raise ValueError(f"a window of changes ends above its start, got ({self.after}, {self.until}]")

    def __str__(self) -> str:
        return f"({self.after}, {self.until}]"


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a window held; an update counts once in ``updates`` and has two rows."""

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
    """An LSN and the time it was committed (UTC), as the server told when bronze recorded it.

    A restored database gives an LSN out again, for another commit at another time.
    """

    lsn: Lsn
    time: datetime


@dataclass(frozen=True, slots=True)
class RepeatedHour:
    """A stretch that the server's clock shows twice, since it is set back at the end of the first pass.

    :param first: instant at which the first pass begins (UTC).
    :param change: at which it ends and the second one begins.
    :param second: from which LSN on commits are of the second pass; None where nothing tells.
    """

    first: datetime
    change: datetime
    second: Lsn | None = None

    def instant_of(self, stamp: CommitStamp) -> datetime:
        """When it was committed; ``stamp.time`` is read as of the first pass."""
        repeats = self.first <= stamp.time < self.change
        if repeats and self.second is not None and stamp.lsn >= self.second:
            return stamp.time + (self.change - self.first)
        return stamp.time


@dataclass(frozen=True, slots=True)
class InstanceMark:
    """Which change table was read last: its object id and when it was made (server's local clock)."""

    change_table_id: int
    create_date: datetime


@dataclass(frozen=True, slots=True)
class ChangesState:
    """What bronze remembers of the changes in it, beside their coverage.

    :param batch: number of the last commit of changes, extension or repair; 0 before the first.
    :param stamp: an LSN at or below the position with its commit time; None when none was known.
    :param instance: the instance that was read last; None before the first window.
    """

    batch: int = 0
    stamp: CommitStamp | None = None
    instance: InstanceMark | None = None
