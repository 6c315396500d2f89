"""What a reconcile is about: items of work, rows that were read, and what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon


@dataclass(frozen=True, slots=True)
class ReconcileItem:
    """Name one piece of work of a run; holds no key value.

    :param cycle: the cycle of tiles that it belongs to.
    :param tile: number of the tile; None for a sample of silver's keys.
    :param bucket: for a sample, which of ``buckets`` equal parts of silver's keys is looked up.
    """

    cycle: str
    tile: int | None = None
    bucket: int = 0
    buckets: int = 1

    def to_xcom(self) -> dict[str, Any]:
        """JSON types."""
        return {"cycle": self.cycle, "tile": self.tile, "bucket": self.bucket, "buckets": self.buckets}

    @classmethod
    def from_xcom(cls, value: Mapping[str, Any]) -> ReconcileItem:
        """Read the result of :meth:`to_xcom`."""
        return cls(value["cycle"], value["tile"], value["bucket"], value["buckets"])

    @property
    def kind(self) -> str:
        """What is compared, as the report and the facts call it."""
        return "keys" if self.tile is None else "tile"

    @property
    def number(self) -> int:
        """Number of the tile, or of the part of keys."""
        return self.bucket if self.tile is None else self.tile

    @property
    def label(self) -> str:
        """For logs and the names of mapped tasks."""
        if self.tile is None:
            return f"keys of silver, part {self.bucket + 1} of {self.buckets}"
        return f"tile {self.tile}"


@dataclass(frozen=True, slots=True)
class Cycle:
    """Tiles that cover the source table, cut once, and which of them have been proven.

    :param tiles: in the server's key order.
    :param proven: numbers of the tiles that some run has compared.
    """

    name: str
    tiles: tuple[KeyRange, ...]
    proven: frozenset[int] = frozenset()

    @property
    def open_tiles(self) -> list[int]:
        return [number for number in range(len(self.tiles)) if number not in self.proven]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows of the source that wait, staged, until silver has caught up with them.

    :param read_at_lsn: L, what the reading session had passed before the first row.
    :param horizon: what the read may have seen.
    :param rows: name of the file that holds them.
    :param asked: name of the file with the keys that were looked up; None for a tile.
    :param until: H, an LSN past the horizon; None while changes have not passed it.
    """

    read_at_lsn: Lsn
    horizon: ReadHorizon
    rows: str
    asked: str | None = None
    until: Lsn | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "read_at_lsn": self.read_at_lsn.text,
            "horizon": {"lsn": self.horizon.lsn.text, "time": self.horizon.time.isoformat()},
            "rows": self.rows,
            "asked": self.asked,
            "until": None if self.until is None else self.until.text,
            "left_out": dict(self.left_out),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ReadRows:
        """Read the result of :meth:`to_json`."""
        horizon = ReadHorizon(
            Lsn.parse(value["horizon"]["lsn"]), datetime.fromisoformat(value["horizon"]["time"])
        )
        until = None if value["until"] is None else Lsn.parse(value["until"])
        return cls(
            Lsn.parse(value["read_at_lsn"]), horizon, value["rows"], value["asked"], until, value["left_out"]
        )


FAILURES = ("missing", "extra", "different", "unexplained")
"""How a key can fail, as counted in :class:`Found`, the report, the facts and the metrics."""

COUNTS = ("rows_source", "rows_silver", "equal", "moved", *FAILURES)


@dataclass(slots=True)
class Found:
    """What comparing one item found, in rows.

    :param rows_source: rows read from the source.
    :param rows_silver: rows of silver that were compared with them, or with their absence.
    :param equal: equal in every compared column; no change named their keys in the meantime.
    :param moved: keys that changes named in the meantime and that are correct on both sides.
    :param missing: keys of the source that silver lacks.
    :param extra: keys of silver that the source lacks.
    :param different: keys whose rows differ.
    :param unexplained: keys whose row in the source is no state that bronze's changes give them.
    :param columns: in how many of the differing rows each column differs.
    :param keys: some of the keys that failed, with how; hashed unless they are to be shown.
    """

    rows_source: int = 0
    rows_silver: int = 0
    equal: int = 0
    moved: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    unexplained: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    keys: list[dict[str, Any]] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.equal + self.moved + self.failed

    @property
    def failed(self) -> int:
        return sum(self.counts(FAILURES).values())

    def counts(self, names: Iterable[str] = COUNTS) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in names}
