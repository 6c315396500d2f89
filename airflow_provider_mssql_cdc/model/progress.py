"""How far a chunked snapshot is, for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from airflow_provider_mssql_cdc.model.lsn import Lsn

LoadState = Literal["none", "planning", "loading", "loaded", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at a table's load.

    :param state: ``none``: nothing was begun; ``planning``: bounds are being found; ``loading``: waves are
        missing; ``loaded``: all are there and ``complete`` is due; ``complete``.
    :param snapshot: S of the load that is spoken of: the unfinished one, else the complete one.
    :param complete_snapshot: S of the newest complete snapshot.
    :param chunks: planned so far; the total when ``state`` is not ``planning``.
    :param rows: in bronze.
    :param rows_per_second: over the last hour in which waves ended; None with fewer than two of them.
    :param expected_end: when the last wave ends at this pace; None where there is no pace.
    :param position: where the changes in bronze end.
    :param headroom_hours: before what cleanup will purge next; None where it was not asked or is not known.
    :param note: what a person should do or know, if anything.
    """

    state: LoadState
    snapshot: Lsn | None = None
    complete_snapshot: Lsn | None = None
    waves_done: int = 0
    waves: int = 0
    chunks_done: int = 0
    chunks: int = 0
    rows: int = 0
    rows_per_second: float | None = None
    expected_end: datetime | None = None
    position: Lsn | None = None
    headroom_hours: float | None = None
    note: str | None = None

    def __str__(self) -> str:
        if self.state in ("none", "planning"):
            return f"{self.state}, {self.chunks} chunk(s) planned so far"
        if not self.waves:
            return f"{self.rows:,} rows in bronze"
        pace = "" if self.rows_per_second is None else f", {self.rows_per_second:,.0f} rows/s"
        end = "" if self.expected_end is None else f", expected end {self.expected_end:%Y-%m-%d %H:%M} UTC"
        return (
            f"{self.waves_done} of {self.waves} wave(s), {self.chunks_done} of {self.chunks} chunk(s), "
            f"{self.rows:,} rows in bronze{pace}{end}"
        )

    def to_json(self) -> dict[str, Any]:
        """JSON types; LSNs as text, times ISO 8601 in UTC."""

        def text(lsn: Lsn | None) -> str | None:
            return None if lsn is None else lsn.text

        return {
            "state": self.state,
            "snapshot": text(self.snapshot),
            "complete_snapshot": text(self.complete_snapshot),
            "waves_done": self.waves_done,
            "waves": self.waves,
            "chunks_done": self.chunks_done,
            "chunks": self.chunks,
            "rows": self.rows,
            "rows_per_second": self.rows_per_second,
            "expected_end": None if self.expected_end is None else self.expected_end.isoformat(),
            "position": text(self.position),
            "headroom_hours": self.headroom_hours,
            "note": self.note,
        }
