"""Rebuilds a source table from bronze's snapshot rows and CDC's change table, by the rule and nothing else.

Independent of the package on purpose: it is the other side of the proof. The rule (version 4): the snapshot's
row of a key is its base, of several the one with the largest stamp; then commit after commit above S. In a
commit 2 and 4 add an image under their key, 1 and 3 remove one, and a change row that is there twice counts
once. Where a commit ends with an add, or adds more than it removes, the key is there with the image added
last; where it removes more, the key is gone; where it removes as many, the key is there when the image
removed last is not the one added last, and else it is there if it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

Row = dict[str, Any]

_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")


def rebuild(
    snapshot_rows: Iterable[Row],
    change_rows: Iterable[Row],
    *,
    key: Sequence[str],
    snapshot: str,
    end: str,
    large: Collection[str] = (),
) -> dict[tuple[Any, ...], Row]:
    """The table as of ``end``, by key, without the metadata columns.

    :param snapshot_rows: bronze rows of operation 0; those of other snapshots are ignored.
    :param change_rows: rows of operations 1 to 4 with ``_start_lsn`` and so on beside the columns.
    :param large: columns that before-images leave out.
    """
    state: dict[tuple[Any, ...], Row] = {}
    loaded = [row for row in snapshot_rows if row["_snapshot"] == snapshot and row["_operation"] == 0]
    for row in sorted(loaded, key=lambda row: row["_start_lsn"]):
        state[tuple(row[name] for name in key)] = _plain(row)
    changes = sorted((row for row in change_rows if snapshot < row["_start_lsn"] <= end), key=_position)
    for _, commit in groupby(changes, key=lambda row: row["_start_lsn"]):
        by_key: dict[tuple[Any, ...], dict[Any, Row]] = {}
        for row in commit:
            by_key.setdefault(tuple(row[name] for name in key), {})[_position(row)] = row
        for key_value, rows in by_key.items():
            _apply(state, key_value, list(rows.values()), large)
    return state


def _apply(
    state: dict[tuple[Any, ...], Row], key: tuple[Any, ...], rows: list[Row], large: Collection[str]
) -> None:
    """What one commit does to one key; ``rows`` are in order."""
    added = [_plain(row) for row in rows if row["_operation"] in (2, 4)]
    removed = [_plain(row) for row in rows if row["_operation"] in (1, 3)]
    last_is_add = rows[-1]["_operation"] in (2, 4)
    if last_is_add or len(added) > len(removed):
        there = True
    elif len(added) < len(removed):
        there = False
    else:
        differs = any(added[-1][name] != removed[-1][name] for name in added[-1] if name not in large)
        there = differs or key in state
    if there:
        state[key] = added[-1]
    else:
        state.pop(key, None)


def _plain(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def _position(row: Row) -> tuple[tuple[bool, Any], ...]:
    """NULLs first: old builds give no command id."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in _ORDER)
