"""The one table that a run prints, and how a figure is put beside its floor and its aim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    :param part: the benchmark it belongs to.
    :param what: what was measured.
    :param value: the median.
    :param unit: of ``value``, ``floor`` and ``aim``.
    :param floor: what it has to reach; None for information.
    :param aim: what it should reach.
    :param better: which direction is better, when there is a floor or an aim.
    :param note: spread, number of runs, conditions.
    """

    part: str
    what: str
    value: float
    unit: str
    floor: float | None = None
    aim: float | None = None
    better: Better = "higher"
    note: str = ""

    @property
    def verdict(self) -> str:
        """``aim``, ``floor``, ``yes`` (there is no aim) or ``BELOW FLOOR``; empty for information."""
        if self.floor is None and self.aim is None:
            return ""
        if self._reaches(self.aim):
            return "aim"
        if self._reaches(self.floor):
            return "floor" if self.aim is not None else "yes"
        return "BELOW FLOOR"

    def _reaches(self, mark: float | None) -> bool:
        if mark is None:
            return False
        return self.value >= mark if self.better == "higher" else self.value <= mark


HEADINGS = ("part", "what", "median", "unit", "floor", "aim", "reached", "note")


def table(rows: Iterable[Row]) -> str:
    """All rows under one heading, columns aligned."""
    cells = [HEADINGS, *map(_cells, rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(HEADINGS))]
    lines = [_line(line, widths) for line in cells]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    numbers = {2, 4, 5}
    padded = [
        cell.rjust(width) if index in numbers else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.part,
        row.what,
        number(row.value),
        row.unit,
        "" if row.floor is None else number(row.floor),
        "" if row.aim is None else number(row.aim),
        row.verdict,
        row.note,
    )


def number(value: float) -> str:
    """Three digits that matter; thousands in groups."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
