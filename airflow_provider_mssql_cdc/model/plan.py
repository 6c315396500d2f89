"""A planned whole snapshot (run, plan id, planned ranges) and its outcome: staged files and horizons."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.key_range import KeyRange, bound_from_json, bound_to_json
from airflow_provider_mssql_cdc.model.lsn import Lsn

_PLAN_ID = re.compile(r"(0x[0-9A-F]{20})-([0-9a-f]{8})-([0-9a-f]{8})\Z")


def run_hash(dag_id: str, run_id: str) -> str:
    """Eight hex digits that name an Airflow run; fits a file name, which a run_id does not."""
    return hashlib.sha256(f"{dag_id}\n{run_id}".encode()).hexdigest()[:8]


def columns_hash(columns: tuple[tuple[str, str], ...]) -> str:
    """Eight hex digits over (name, type) pairs: two attempts agree on what the bounds are about."""
    return hashlib.sha256(repr(columns).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class PlanId:
    """S, the run that planned, and a random part: new whenever ``plan`` runs."""

    snapshot: Lsn
    run: str
    nonce: str

    @classmethod
    def new(cls, snapshot: Lsn, run: str) -> PlanId:
        return cls(snapshot, run, secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> PlanId:
        match = _PLAN_ID.match(text)
        if not match:
            raise ValueError(f"a plan id must be <LSN>-<run>-<nonce>, got {text!r}")
        return cls(Lsn.parse(match[1]), match[2], match[3])

    @property
    def text(self) -> str:
        return f"{self.snapshot.text}-{self.run}-{self.nonce}"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """One mapped task's work: a key range of a whole snapshot, or nothing when bronze holds it already.

    :param split: :func:`columns_hash` of the split columns; a bound means nothing without them.
    :param done: bronze holds snapshot S; there is nothing to read.
    :param resnapshot: S is to replace the snapshot that bronze holds.
    :param source_object: object id of the table that was planned; None in a plan of an earlier version.
    """

    plan: PlanId
    index: int
    count: int
    key_range: KeyRange = KeyRange()
    split: str = ""
    done: bool = False
    resnapshot: bool = False
    source_object: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"index must be in [0, {self.count}), got {self.index}")

    @property
    def snapshot(self) -> Lsn:
        return self.plan.snapshot

    def to_xcom(self) -> dict[str, Any]:
        """A small dict of JSON types; absent keys are the defaults."""
        item: dict[str, Any] = {
            "plan": self.plan.text,
            "snapshot": self.snapshot.text,
            "index": self.index,
            "count": self.count,
        }
        if self.key_range.lower is not None:
            item["lo"] = bound_to_json(self.key_range.lower)
        if self.key_range.upper is not None:
            item["hi"] = bound_to_json(self.key_range.upper)
        if self.split:
            item["split"] = self.split
        if self.done:
            item["done"] = True
        if self.resnapshot:
            item["resnapshot"] = True
        if self.source_object is not None:
            item["object"] = self.source_object
        return item

    @classmethod
    def from_xcom(cls, item: object) -> PlannedRange:
        """Read what :meth:`to_xcom` wrote; anything else is a ConfigurationError that says so."""
        if not isinstance(item, Mapping):
            raise ConfigurationError(
                f"key_range must be an item of a plan, got {type(item).__name__}: "
                "map the task over the plan's output, .expand(key_range=plan.output)"
            )
        try:
            return cls(
                plan=PlanId.parse(item["plan"]),
                index=int(item["index"]),
                count=int(item["count"]),
                key_range=KeyRange(bound_from_json(item.get("lo")), bound_from_json(item.get("hi"))),
                split=str(item.get("split", "")),
                done=item.get("done") is True,
                resnapshot=item.get("resnapshot") is True,
                source_object=int(item["object"]) if item.get("object") is not None else None,
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(
                f"key_range must be an item of a plan ({exc}); clear the plan task"
            ) from exc


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one task instance; a killed worker's process can still be one beside its successor.

    :param map_index: -1 for a task that is not mapped.
    :param nonce: random, so that no two attempts ever stage a file of the same name.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    nonce: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def run(self) -> str:
        """Eight hex digits that name the Airflow run."""
        return run_hash(self.dag_id, self.run_id)

    @property
    def label(self) -> str:
        """What the names of this attempt's files hold: ``a2-9f03bc``."""
        return f"a{self.try_number}-{self.nonce}"


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
                f"staged must hold what reads return, got {type(item).__name__}: pass staged=read.output"
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
            raise ConfigurationError(f"staged must hold what reads return ({exc})") from exc
