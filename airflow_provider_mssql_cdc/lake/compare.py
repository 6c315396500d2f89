"""Compare rows read from the source with silver's, taking concurrent changes into account."""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.reconcile import change_rows_of, silver_rows, tuples
from airflow_provider_mssql_cdc.lake.schema import is_large
from airflow_provider_mssql_cdc.lake.silver.rows import KeySet
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.reconcile import Found
from airflow_provider_mssql_cdc.planning.reconcile import ChangeRow, Judge, Kind, Row, differing

KEYS_SHOWN = 20

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of both sides.

    :param rows: rows read from the source, with the columns to compare, including silver's key.
    :param asked: keys that were looked up, so that a missing row counts; None for a tile.
    :param after: L; changes above it may or may not be in ``rows``.
    :param until: H; no commit seen by the read is above it.
    """

    silver: Silver
    bronze: Bronze
    rows: pa.Table
    asked: pa.Table | None
    after: Lsn
    until: Lsn
    show_keys: bool = False
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    @property
    def columns(self) -> list[str]:
        return list(self.rows.column_names)

    @property
    def key_places(self) -> list[int]:
        return [self.columns.index(name) for name in self.silver.key]


def compare(comparison: Comparison) -> Found:
    """Compare every row read, and every key looked up, with silver.

    A key without a change in bronze since L must be equal on both sides. For a changed key, the row read
    must be one of its states from L to H, and silver's row its state at silver's position.
    """
    found, rows, asked = Found(rows_source=comparison.rows.num_rows), comparison.rows, comparison.asked
    names = comparison.silver.key
    wanted = rows.select(names) if asked is None else pa.concat_tables([asked, rows.select(names)])
    if not wanted.num_rows:
        return found
    keys = KeySet(wanted)
    held = silver_rows(comparison.silver, keys, comparison.columns)
    changes = _changes(comparison, keys)
    found.rows_silver = held.num_rows
    plain = _plainly_equal(rows, held, changes, keys)
    found.equal = pc.sum(plain).as_py() or 0
    rest = rows.filter(pc.invert(plain))
    open_keys = {} if asked is None else dict.fromkeys(tuples(_without(asked, rows.filter(plain), keys)))
    read = _by_key(rest, comparison.key_places)
    of_rest = _by_key(_only(held, rest, asked, keys), comparison.key_places)
    by_key, judge = _change_rows(comparison, changes), Judge(_large(comparison))
    for key in {**open_keys, **read}:
        alternatives: list[Row] | list[None] = read.get(key) or [None]
        for row in alternatives:
            _judge_key(comparison, judge, found, key, row, of_rest.get(key, []), by_key.get(key, []))
    return found


def _plainly_equal(rows: pa.Table, held: pa.Table, changes: pa.Table, keys: KeySet) -> pa.ChunkedArray:
    """Return for each row whether silver has it exactly once with equal columns and no change names its key.

    All other rows are compared value by value. Wrongly combined key codes are harmless, because the key
    columns are compared too.
    """
    codes, theirs = _codes(rows, keys), _codes(held, keys)
    counts = pc.value_counts(theirs)
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    plain = pc.and_not(pc.is_in(codes, value_set=once), pc.is_in(codes, value_set=_codes(changes, keys)))
    aligned = held.take(pc.index_in(codes, value_set=theirs))
    for name in rows.column_names:
        one, other = rows.column(name), aligned.column(name)
        same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
        plain = pc.and_(plain, same)
    return plain


def _codes(rows: pa.Table, keys: KeySet) -> pa.Array:
    """The number of each row's key."""
    codes = keys.positions(rows).cast(pa.int64())
    return codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes


def _without(asked: pa.Table, proven: pa.Table, keys: KeySet) -> pa.Table:
    return asked.filter(pc.invert(pc.is_in(_codes(asked, keys), value_set=_codes(proven, keys))))


def _only(held: pa.Table, rest: pa.Table, asked: pa.Table | None, keys: KeySet) -> pa.Table:
    """Return silver's rows of the keys that are compared one by one."""
    codes = [_codes(each, keys) for each in (rest, asked) if each is not None]
    return held.filter(pc.is_in(_codes(held, keys), value_set=pa.concat_arrays(codes)))


def _judge_key(
    comparison: Comparison,
    judge: Judge,
    found: Found,
    key: Key,
    row: Row | None,
    held: list[Row],
    changes: list[ChangeRow],
) -> None:
    silver = held[0] if held else None
    if len(held) > 1:
        _fail(comparison, found, key, "extra", ())
        return
    if not changes:
        kind: Kind | None = None
        if row != silver:
            kind = "missing" if silver is None else "extra" if row is None else "different"
        if kind is None:
            found.equal += 1
        else:
            _fail(comparison, found, key, kind, _columns_of(comparison, row, silver))
        return
    played = judge.states(changes)
    expected = played[-1][1]
    if not judge.explains(row, played, until=comparison.until.text):
        _fail(comparison, found, key, "unexplained", ())
    elif (kind := judge.compare(silver, expected)) is not None:
        state = next(iter(expected)) if len(expected) == 1 else None
        image = None if state is None else state.image
        _fail(comparison, found, key, kind, _columns_of(comparison, image, silver))
    else:
        found.moved += 1


def _columns_of(comparison: Comparison, one: Row | None, other: Row | None) -> tuple[str, ...]:
    if one is None or other is None:
        return ()
    return tuple(comparison.columns[at] for at in differing(one, other))


def _fail(comparison: Comparison, found: Found, key: Key, kind: Kind, columns: tuple[str, ...]) -> None:
    setattr(found, kind, getattr(found, kind) + 1)
    for name in columns:
        found.columns[name] = found.columns.get(name, 0) + 1
    if len(found.keys) < KEYS_SHOWN:
        shown = [str(value) for value in key] if comparison.show_keys else _hashed(comparison.salt, key)
        found.keys.append({"key": shown, "kind": kind, "columns": list(columns)})


def _hashed(salt: bytes, key: Key) -> str:
    """Hash keys with the report's salt: equal keys hash equally; without the salt they cannot be guessed."""
    return hashlib.sha256(salt + repr(key).encode()).hexdigest()[:16]


def _by_key(rows: pa.Table, places: Iterable[int]) -> dict[Key, list[Row]]:
    """Group rows as tuples by key; a key that moved between rows during the read may have two."""
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    places = tuple(places)
    for row in tuples(rows):
        found[tuple(row[at] for at in places)].append(row)
    return dict(found)


def _large(comparison: Comparison) -> frozenset[int]:
    schema = comparison.bronze.schema
    return frozenset(at for at, name in enumerate(comparison.columns) if is_large(schema.field(name)))


def _changes(comparison: Comparison, keys: KeySet) -> pa.Table:
    """Return the changes of these keys above L, up to silver's position."""
    position = comparison.silver.position
    assert position is not None
    return change_rows_of(
        comparison.bronze, keys, comparison.columns, after=comparison.after, until=position.changes
    )


_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")


def _change_rows(comparison: Comparison, changes: pa.Table) -> dict[Key, list[ChangeRow]]:
    found: defaultdict[Key, list[ChangeRow]] = defaultdict(list)
    for lsn, command, seqval, operation, *image in tuples(changes.select([*_ORDER, *comparison.columns])):
        change = ChangeRow(lsn, command, seqval, operation, tuple(image))
        found[tuple(image[at] for at in comparison.key_places)].append(change)
    return dict(found)
