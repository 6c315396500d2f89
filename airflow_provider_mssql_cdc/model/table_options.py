"""How the jobs of one table of a database are done: arguments of the single-table operators, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How one table is loaded and followed; the names are those of the single-table operators' arguments.

    :param mode: ``"whole"``, or ``"chunked"`` for a table that takes longer than CDC's retention.
    :param wait_consistent: leave silver alone while it would be a mixture of two moments.
    :param min_changed_share: leave silver alone while fewer change rows than this share of its rows wait.
    :param max_delay_seconds: merge them in any case once the oldest has waited that long, in seconds.
    """

    mode: str = "whole"
    max_ranges: int = 256
    rows_per_range: int = 1_000_000
    chunk_rows: int = 1_000_000
    max_waves: int = 256
    chunks_per_wave: int | None = None
    max_seconds: int | None = None
    min_headroom_hours: float | None = None
    wait_seconds: int = 600
    verify_counts: bool = False
    max_commits: int | None = None
    new_columns: str | None = None
    quiet_seconds: int = 3600
    wait_consistent: bool = False
    min_changed_share: float = 0.0
    max_delay_seconds: int = 3600

    def problems(self) -> list[str]:
        """One sentence for each value that cannot be used."""
        return [
            f"{described.name} {problem}"
            for described in fields(self)
            if (problem := _OPTION_CHECKS[described.name](getattr(self, described.name)))
        ]

    @property
    def is_chunked(self) -> bool:
        return self.mode == "chunked"


def _whole_number(least: int, *, optional: bool = False) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None and optional:
            return None
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if good else f"must be an integer >= {least}, got {value!r}"

    return check


def _one_of(*choices: str | None) -> Callable[[Any], str | None]:
    return lambda value: None if value in choices else f"must be one of {choices}, got {value!r}"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"must be True or False, got {value!r}"


def _share(value: Any) -> str | None:
    good = value is not None and _number(value) is None and value <= 1
    return None if good else f"must be a number from 0 to 1, got {value!r}"


def _number(value: Any) -> str | None:
    good = value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
    return None if good else f"must be a number >= 0, got {value!r}"


_OPTION_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "mode": _one_of("whole", "chunked"),
    "max_ranges": _whole_number(1),
    "rows_per_range": _whole_number(1),
    "chunk_rows": _whole_number(1),
    "max_waves": _whole_number(1),
    "chunks_per_wave": _whole_number(1, optional=True),
    "max_seconds": _whole_number(1, optional=True),
    "min_headroom_hours": _number,
    "wait_seconds": _whole_number(0),
    "verify_counts": _flag,
    "max_commits": _whole_number(1, optional=True),
    "new_columns": _one_of(None, "null"),
    "quiet_seconds": _whole_number(0),
    "wait_consistent": _flag,
    "min_changed_share": _share,
    "max_delay_seconds": _whole_number(0),
}
