"""Choose the columns that identify a row, that ranges are cut on, and that silver is keyed by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_mssql_cdc.errors import ConfigurationError, UnsupportedKey
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.source_table import Column, PlannedColumn, UniqueIndex
from airflow_provider_mssql_cdc.planning.types import KEY_MAY_MOVE_UNSEEN, KEY_MAY_REPEAT, find_column
from airflow_provider_mssql_cdc.tsql.bounds import is_bindable
from airflow_provider_mssql_cdc.tsql.statement import quote_identifier

MAX_KEY_COLUMNS = 16
"""Maximum number of key columns that this package supports."""

Columns = tuple[Column, ...]


class DescribedTable(Protocol):
    """Describe a table as the choice needs it; the source's table description implements this."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def instance(self) -> CaptureInstance: ...

    @property
    def unique_indexes(self) -> tuple[UniqueIndex, ...]: ...


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """Hold the chosen columns, with the reasons and problems of the choice.

    :param key: columns that identify a row, in key order; None when there are none.
    :param split_by: columns that ranges are cut on, in order; None when the table is read as one range.
    :param split_is_unique: no two rows share all values of ``split_by``.
    :param key_to_check: no unique index proves the user's key; its rows are counted against its values.
    :param reasons: for the log, one sentence each.
    :param problems: one sentence each, with its remedy.
    """

    key: Columns | None
    split_by: Columns | None
    split_is_unique: bool = False
    key_to_check: bool = False
    reasons: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def choose_keys(
    table: DescribedTable, *, key: Sequence[str] | None = None, split_by: Sequence[str] | None = None
) -> KeyChoice:
    """Choose the key and the split columns, from the user's names and the table's unique indexes."""
    chosen, key_reason, key_problems = choose_key(table, key)
    split, split_reason, split_problems = choose_split(table, split_by, chosen=chosen)
    return KeyChoice(
        key=chosen,
        split_by=split,
        split_is_unique=split is not None and _is_unique(table, split),
        key_to_check=key is not None and chosen is not None and not _is_unique(table, chosen),
        reasons=tuple(filter(None, (key_reason, split_reason))),
        problems=(*key_problems, *split_problems),
    )


def choose_key(
    table: DescribedTable, key: Sequence[str] | None
) -> tuple[Columns | None, str, tuple[str, ...]]:
    """Return the columns that identify a row, the reason, and the problems of the user's columns."""
    if key is not None:
        columns, problems = _named(table, key, argument="key")
        problems += [
            f"key: column {_name(column)} must be NOT NULL to identify a row: name other columns"
            for column in columns
            if column.nullable
        ]
        return (None if problems else columns), f"key: {_names(columns)}, as named", tuple(problems)
    index = _default_index(table)
    if index is None:
        return None, _no_key(table), ()
    columns = _resolved(table, index.columns)
    whose = "the capture instance's" if index.name == table.instance.index_name else "the table's"
    return columns, f"key: {_names(columns)}, {whose} unique index {index.name}", ()


def choose_split(
    table: DescribedTable, split_by: Sequence[str] | None, *, chosen: Columns | None
) -> tuple[Columns | None, str, tuple[str, ...]]:
    """Return the columns that ranges are cut on, the reason, and the problems of the user's columns.

    :param chosen: the key, used when the user names no columns.
    """
    if split_by is not None:
        columns, problems = _named(table, split_by, argument="split_by")
        problems += [f"split_by: {problem}" for problem in _unbindable(columns)]
        return (
            (None if problems else columns),
            f"ranges are cut on {_names(columns)}, as named",
            tuple(problems),
        )
    if chosen is None:
        return None, "one range: the table has no key to cut on; name columns with split_by", ()
    unbindable = _unbindable(chosen)
    if unbindable:
        return None, f"one range: {'; '.join(unbindable)}", ()
    return chosen, f"ranges are cut on the key ({_names(chosen)})", ()


def _default_index(table: DescribedTable) -> UniqueIndex | None:
    """Return the capture instance's index; else the primary key."""
    # @index_name is optional (Microsoft Learn, "sys.sp_cdc_enable_table"), so an instance may name no index.
    usable = [index for index in table.unique_indexes if _is_usable(table, index)]
    named = [index for index in usable if index.name == table.instance.index_name]
    return next(iter(named), None) or next((index for index in usable if index.primary), None)


def _is_usable(table: DescribedTable, index: UniqueIndex) -> bool:
    """Whether an index identifies every row by columns that CDC records."""
    columns = _resolved(table, index.columns)
    complete = len(columns) == len(index.columns) > 0
    plain = not (index.filtered or index.disabled)
    return plain and complete and all(not _unreadable(column) and not column.nullable for column in columns)


def _is_unique(table: DescribedTable, columns: Columns) -> bool:
    """Whether the catalog says that no two rows share all values of these columns."""
    names = {column.name for column in columns}
    return any(_is_usable(table, index) and names.issuperset(index.columns) for index in table.unique_indexes)


def _no_key(table: DescribedTable) -> str:
    enabled = (
        f"(index {table.instance.index_name})" if table.instance.index_name else "(enabled without an index)"
    )
    return (
        f"no key: neither capture instance {table.instance.name} {enabled} nor the primary key has only "
        "captured NOT NULL columns; bronze is loaded, but silver needs the argument key"
    )


def _named(table: DescribedTable, names: Sequence[str], *, argument: str) -> tuple[Columns, list[str]]:
    """Return the user's columns and their problems."""
    columns: list[Column] = []
    problems: list[str] = []
    for name in names:
        try:
            column = find_column(table.columns, name)
        except ValueError as exc:
            problems.append(f"{argument}: {exc}")
            continue
        if column in columns:
            problems.append(f"{argument}: column {_name(column)} must be named once, got it twice")
        columns.append(column)
        problems += [f"{argument}: {problem}" for problem in _unreadable(column)]
    if len(names) > MAX_KEY_COLUMNS:
        problems.append(f"{argument} must name at most {MAX_KEY_COLUMNS} columns, got {len(names)}")
    return tuple(columns), problems


def _unreadable(column: Column) -> list[str]:
    if not column.captured:
        return [f"column {_name(column)} must be captured by CDC, so that change rows hold it"]
    if column.computed:
        return [f"column {_name(column)} must not be computed: CDC records NULL for it"]
    if column.masked or column.encrypted:
        veil = "encrypted" if column.encrypted else "masked for this login"
        return [
            f"column {_name(column)} must not be {veil}: the server compares other values than it returns"
        ]
    return []


def _unbindable(columns: Columns) -> list[str]:
    """Why these columns cannot bound a range."""
    return [
        f"column {_name(column)} must have a type with an order and an exact text, got {column.sql_type}"
        for column in columns
        if not is_bindable(column.sql_type)
    ]


def _resolved(table: DescribedTable, names: Sequence[str]) -> Columns:
    by_name = {column.name: column for column in table.columns}
    return tuple(by_name[name] for name in names if name in by_name)


def _name(column: Column) -> str:
    return quote_identifier(column.name).replace("%%", "%")


def _names(columns: Columns) -> str:
    return ", ".join(_name(column) for column in columns)


_MICROSECOND_DIGITS = 6
_CUT_TYPES = frozenset({"datetime2", "datetimeoffset"})


def silver_key(
    key: Sequence[Column] | None, columns: Sequence[PlannedColumn], *, label: str
) -> tuple[str, ...]:
    """Return the lake names of the columns that identify a row, in key order.

    :param key: from the source's catalog or the user; None when no columns identify a row.
    :raises UnsupportedKey: there is no key, or two rows of the source could become one in the lake.
    """
    if not key:
        raise UnsupportedKey(
            f"{label}: silver needs a key, and neither the capture instance's index nor the primary key has "
            'only captured NOT NULL columns. Name columns that identify a row with key=("…",) on the table; '
            "bronze needs no key"
        )
    planned = {column.source.name: column for column in columns}
    if missing := [column.name for column in key if column.name not in planned]:
        raise UnsupportedKey(f"{label}: all key columns must be in bronze, missing {', '.join(missing)}")
    if cut := [column.name for column in key if _is_cut(planned[column.name])]:
        casts = ", ".join(f'"{name}": "varchar(34)"' for name in cut)
        raise UnsupportedKey(
            f"{label}: key column(s) {', '.join(cut)} must have at most 6 fractional digits, got 7: the lake "
            f"stores microseconds, so two rows could become one. Load them as strings, casts={{{casts}}}, "
            "into a new bronze path"
        )
    return tuple(planned[column.name].lake.name for column in key)


def refuse_uncertain_key(
    keys: KeyChoice,
    indexes: Sequence[UniqueIndex],
    *,
    captured: Sequence[str],
    allow: Collection[str],
    label: str,
) -> None:
    """Refuse keys that the state rule (ADR 10) cannot follow, unless ``allow`` names them.

    :param captured: names of the source columns in bronze.
    :raises UnsupportedKey: no unfiltered unique index covers the key, or the key is not the clustered
        index and bronze lacks the columns that identify a row.
    """
    key = [column.name for column in keys.key or ()]
    if keys.key_to_check and KEY_MAY_REPEAT not in allow:
        raise UnsupportedKey(
            f"{label}: key ({', '.join(key)}) must include the columns of an unfiltered unique index: "
            "without "
            "one, later rows may share a key and become one row of silver. Create a unique index, name "
            f'columns that have one, or accept that with allow=("{KEY_MAY_REPEAT}",)'
        )
    index = _missing_identity(key, indexes, captured)
    if index is not None and KEY_MAY_MOVE_UNSEEN not in allow:
        raise UnsupportedKey(
            f"{label}: rows are identified by index {index.name} ({', '.join(index.columns)}), which CDC "
            "does "
            f"not capture, and the key is ({', '.join(key)}): when a key value passes to another row that is "
            "equal in all captured columns, silver can lose it. Capture those columns, name them as the key, "
            f'or accept that with allow=("{KEY_MAY_MOVE_UNSEEN}",)'
        )


def _missing_identity(
    key: Sequence[str], indexes: Sequence[UniqueIndex], captured: Sequence[str]
) -> UniqueIndex | None:
    """Return the index that identifies the table's rows, when bronze holds the columns of none.

    The state rule decides by images whether a row left a key or came to it. Two rows are distinguished by
    their images only if some unique index other than the key is in them.
    """
    whole = [index for index in indexes if not (index.filtered or index.disabled)]
    others = [index for index in whole if index.clustered or set(index.columns) != set(key)]
    if any(set(index.columns) <= set(captured) for index in others):
        return None
    clustered = [index for index in others if index.clustered]
    return next(iter([*clustered, *(index for index in others if index.primary)]), None)


def refuse_other_key(stored: Sequence[str], wanted: Sequence[str], *, silver: str) -> None:
    """Refuse a silver table that was built with another key.

    :raises ConfigurationError: names both keys.
    """
    if tuple(stored) != tuple(wanted):
        raise ConfigurationError(
            f"{silver} is keyed on ({', '.join(stored)}), but the configured key is ({', '.join(wanted)}): "
            "name another silver path, which is then built from bronze"
        )


def _is_cut(column: PlannedColumn) -> bool:
    """Whether the lake stores fewer digits than the source; a cast to a char type keeps all of them."""
    source = column.source.sql_type
    cut = source.name in _CUT_TYPES and source.scale > _MICROSECOND_DIGITS
    return cut and column.lake.data_type.startswith("timestamp")
