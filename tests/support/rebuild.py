"""Rebuilds a source table from bronze's snapshot rows and CDC's change table, by the rule and nothing else.

Independent of the package deliberately: it is the other side of the proof. The rule, version 4: the changes
of one commit to one key, in the order (_command_id, _seqval, _operation), NULLs first, add images (2, 4) and
remove them (1, 3). The last one decides, when it adds. When it removes, the key is gone if more was removed
than added, there if more was added. If as much was removed as added, another row may have left the key: when
the image removed last is not the image added last, the key is there; when it is, the key is there if it was
there before the commit. Whenever it is there it holds the image added last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]

_ORDER = ("_command_id", "_seqval", "_operation")


def rebuild(
    snapshot_rows: Iterable[Row],
    change_rows: Iterable[Row],
    *,
    key: Sequence[str],
    snapshot: str,
    end: str,
    large: Collection[str] = (),
) -> dict[Key, Row]:
    """The table as of ``end``, by key, without the metadata columns.

    :param snapshot_rows: bronze rows of operation 0; those of other snapshots are ignored. Of several rows of
        one key the one with the largest stamp is its base.
    :param change_rows: rows of operations 1 to 4 with ``_start_lsn`` and so on beside the columns; one that
        is there twice counts once.
    :param large: columns that a before-image need not hold; images are compared without them.
    """
    mine = [row for row in snapshot_rows if row["_snapshot"] == snapshot and row["_operation"] == 0]
    table = {_key(row, key): _image(row) for row in sorted(mine, key=lambda row: str(row["_start_lsn"]))}
    commits: dict[str, dict[Key, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in change_rows:
        if snapshot < row["_start_lsn"] <= end:
            commits[row["_start_lsn"]][_key(row, key)].append(row)
    for lsn in sorted(commits):
        for which, rows in commits[lsn].items():
            image = _after(rows, there=which in table, large=large)
            if image is None:
                table.pop(which, None)
            else:
                table[which] = image
    return table


def _after(rows: list[Row], *, there: bool, large: Collection[str]) -> Row | None:
    """What one commit leaves of one key; None when it is gone."""
    once = {_position(row): row for row in rows}
    ordered = [once[position] for position in sorted(once)]
    added = [_image(row) for row in ordered if row["_operation"] in (2, 4)]
    removed = [_image(row) for row in ordered if row["_operation"] in (1, 3)]
    if ordered[-1]["_operation"] in (2, 4):
        return added[-1]
    if len(added) != len(removed):
        return added[-1] if len(added) > len(removed) else None
    passed_on = any(removed[-1][name] != added[-1][name] for name in added[-1] if name not in large)
    return added[-1] if passed_on or there else None


def _key(row: Row, key: Sequence[str]) -> Key:
    return tuple(row[name] for name in key)


def _image(row: Row) -> Row:
    return {name: value for name, value in row.items() if not name.startswith("_")}


def _position(row: Row) -> tuple[tuple[bool, Any], ...]:
    """NULLs first: a snapshot row has neither command id nor sequence."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in _ORDER)
