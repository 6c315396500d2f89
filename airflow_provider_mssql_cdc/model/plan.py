"""A planned whole snapshot (run, plan id, planned ranges) and its result: staged files and horizons."""

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
    """Return eight hex digits that identify an Airflow run; a run_id may not fit a file name."""
    return hashlib.sha256(f"{dag_id}\n{run_id}".encode()).hexdigest()[:8]


def columns_hash(columns: tuple[tuple[str, str], ...]) -> str:
    """Return eight hex digits over (name, type) pairs, to check that bounds belong to these columns."""
    return hashlib.sha256(repr(columns).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class PlanId:
    """Identify a plan: S, the Airflow run, and a random part, new for each attempt of ``plan``."""

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
    """Hold one mapped task's work: a key range of a whole snapshot, or nothing.

    :param split: :func:`columns_hash` of the split columns that the bounds belong to.
    :param done: bronze already holds snapshot S; nothing is read.
    :param resnapshot: S replaces the snapshot that bronze holds.
    :param source_object: object id of the planned table; None in a plan of an earlier version.
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
        """Return a small dict of JSON types; absent keys mean the defaults."""
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
        return {**item, **_marks(self)}

    @classmethod
    def from_xcom(cls, item: object) -> PlannedRange:
        """Read the result of :meth:`to_xcom`.

        :raises ConfigurationError: the item is something else.
        """
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
                **_marks_of(item),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(
                f"key_range must be an item of a plan ({exc}); clear the plan task"
            ) from exc


@dataclass(frozen=True, slots=True)
class Attempt:
    """Identify one try of one task instance.

    :param map_index: -1 for a task that is not mapped.
    :param nonce: random, so that no two attempts stage a file of the same name.
    """

    # The try number alone is not unique: the process of a killed worker may still run next to its successor.

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    nonce: str = field(default_factory=lambda: secrets.token_hex(3))

    @property
    def run(self) -> str:
        """Eight hex digits that identify the Airflow run."""
        return run_hash(self.dag_id, self.run_id)

    @property
    def label(self) -> str:
        """The part of staged file names for this attempt: ``a2-9f03bc``."""
        return f"a{self.try_number}-{self.nonce}"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Hold a Parquet file in the table's folder that no commit names yet.

    :param path: relative to the table's root.
    :param size: bytes.
    :param rows: row count of the footer.
    """

    path: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class ReadHorizon:
    """Hold the server's max LSN and clock (UTC) after a read's last row: no row read is newer."""

    # Rows are stamped with S, which was recorded before the read, but may be as new as the end of the read.

    lsn: Lsn
    time: datetime

    def to_xcom(self) -> dict[str, str]:
        return {"lsn": self.lsn.text, "time": self.time.astimezone(UTC).isoformat()}

    @classmethod
    def from_xcom(cls, item: Mapping[str, str]) -> ReadHorizon:
        return cls(Lsn.parse(item["lsn"]), datetime.fromisoformat(item["time"]))

    def consistent_after(self) -> dict[str, str]:
        """Return what changes must pass: a commit above ``lsn`` and after ``commit_time``."""
        # One second is added: commit times are rounded, and the clock was read before them.
        passed = (self.time + timedelta(seconds=1)).astimezone(UTC)
        return {"lsn": self.lsn.text, "commit_time": passed.isoformat()}

    def merged(self, other: ReadHorizon) -> ReadHorizon:
        """Return the larger LSN and the later time of both."""
        return ReadHorizon(max(self.lsn, other.lsn), max(self.time, other.time))


@dataclass(frozen=True, slots=True)
class StagedRange:
    """Hold the result of one :class:`PlannedRange`: its files, or none when bronze held the snapshot."""

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
        """Return the result for a range that was not read, since bronze holds this or a newer snapshot."""
        return cls(planned.plan, planned.index, planned.count, done=True, resnapshot=planned.resnapshot)

    def to_xcom(self) -> dict[str, Any]:
        """Return a small dict of JSON types, without key values and statistics."""
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
        return {**item, **_marks(self)}

    @classmethod
    def from_xcom(cls, item: object) -> StagedRange:
        """Read the result of :meth:`to_xcom`.

        :raises ConfigurationError: the item is something else.
        """
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
                **_marks_of(item),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"staged must hold what reads return ({exc})") from exc


def _marks(one: PlannedRange | StagedRange) -> dict[str, Any]:
    """Return what a range carries from its plan to its outcome; absent keys mean the defaults."""
    marks: dict[str, Any] = {}
    if one.done:
        marks["done"] = True
    if one.resnapshot:
        marks["resnapshot"] = True
    if one.source_object is not None:
        marks["object"] = one.source_object
    return marks


def _marks_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Read the result of :func:`_marks`."""
    return {
        "done": item.get("done") is True,
        "resnapshot": item.get("resnapshot") is True,
        "source_object": int(item["object"]) if item.get("object") is not None else None,
    }
