"""Judge one key of a reconcile: the row read from the source, silver's row, and the changes between them.

The state rule is written here a second time, from its text in docs/guarantees.md: a check that shared the
code of a merge (planning/merge.py, lake/silver) would confirm whatever that code does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

Row = tuple[Any, ...]
"""The compared columns of one row, in their order."""

Kind = Literal["missing", "extra", "different", "unexplained"]
"""Not in silver; not in the source; other values; or a row of the source that no change explains."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change of a key in bronze.

    :param commit: LSN of its commit, as text.
    :param operation: 1 delete, 2 insert, 3 before-image, 4 after-image.
    :param image: the compared columns.
    """

    commit: str
    command: int | None
    seqval: str | None
    operation: int
    image: Row

    @property
    def order(self) -> tuple[str, bool, int, bool, str, int]:
        """NULLs first, as bronze orders the changes of a commit."""
        return (
            self.commit,
            self.command is not None,
            self.command or 0,
            self.seqval is not None,
            self.seqval or "",
            self.operation,
        )

    @property
    def adds(self) -> bool:
        return self.operation in (2, 4)


@dataclass(frozen=True, slots=True)
class Possible:
    """A row that a key may have.

    :param whole: False for a before-image, which lacks large objects.
    """

    # Microsoft Learn, "cdc.<capture_instance>_CT": a large object is NULL in a before-image unless the update
    # changed it.

    image: Row
    whole: bool = True


States = frozenset[Possible | None]
"""What a key may be; None is no row."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge the keys of one table.

    :param large: positions of the columns that before-images lack.
    """

    large: frozenset[int] = frozenset()

    def states(self, changes: Iterable[ChangeRow]) -> list[tuple[str, States]]:
        """What the key may be before its first commit (with LSN ``""``), and after each one.

        :param changes: of one key, in any order.
        """
        ordered = sorted(changes, key=lambda change: change.order)
        commits = [(lsn, list(_each_once(rows))) for lsn, rows in groupby(ordered, lambda row: row.commit)]
        if not commits:
            return []
        states = _before(commits[0][1])
        played = [("", states)]
        for lsn, rows in commits:
            states = self._after(rows, states)
            played.append((lsn, states))
        return played

    def _after(self, rows: Sequence[ChangeRow], before: States) -> States:
        added = [row for row in rows if row.adds]
        removed = [row for row in rows if not row.adds]
        there: States = frozenset([Possible(added[-1].image)] if added else [])
        if rows[-1].adds or len(added) > len(removed):
            return there
        if len(added) < len(removed):
            return frozenset([None])
        if self._small(added[-1].image) != self._small(removed[-1].image):
            return there  # the image that was removed last was another row's
        return frozenset(None if state is None else Possible(added[-1].image) for state in before)

    def _small(self, image: Row) -> Row:
        return tuple(value for at, value in enumerate(image) if at not in self.large)

    def is_one_of(self, row: Row | None, states: Collection[Possible | None]) -> bool:
        """Whether a row, or its absence, is one of these states."""
        return any(self._is(row, state) for state in states)

    def _is(self, row: Row | None, state: Possible | None) -> bool:
        if row is None or state is None:
            return row is None and state is None
        return row == state.image if state.whole else self._small(row) == self._small(state.image)

    def explains(self, row: Row | None, played: Sequence[tuple[str, States]], *, until: str) -> bool:
        """Whether the row read is the key before its changes, or after a commit at or below ``until``.

        :param until: H, an LSN that no commit seen by the read is above.
        """
        return any(self.is_one_of(row, states) for lsn, states in played if lsn <= until)

    def compare(self, silver: Row | None, expected: States) -> Kind | None:
        """How silver's row of a key fails against what it has to be; None where it does not."""
        if self.is_one_of(silver, expected):
            return None
        if silver is None:
            return "missing"
        return "extra" if expected == frozenset([None]) else "different"


def _each_once(rows: Iterable[ChangeRow]) -> Iterator[ChangeRow]:
    """A repair may have put a change row into bronze again: rows of one order are one."""
    for _, alike in groupby(rows, lambda row: row.order):
        yield next(alike)


def _before(rows: Sequence[ChangeRow]) -> States:
    """What the key may have been before the first commit that names it: removed by it, or absent.

    A commit that only removes found a row. Any other may have found none: its removals may be of what it
    added itself.
    """
    found: set[Possible | None] = {Possible(row.image, whole=False) for row in rows if not row.adds}
    if any(row.adds for row in rows):
        found.add(None)
    return frozenset(found)


def differing(one: Row, other: Row) -> list[int]:
    """Positions of the columns in which two rows differ."""
    return [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
