"""What a mapped task staged: files that nobody sees until ``complete`` commits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file in the table's folder that no commit names yet.

    :param path: relative to the table's root.
    :param size: bytes.
    :param rows: as its footer counts them.
    """

    path: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class ReadHorizon:
    """What the server said after a read's last row: its max LSN and its clock (UTC).

    Rows may be newer than their stamp up to this point, and no newer.
    """

    lsn: Lsn
    time: datetime

    def to_xcom(self) -> dict[str, str]:
        return {"lsn": self.lsn.text, "time": self.time.astimezone(UTC).isoformat()}

    @classmethod
    def from_xcom(cls, item: Mapping[str, str]) -> ReadHorizon:
        return cls(Lsn.parse(item["lsn"]), datetime.fromisoformat(item["time"]))

    def consistent_after(self) -> dict[str, str]:
        """What changes have to pass: an entry above ``lsn`` with a commit time above ``commit_time``.

        One second is added, since a commit time is rounded and the clock was read before it.
        """
        passed = (self.time + timedelta(seconds=1)).astimezone(UTC)
        return {"lsn": self.lsn.text, "commit_time": passed.isoformat()}

    def merged(self, other: ReadHorizon) -> ReadHorizon:
        """The later one of both, in either respect."""
        return ReadHorizon(max(self.lsn, other.lsn), max(self.time, other.time))


@dataclass(frozen=True, slots=True)
class StagedRange:
    """The outcome of one :class:`PlannedRange`: its files, or nothing when bronze held the snapshot."""

    plan: PlanId
    index: int
    count: int
    rows: int = 0
    files: tuple[StagedFile, ...] = ()
    horizon: ReadHorizon | None = None
    done: bool = False
    resnapshot: bool = False
    source_object: int | None = None

    @property
    def snapshot(self) -> Lsn:
        return self.plan.snapshot

    @classmethod
    def nothing(cls, planned: PlannedRange) -> StagedRange:
        """The outcome when bronze holds this snapshot, or a newer one, already."""
        return cls(planned.plan, planned.index, planned.count, done=True, resnapshot=planned.resnapshot)

    def to_xcom(self) -> dict[str, Any]:
        """A small dict of JSON types; it holds no key value and no statistics."""
        item: dict[str, Any] = {
            "plan": self.plan.text,
            "snapshot": self.snapshot.text,
            "index": self.index,
            "count": self.count,
            "rows": self.rows,
            "files": [[file.path, file.size, file.rows] for file in self.files],
        }
        if self.horizon is not None:
            item["after"] = self.horizon.to_xcom()
        if self.done:
            item["done"] = True
        if self.resnapshot:
            item["resnapshot"] = True
        if self.source_object is not None:
            item["object"] = self.source_object
        return item

    @classmethod
    def from_xcom(cls, item: object) -> StagedRange:
        """Read what :meth:`to_xcom` wrote; anything else is a ConfigurationError that says so."""
        if not isinstance(item, Mapping):
            raise ConfigurationError(
                f"staged holds {type(item).__name__}, not the outcome of a read: pass staged=read.output"
            )
        try:
            return cls(
                plan=PlanId.parse(item["plan"]),
                index=int(item["index"]),
                count=int(item["count"]),
                rows=int(item["rows"]),
                files=tuple(StagedFile(str(path), int(size), int(n)) for path, size, n in item["files"]),
                horizon=ReadHorizon.from_xcom(item["after"]) if item.get("after") else None,
                done=item.get("done") is True,
                resnapshot=item.get("resnapshot") is True,
                source_object=int(item["object"]) if item.get("object") is not None else None,
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"staged holds something that no read returned ({exc})") from exc
