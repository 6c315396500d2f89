"""A wave of chunks: what travels to its mapped task and back. Bounds stay in the plans table.

Everything is JSON, a few hundred bytes per wave, whatever the key and however many chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class StopEarly:
    """When a run of a chunked snapshot begins no further wave.

    :param after: the moment (UTC) from which on none is begun; None for no such moment.
    :param min_headroom_hours: the headroom below which none is begun.
    """

    after: datetime | None = None
    min_headroom_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run that ends early and cleanly: nothing is wrong, and the next one goes on. Why, for people."""

    reason: str


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
            raise ValueError(f"wave {self.wave} of {self.waves} does not exist")

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
                f"wave is {type(item).__name__}, not an item of a plan: "
                "map the task over the plan's output, .expand(wave=plan.output)"
            )
        if "wave" not in item and "plan" in item:
            raise ConfigurationError(
                'wave is a key range of a whole snapshot: give the plan mode="chunked", or map '
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
            raise ConfigurationError(f"wave is not an item of a plan ({exc}); clear the plan task") from exc


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
                f"staged holds {type(item).__name__}, not the outcome of a wave: pass staged=chunk.output"
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
            raise ConfigurationError(f"staged holds something that no wave returned ({exc})") from exc
