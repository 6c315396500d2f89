"""A chunked snapshot's plan as it is stored: how it began, its bounds so far, and its waves at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

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
            raise ValueError(f"chunk_rows is at least 1, got {self.chunk_rows}")


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
            raise ValueError(f"a wave has at least one chunk, got {self.chunks_per_wave}")

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
