"""A chunked snapshot: chunks, stored plan, planned waves, progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold one piece of a table; ``index`` counts from 0 in the server's order (stored as ``_chunk``)."""

    index: int
    key_range: KeyRange


@dataclass(frozen=True, slots=True)
class PlanStart:
    """Hold the decisions made once per snapshot S, before the first bound is searched.

    :param method: ``whole``, ``arithmetic``, ``grid`` (counted slices) or ``keyset``.
    :param reason: for logs and facts, without a key value.
    :param chunk_rows: target rows per chunk.
    :param split: hash of the split columns that the bounds belong to.
    :param lowest: the table's first key, read after S; None when there is no key to cut on.
    :param highest: its last key, read after S; the last chunk ends there.
    :param rows_estimated: row count in the table's metadata.
    :param commit_ts: commit time of S (UTC); None when the server has none for S.
    """

    snapshot: Lsn
    method: str
    reason: str
    chunk_rows: int
    split: str = ""
    lowest: Bound | None = None
    highest: Bound | None = None
    rows_estimated: int | None = None
    commit_ts: datetime | None = None

    def __post_init__(self) -> None:
        if self.chunk_rows < 1:
            raise ValueError(f"chunk_rows must be >= 1, got {self.chunk_rows}")


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """Hold the plan of one snapshot S, as the plans table stores it.

    :param bounds: inner bounds found so far, in the server's order.
    :param chunks_per_wave: of every wave but the last; None while bounds are still being searched.
    """

    start: PlanStart
    bounds: tuple[Bound, ...] = ()
    chunks_per_wave: int | None = None

    def __post_init__(self) -> None:
        if self.chunks_per_wave is not None and self.chunks_per_wave < 1:
            raise ValueError(f"chunks_per_wave must be >= 1, got {self.chunks_per_wave}")

    @property
    def snapshot(self) -> Lsn:
        return self.start.snapshot

    @property
    def is_finished(self) -> bool:
        return self.chunks_per_wave is not None

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1

    @property
    def waves(self) -> int:
        return -(-self.chunks // (self.chunks_per_wave or 1))

    def chunks_of(self, wave: int) -> Iterator[Chunk]:
        """Yield the chunks of one wave, in order."""
        each = self.chunks_per_wave or 1
        for index in range(wave * each, min((wave + 1) * each, self.chunks)):
            yield Chunk(index, self._range(index))

    def chunk_count_of(self, wave: int) -> int:
        """Return how many chunks a wave has; the last wave may have fewer than the others."""
        each = self.chunks_per_wave or 1
        return min((wave + 1) * each, self.chunks) - wave * each

    def _range(self, index: int) -> KeyRange:
        lower = self.bounds[index - 1] if index else None
        if index < len(self.bounds):
            return KeyRange(lower, self.bounds[index])
        highest = self.start.highest
        return KeyRange(lower, highest, closed=highest is not None)


@dataclass(frozen=True, slots=True)
class StopEarly:
    """Hold the limits after which a run of a chunked snapshot begins no further wave.

    :param after: instant (UTC) after which no wave begins; None for no limit.
    :param min_headroom_hours: retention headroom below which no wave begins; None for no limit.
    """

    after: datetime | None = None
    min_headroom_hours: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedWave:
    """Hold one mapped task's work: neighbouring chunks of snapshot S, or nothing.

    :param waves: number of waves of the whole plan.
    :param done: bronze already holds snapshot S; nothing is read.
    :param more: the plan has waves that this run does not map; the next run maps them.
    """

    snapshot: Lsn
    wave: int
    waves: int
    done: bool = False
    more: bool = False
    stop: StopEarly = StopEarly()

    def __post_init__(self) -> None:
        if not 0 <= self.wave < self.waves:
            raise ValueError(f"wave must be in [0, {self.waves}), got {self.wave}")

    def to_xcom(self) -> dict[str, Any]:
        """Return a small dict of JSON types; absent keys mean the defaults."""
        item: dict[str, Any] = {"snapshot": self.snapshot.text, "wave": self.wave, "waves": self.waves}
        if self.done:
            item["done"] = True
        if self.more:
            item["more"] = True
        if self.stop.after is not None:
            item["stop_after"] = self.stop.after.astimezone(UTC).isoformat()
        if self.stop.min_headroom_hours is not None:
            item["min_headroom_hours"] = self.stop.min_headroom_hours
        return item

    @classmethod
    def from_xcom(cls, item: object) -> PlannedWave:
        """Read the result of :meth:`to_xcom`.

        :raises ConfigurationError: the item is something else.
        """
        if not isinstance(item, Mapping):
            raise ConfigurationError(
                f"wave must be an item of a plan, got {type(item).__name__}: "
                "map the task over the plan's output, .expand(wave=plan.output)"
            )
        if "wave" not in item and "plan" in item:
            raise ConfigurationError(
                "wave must be an item of a chunked plan, got a key range of a whole snapshot: give the plan "
                'mode="chunked", or map '
                "MssqlCdcSnapshotOperator over it"
            )
        try:
            after, hours = item.get("stop_after"), item.get("min_headroom_hours")
            return cls(
                snapshot=Lsn.parse(item["snapshot"]),
                wave=int(item["wave"]),
                waves=int(item["waves"]),
                done=item.get("done") is True,
                more=item.get("more") is True,
                stop=StopEarly(
                    None if after is None else datetime.fromisoformat(after),
                    None if hours is None else float(hours),
                ),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"wave must be an item of a plan ({exc}); clear the plan task") from exc


@dataclass(frozen=True, slots=True)
class WaveOutcome:
    """Hold the result of a wave that bronze now holds.

    :param added: whether this attempt committed it; False when bronze held it before.
    :param rows: rows of the wave in bronze.
    """

    snapshot: Lsn
    wave: int
    waves: int
    rows: int = 0
    added: bool = False
    done: bool = False
    more: bool = False

    @classmethod
    def of(cls, planned: PlannedWave, *, rows: int = 0, added: bool = False) -> WaveOutcome:
        return cls(
            planned.snapshot, planned.wave, planned.waves, rows, added, done=planned.done, more=planned.more
        )

    def to_xcom(self) -> dict[str, Any]:
        """Return a small dict of JSON types."""
        return {
            "snapshot": self.snapshot.text,
            "wave": self.wave,
            "waves": self.waves,
            "rows": self.rows,
            "added": self.added,
            "done": self.done,
            "more": self.more,
        }

    @classmethod
    def from_xcom(cls, item: object) -> WaveOutcome:
        """Read the result of :meth:`to_xcom`.

        :raises ConfigurationError: the item is something else.
        """
        if not isinstance(item, Mapping):
            raise ConfigurationError(
                f"staged must hold what waves return, got {type(item).__name__}: pass staged=chunk.output"
            )
        try:
            return cls(
                snapshot=Lsn.parse(item["snapshot"]),
                wave=int(item["wave"]),
                waves=int(item["waves"]),
                rows=int(item["rows"]),
                added=item.get("added") is True,
                done=item.get("done") is True,
                more=item.get("more") is True,
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"staged must hold what waves return ({exc})") from exc


LoadState = Literal["none", "planning", "loading", "loaded", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Hold the progress of a table's load.

    :param state: ``none``: not started; ``planning``: bounds are being searched; ``loading``: waves are
        missing; ``loaded``: bronze holds all waves and ``complete`` has to run; ``complete``.
    :param snapshot: S of the unfinished load, else of the complete snapshot.
    :param complete_snapshot: S of the newest complete snapshot.
    :param chunks: planned so far; the total when ``state`` is not ``planning``.
    :param rows: rows in bronze.
    :param rows_per_second: over the last hour in which waves ended; None for fewer than two waves.
    :param expected_end: when the last wave ends at this rate (UTC); None without a rate.
    :param position: LSN at which the changes in bronze end.
    :param headroom_hours: hours until cleanup purges changes after the position; None when unknown.
    :param note: an action or a risk, if there is one.
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
        rate = "" if self.rows_per_second is None else f", {self.rows_per_second:,.0f} rows/s"
        end = "" if self.expected_end is None else f", expected end {self.expected_end:%Y-%m-%d %H:%M} UTC"
        return (
            f"{self.waves_done} of {self.waves} wave(s), {self.chunks_done} of {self.chunks} chunk(s), "
            f"{self.rows:,} rows in bronze{rate}{end}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON types; LSNs as hex strings, times in ISO 8601, UTC."""

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
