"""Rebuilds a source table from bronze's snapshot rows and CDC's change table, by the rule and nothing else.

Independent of the package on purpose: it is the other side of the proof. The rule: for each key the
latest row by (_start_lsn, _command_id, _seqval, _operation), NULLs first, among the rows of snapshot S
and the changes above S; keys whose latest row is a delete (1) or a before-image (3) are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]

_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")


def rebuild(
    snapshot_rows: Iterable[Row], change_rows: Iterable[Row], *, key: Sequence[str], snapshot: str, end: str
) -> dict[tuple[Any, ...], Row]:
    """The table as of ``end``, by key, without the metadata columns.

    :param snapshot_rows: bronze rows of operation 0; those of other snapshots are ignored.
    :param change_rows: rows of operations 1 to 4 with ``_start_lsn`` and so on beside the columns.
    """
    latest: dict[tuple[Any, ...], Row] = {}
    candidates = [row for row in snapshot_rows if row["_snapshot"] == snapshot and row["_operation"] == 0]
    candidates += [row for row in change_rows if snapshot < row["_start_lsn"] <= end]
    for row in sorted(candidates, key=_position):
        latest[tuple(row[name] for name in key)] = row
    return {
        key_value: {name: value for name, value in row.items() if not name.startswith("_")}
        for key_value, row in latest.items()
        if row["_operation"] not in (1, 3)
    }


def _position(row: Row) -> tuple[tuple[bool, Any], ...]:
    """NULLs first: a snapshot row has neither command id nor sequence."""
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in _ORDER)
