"""How fast waves come, from when each of them had been read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """A wave that is in bronze: when its read ended, and what it brought."""

    time: datetime
    rows: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Over the last hour in which waves ended; times in which no run was at work fall out with it."""

    rows_per_second: float
    chunks_per_second: float

    def end(self, *, since: datetime, chunks: int) -> datetime | None:
        """When this many further chunks are there; None at no pace at all."""
        if self.chunks_per_second <= 0:
            return None
        return since + timedelta(seconds=chunks / self.chunks_per_second)


def pace_of(ends: Sequence[WaveEnd]) -> Pace | None:
    """None with fewer than two waves, or with two at one moment."""
    if not ends:
        return None
    newest = max(end.time for end in ends)
    recent = sorted((end for end in ends if end.time >= newest - _WINDOW), key=lambda end: end.time)
    seconds = (newest - recent[0].time).total_seconds()
    if seconds <= 0:
        return None
    later = recent[1:]
    return Pace(sum(end.rows for end in later) / seconds, sum(end.chunks for end in later) / seconds)
