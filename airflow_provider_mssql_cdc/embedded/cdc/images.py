"""From row changes as they happened to the rows of a change table, as SQL Server writes them. Pure.

Sources of the rules: the documentation of ``cdc.<capture_instance>_CT`` (large objects, computed columns,
the update mask) and, for key updates, what the log holds of the table's own rows. An update of the key that
clusters the table moves rows: one row alone is a delete and an insert (learn.microsoft.com, "UPDATE
statements may be replicated as DELETE/INSERT pairs", KB 238254); many rows in one statement are split into
deletes and inserts, sorted, and a delete and an insert of one key collapse into an update (so a swap of two
keys is two updates). Under any other unique key each row is updated in place, in the table's own order: only
that index is maintained by split, sort and collapse (Craig Freedman, "Maintaining Unique Indexes").
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Any, Literal, NamedTuple

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4

KeyUpdates = Literal["pair", "images", "inserts first"]
"""How rows that move are written; "inserts first" as old builds did (KB 3030352, KB 4135113)."""
CommandIds = Literal["row", "statement"]
Values = tuple[Any, ...]
Unit = tuple[tuple[int, bytes, Values], ...]
"""Rows (operation, mask, values) that share one command id and one seqval."""


class Storage(Enum):
    """How a captured column's type behaves in change rows."""

    PLAIN = "plain"
    MAX = "max"
    TEXT = "text"
    COMPUTED = "computed"


class RowChange(NamedTuple):
    """One row that a statement touched: what it was and is, and the two log records kept for it."""

    statement: int
    operation: int
    old: Values
    new: Values
    first: bytes
    second: bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instance captures of a row change.

    :param positions: for each captured column its place in the row, None when it no longer exists.
    :param storages: for each captured column how its type behaves.
    :param key: the places in the row of the key that the table is clustered by; empty for a heap.
    :param unique: whether that key is unique; rows of one that is not never collapse.
    """

    positions: tuple[int | None, ...]
    storages: tuple[Storage, ...]
    key: tuple[int, ...] = ()
    unique: bool = True
    whole: bool = field(init=False, default=False)
    """Whether a row is its own image: every column of it is captured, in its order."""

    def __post_init__(self) -> None:
        if len(self.positions) != len(self.storages):
            raise ValueError("one storage for each captured column")
        plain = Storage.COMPUTED not in self.storages
        object.__setattr__(self, "whole", plain and self.positions == tuple(range(len(self.positions))))

    def image(self, row: Values) -> Values:
        """The captured columns of a row, computed ones NULL."""
        if self.whole and len(row) == len(self.positions):
            return row
        return tuple(
            None if at is None or storage is Storage.COMPUTED else row[at]
            for at, storage in zip(self.positions, self.storages, strict=True)
        )

    def identity(self, row: Values) -> Values:
        """The row's key under the clustering index, byte for byte."""
        return tuple(row[at] for at in self.key)


def update_mask(changed: Iterable[int], columns: int) -> bytes:
    """The bits of changed captured columns (0-based); the last byte holds the first eight columns."""
    bits = sum(1 << ordinal for ordinal in changed)
    return bits.to_bytes(max(1, -(-columns // 8)), "big")


def change_rows(
    changes: Iterable[RowChange],
    shape: Shape,
    *,
    start_lsn: bytes,
    key_updates: KeyUpdates = "pair",
    commands: CommandIds = "row",
    moving: Container[int] | None = None,
) -> Iterator[Values]:
    """The rows of the change table for one commit, in the order in which SQL Server writes them.

    Each is ``(start_lsn, end_lsn, seqval, operation, update_mask, *captured columns, command_id)``.

    :param commands: whether each row of a statement has a command id of its own or all share the statement's.
    :param moving: the statements that may have moved keys, when that is known; the changes of all others
        are passed on one by one, whatever their number.
    """
    full = update_mask(range(len(shape.positions)), len(shape.positions))
    command = 0
    for statement, group in groupby(changes, key=lambda change: change.statement):
        if moving is None or statement in moving:
            units = _statement(list(group), shape, full=full, key_updates=key_updates)
        else:
            units = _plain_units(group, shape, full)
        command += commands == "statement"
        for seqval, rows in units:
            command += commands == "row"
            for operation, mask, values in rows:
                yield (start_lsn, None, seqval, operation, mask, *values, command)


def _statement(
    changes: list[RowChange], shape: Shape, *, full: bytes, key_updates: KeyUpdates
) -> Iterator[tuple[bytes, Unit]]:
    changes = _updates(changes)
    moved = [c for c in changes if c.operation == AFTER and shape.identity(c.old) != shape.identity(c.new)]
    if moved and len(changes) == 1 and key_updates == "pair":
        yield changes[0].first, _pair(changes[0], shape, full)
    elif moved and (key_updates != "images" or _collide(moved, shape)):
        records = sorted(lsn for change in changes for lsn in (change.first, change.second))
        units = _split(changes, moved, shape=shape, full=full)
        if key_updates == "inserts first":
            units.sort(key=lambda unit: unit[0][0], reverse=True)
        yield from zip(records, units, strict=False)
    else:
        yield from _plain_units(changes, shape, full)


def _updates(changes: list[RowChange]) -> list[RowChange]:
    """The statement's updates, those put together that ``engine.moved_keys`` ran as deletes and inserts.

    It deletes the rows in the table's order and inserts them in the same one.
    """
    gone = [change for change in changes if change.operation == DELETE]
    come = [change for change in changes if change.operation == INSERT]
    if not gone or not come:
        return changes
    return [
        RowChange(old.statement, AFTER, old.old, new.new, old.first, old.second)
        for old, new in zip(gone, come, strict=True)
    ]


def _collide(moved: list[RowChange], shape: Shape) -> bool:
    """Whether one row takes the key that another one gives up."""
    gone = {shape.identity(change.old) for change in moved}
    return shape.unique and any(shape.identity(change.new) in gone for change in moved)


def _plain_units(changes: Iterable[RowChange], shape: Shape, full: bytes) -> Iterator[tuple[bytes, Unit]]:
    for change in changes:
        if unit := _plain(change, shape, full):
            yield change.first, unit


def _plain(change: RowChange, shape: Shape, full: bytes) -> Unit | None:
    if change.operation == INSERT:
        return _insert(change.new, shape, full)
    if change.operation == DELETE:
        return _delete(change.old, shape, full)
    return _update(change.old, change.new, shape)


def _pair(change: RowChange, shape: Shape, full: bytes) -> Unit:
    return _delete(change.old, shape, full) + _insert(change.new, shape, full)


def _insert(row: Values, shape: Shape, full: bytes) -> Unit:
    return ((INSERT, full, shape.image(row)),)


def _delete(row: Values, shape: Shape, full: bytes) -> Unit:
    return ((DELETE, full, _without(shape.image(row), shape, (Storage.TEXT,), changed=())),)


def _update(old: Values, new: Values, shape: Shape) -> Unit | None:
    """Before and after image; None when no captured column changed (nothing is written then)."""
    before, after = shape.image(old), shape.image(new)
    changed = tuple(i for i, (was, now) in enumerate(zip(before, after, strict=True)) if was != now)
    if not changed:
        return None
    mask = update_mask(changed, len(after))
    before = _without(before, shape, (Storage.TEXT, Storage.MAX), changed=changed)
    return (BEFORE, mask, before), (AFTER, mask, after)


def _without(
    image: Values, shape: Shape, storages: tuple[Storage, ...], *, changed: tuple[int, ...]
) -> Values:
    """NULL where the type is not logged; a (max) column that changed keeps its value."""
    if not any(storage in storages for storage in shape.storages):
        return image
    return tuple(
        None if storage in storages and not (storage is Storage.MAX and i in changed) else value
        for i, (value, storage) in enumerate(zip(image, shape.storages, strict=True))
    )


def _split(changes: list[RowChange], moved: list[RowChange], *, shape: Shape, full: bytes) -> list[Unit]:
    """A statement of many rows that moved keys: deletes, then collapsed and plain updates, then inserts."""
    apart = [() if shape.unique else (number,) for number in range(len(moved))]
    gone = {(*shape.identity(c.old), *mark): c.old for c, mark in zip(moved, apart, strict=True)}
    come = {(*shape.identity(c.new), *mark): c.new for c, mark in zip(moved, apart, strict=True)}
    still = {id(change) for change in moved}
    deletes = [_delete(row, shape, full) for identity, row in gone.items() if identity not in come]
    updates = [_update(row, come[identity], shape) for identity, row in gone.items() if identity in come]
    updates += [_plain(change, shape, full) for change in changes if id(change) not in still]
    inserts = [_insert(row, shape, full) for identity, row in come.items() if identity not in gone]
    return [*deletes, *(unit for unit in updates if unit), *inserts]
