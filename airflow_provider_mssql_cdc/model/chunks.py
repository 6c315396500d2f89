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
    """One piece of the table; ``index`` counts from 0 in the server's order and is the rows' ``_chunk``."""

    index: int
    key_range: KeyRange


@dataclass(frozen=True, slots=True)
class PlanStart:
    """What is decided before the first bound is looked for, once per S.

    :param method: ``whole``, ``arithmetic``, ``grid`` or ``keyset``.
    :param reason: for people, without a key value.
    :param chunk_rows: rows that a chunk is to have.
    :param split: hash of the split columns; a bound means nothing without them.
    :param lowest: the table's first key, measured after S; None where there is none to cut on.
    :param highest: its last key, measured after S: the last chunk ends there.
    :param rows_estimated: as the table's metadata had it.
    :param commit_ts: commit time of S (UTC), None where it is no mapped commit.
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
    """What the plans table holds of one S.

    :param bounds: inner bounds in the server's order, as far as they have been found.
    :param chunks_per_wave: of every wave but the last; None while bounds are still being looked for.
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
        """The chunks of one wave, in order."""
        each = self.chunks_per_wave or 1
        for index in range(wave * each, min((wave + 1) * each, self.chunks)):
            yield Chunk(index, self._range(index))

    def chunk_count_of(self, wave: int) -> int:
        """How many chunks a wave has; the last one may have fewer than the others."""
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
    """When a run of a chunked snapshot begins no further wave.

    :param after: the moment (UTC) from which on none is begun; None for no such moment.
    :param min_headroom_hours: the headroom below which none is begun.
    """

    after: datetime | None = None
    min_headroom_hours: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedWave:
    """One mapped task's work: some neighbouring chunks of snapshot S, or nothing.

    :param waves: of the whole plan.
    :param done: bronze holds snapshot S; there is nothing to read.
    :param more: the plan has waves that this run does not map; ``complete`` leaves them to the next run.
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
        """A small dict of JSON types; absent keys are the defaults."""
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
        """Read what :meth:`to_xcom` wrote; anything else is a ConfigurationError that says so."""
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
    """What one wave came to, now that bronze holds it.

    :param added: whether this attempt committed it; False when it was there.
    :param rows: of the wave in bronze.
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
        """A small dict of JSON types."""
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
        """Read what :meth:`to_xcom` wrote; anything else is a ConfigurationError that says so."""
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
        rate = "" if self.rows_per_second is None else f", {self.rows_per_second:,.0f} rows/s"
        end = "" if self.expected_end is None else f", expected end {self.expected_end:%Y-%m-%d %H:%M} UTC"
        return (
            f"{self.waves_done} of {self.waves} wave(s), {self.chunks_done} of {self.chunks} chunk(s), "
            f"{self.rows:,} rows in bronze{rate}{end}"
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
