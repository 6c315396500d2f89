"""The error that a task ended with, as it is stored next to what the task returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KEY = "mssql_cdc_error"
"""XCom key. Airflow removes a task's XComs when its next try begins."""

MESSAGE_CHARACTERS = 4_000
"""Longer messages are cut: an XCom is a row of Airflow's database, and the task's log has the whole text."""


@dataclass(frozen=True, slots=True)
class TaskError:
    """One failure.

    :param error: name of the error class.
    :param message: what happened, where, and what to do next.
    :param subject: what the task works on, as messages call it.
    :param bronze: canonical path or URI of the table's bronze; None for a task of several tables.
    :param facts: that of its facts table, None without one.
    """

    error: str
    message: str
    subject: str = ""
    bronze: str | None = None
    facts: str | None = None

    @classmethod
    def of(cls, exc: Exception, **known: str | None) -> TaskError:
        """Describe an exception; ``known`` are the other fields."""
        text = str(exc)
        cut = text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 1] + "…"
        return cls(type(exc).__name__, cut, **known)  # type: ignore[arg-type] # subject is a string

    def to_xcom(self) -> dict[str, Any]:
        """JSON types."""
        return asdict(self)

    @classmethod
    def from_xcom(cls, value: object) -> TaskError | None:
        """Read the result of :meth:`to_xcom`; None for anything else that stands under the key."""
        if not isinstance(value, Mapping) or set(value) != set(cls.__dataclass_fields__):
            return None
        if not all(isinstance(value[name], str) for name in ("error", "message", "subject")):
            return None
        if not all(isinstance(value[name], str | None) for name in ("bronze", "facts")):
            return None
        return cls(**value)
