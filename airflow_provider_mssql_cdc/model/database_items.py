"""What the tasks of a whole database hand to each other: items to map over, and what became of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_mssql_cdc.errors import ConfigurationError

Kind = Literal["pack", "alone", "range", "wave", "cut", "nothing"]
_LONGEST_MESSAGE = 1500


def new_plan_id() -> str:
    """Eight hex digits, new whenever ``plan`` runs: Airflow keeps results of items that are no more."""
    return secrets.token_hex(4)


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as an item names it.

    :param name: ``schema.table``.
    :param instance: its capture instance; None for the one that is named as CDC does by default.
    :param resnapshot: a new snapshot is asked for.
    """

    name: str
    instance: str | None = None
    resnapshot: bool = False

    def to_xcom(self) -> str | list[Any]:
        if self.instance is None and not self.resnapshot:
            return self.name
        return [self.name, self.instance, self.resnapshot]

    @classmethod
    def from_xcom(cls, item: Any) -> TableRef:
        if isinstance(item, str):
            return cls(item)
        try:
            name, instance, resnapshot = item
            return cls(str(name), None if instance is None else str(instance), resnapshot is True)
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f"not a table of a plan: {item!r}; clear the plan task") from exc


@dataclass(frozen=True, slots=True)
class ReadItem:
    """One mapped task of ``read``.

    :param plan: id of the plan that it belongs to.
    :param number: its place in the plan, which is its map index.
    :param work: of a range or a wave: the item of the single-table operator.
    """

    plan: str
    number: int
    kind: Kind
    tables: tuple[TableRef, ...] = ()
    work: Mapping[str, Any] | None = None

    def to_xcom(self) -> dict[str, Any]:
        """JSON types; absent keys are the defaults."""
        item: dict[str, Any] = {"plan": self.plan, "item": self.number, "kind": self.kind}
        if self.tables:
            item["tables"] = [table.to_xcom() for table in self.tables]
        if self.work is not None:
            item["work"] = dict(self.work)
        return item

    @classmethod
    def from_xcom(cls, item: object) -> ReadItem:
        """:raises ConfigurationError: it is not an item of a plan."""
        if not isinstance(item, Mapping):
            raise ConfigurationError(
                f"item must be one of plan's, got {type(item).__name__}: .expand(item=plan.output)"
            )
        try:
            return cls(
                plan=str(item["plan"]),
                number=int(item["item"]),
                kind=item["kind"],
                tables=tuple(map(TableRef.from_xcom, item.get("tables", ()))),
                work=item.get("work"),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise ConfigurationError(f"item is not one of plan's ({exc}); clear the plan task") from exc

    @property
    def names(self) -> list[str]:
        return [table.name for table in self.tables]


@dataclass(frozen=True, slots=True)
class ToComplete:
    """A table whose ranges or waves several items of ``read`` bring.

    :param items: their numbers.
    """

    table: TableRef
    items: tuple[int, ...]
    chunked: bool = False

    def to_xcom(self) -> dict[str, Any]:
        return {"table": self.table.to_xcom(), "items": list(self.items), "chunked": self.chunked}

    @classmethod
    def from_xcom(cls, item: Mapping[str, Any]) -> ToComplete:
        return cls(TableRef.from_xcom(item["table"]), tuple(item["items"]), item.get("chunked") is True)


@dataclass(frozen=True, slots=True)
class TableFailure:
    """Why a table's work failed: the class of the error, and what it says, with the remedy.

    :param retryable: another attempt may succeed without anybody doing anything.
    """

    error: str
    message: str
    retryable: bool = False

    @classmethod
    def of(cls, exc: BaseException) -> TableFailure:
        """An error of this package says whether it is retryable; of any other it is not known, so it is."""
        retryable = getattr(exc, "retryable", True)
        message = str(exc) or type(exc).__name__
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 1] + "…"
        return cls(type(exc).__name__, message, bool(retryable))

    def to_xcom(self) -> dict[str, Any]:
        return {"error": self.error, "message": self.message, "retryable": self.retryable}

    @classmethod
    def from_xcom(cls, item: Mapping[str, Any]) -> TableFailure:
        return cls(str(item["error"]), str(item["message"]), item.get("retryable") is True)


@dataclass(frozen=True, slots=True)
class Announcement:
    """Rows of a Delta table that this run has committed: its canonical URI, and the event's ``extra``."""

    uri: str
    extra: Mapping[str, Any]


@dataclass(slots=True)
class PackOutcome:
    """What became of the tables of one mapped task.

    :param tables: by name, what was done; small dicts of JSON types.
    :param staged: of a range or a wave: the outcome that ``complete`` takes.
    """

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, TableFailure] = field(default_factory=dict)
    announcements: list[Announcement] = field(default_factory=list)
    staged: dict[str, Any] | None = None

    @property
    def retryable(self) -> list[str]:
        """Names of the tables that another attempt may bring."""
        return [name for name, failure in self.failures.items() if failure.retryable]

    def to_xcom(self, *, plan: str | None, item: int) -> dict[str, Any]:
        """Found again by the plan's id and the item's number, never by its place among the results."""
        found: dict[str, Any] = {"plan": plan, "item": item, "tables": self.tables}
        found["failures"] = {name: failure.to_xcom() for name, failure in self.failures.items()}
        if self.staged is not None:
            found["staged"] = self.staged
        return found


@dataclass(frozen=True, slots=True)
class DatabasePlan:
    """What one run does.

    :param read: items to map over; never empty.
    :param complete: per slot, the tables that it completes.
    :param follow: per slot, the tables that it follows.
    :param failures: by table or pattern, what keeps it from being loaded; nobody waits for it.
    :param waiting: tables that are loaded by a later run.
    :param untracked: tables that were loaded once and that CDC tracks no more, with their bronze.
    :param tables: how many tables the patterns choose.
    """

    plan: str
    read: tuple[ReadItem, ...]
    complete: tuple[tuple[ToComplete, ...], ...]
    follow: tuple[tuple[TableRef, ...], ...]
    failures: Mapping[str, TableFailure]
    waiting: tuple[str, ...]
    untracked: Mapping[str, str]
    tables: int

    def summary(self) -> dict[str, Any]:
        """What ``report`` receives besides the items; JSON types."""
        return {
            "plan": self.plan,
            "tables": self.tables,
            "read": len(self.read),
            "failures": {name: failure.to_xcom() for name, failure in self.failures.items()},
            "waiting": list(self.waiting),
            "untracked": dict(self.untracked),
        }

    def complete_slots(self) -> Iterable[dict[str, Any]]:
        """One XCom per slot."""
        return [{"plan": self.plan, "tables": [one.to_xcom() for one in slot]} for slot in self.complete]

    def follow_slots(self) -> Iterable[dict[str, Any]]:
        """One XCom per slot."""
        return [{"plan": self.plan, "tables": [one.to_xcom() for one in slot]} for slot in self.follow]
