"""Which columns identify a row, which ones ranges are cut on, which ones silver is keyed by."""

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
"""As many as an index that this package cuts on may have."""

Columns = tuple[Column, ...]


class DescribedTable(Protocol):
    """What the choice is made from: the source's own description of a table has it."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def instance(self) -> CaptureInstance: ...

    @property
    def unique_indexes(self) -> tuple[UniqueIndex, ...]: ...


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """The chosen columns, and what a person should know of the choice.

    :param key: identifies a row, in key order; None when nothing does.
    :param split_by: ranges are cut on these, in order; None when the table is read as one range.
    :param split_is_unique: no two rows share all values of ``split_by``.
    :param key_to_check: the key is the user's word alone; its rows are counted against its values.
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
    """Choose both, from the user's names and the table's unique indexes."""
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
    """The columns that identify a row, why, and what is wrong with the user's ones."""
    if key is not None:
        columns, problems = _named(table, key, argument="key")
        problems += [
            f"key: column {_name(column)} accepts NULL, so it identifies no row: name NOT NULL columns"
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
    """The columns that ranges are cut on, why, and what is wrong with the user's ones.

    :param chosen: the key, on which ranges are cut when the user names nothing.
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
        return None, "one range: no key to cut ranges on; split_by can name columns", ()
    unbindable = _unbindable(chosen)
    if unbindable:
        return None, f"one range: {'; '.join(unbindable)}", ()
    return chosen, f"ranges are cut on the key ({_names(chosen)})", ()


def _default_index(table: DescribedTable) -> UniqueIndex | None:
    """The instance's own index; else the primary key, for instances that were enabled without one."""
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
        f"no key: neither capture instance {table.instance.name} {enabled} nor the primary key gives "
        "NOT NULL columns that are all captured; rows go to bronze, and silver needs a key that is named"
    )


def _named(table: DescribedTable, names: Sequence[str], *, argument: str) -> tuple[Columns, list[str]]:
    """The user's columns, and what is wrong with them."""
    columns: list[Column] = []
    problems: list[str] = []
    for name in names:
        try:
            column = find_column(table.columns, name)
        except ValueError as exc:
            problems.append(f"{argument}: {exc}")
            continue
        if column in columns:
            problems.append(f"{argument}: column {_name(column)} is named twice")
        columns.append(column)
        problems += [f"{argument}: {problem}" for problem in _unreadable(column)]
    if len(names) > MAX_KEY_COLUMNS:
        problems.append(f"{argument}: {len(names)} columns are named, at most {MAX_KEY_COLUMNS} can be")
    return tuple(columns), problems


def _unreadable(column: Column) -> list[str]:
    if not column.captured:
        return [f"column {_name(column)} is not captured by CDC, so changes would not carry it"]
    if column.computed:
        return [f"column {_name(column)} is computed, and CDC records NULL for it"]
    if column.masked or column.encrypted:
        veil = "encrypted" if column.encrypted else "masked for this login"
        return [f"column {_name(column)} is {veil}, so what is read is not what the server compares"]
    return []


def _unbindable(columns: Columns) -> list[str]:
    """Why these columns cannot bound a range."""
    return [
        f"column {_name(column)} of type {column.sql_type} has no order, or no exact text, to cut on"
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
    """Names in the lake of the columns that identify a row, in key order.

    :param key: as the source's catalog, or the user, gives it; None when nothing identifies a row.
    :raises UnsupportedKey: there is none, or two rows of the source could become one in the lake.
    """
    if not key:
        raise UnsupportedKey(
            f"{label}: silver needs a key, and neither the capture instance nor the primary key gives one "
            'whose columns are all captured and NOT NULL. Bronze is complete without it; key=("…",) on the '
            "table names columns that identify a row"
        )
    planned = {column.source.name: column for column in columns}
    if missing := [column.name for column in key if column.name not in planned]:
        raise UnsupportedKey(f"{label}: key column(s) {', '.join(missing)} are not in bronze")
    if cut := [column.name for column in key if _is_cut(planned[column.name])]:
        casts = ", ".join(f'"{name}": "varchar(34)"' for name in cut)
        raise UnsupportedKey(
            f"{label}: key column(s) {', '.join(cut)} have seven digits after the second and the lake keeps "
            f"six, so two rows of the source could become one. Keep them as text, casts={{{casts}}}, in a "
            "new bronze"
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
    """Refuse keys for which the state rule cannot be kept, unless ``allow`` names them.

    :param captured: names of the source columns in bronze.
    :raises UnsupportedKey: no unfiltered unique index keeps the key's values apart, or the key is not what
        the table is clustered by and bronze lacks the columns that tell its rows apart.
    """
    key = [column.name for column in keys.key or ()]
    if keys.key_to_check and KEY_MAY_REPEAT not in allow:
        raise UnsupportedKey(
            f"{label}: no unfiltered unique index is on key ({', '.join(key)}) or a part of it, so rows that "
            "are inserted later may share a key and become one row of silver. Create a unique index, name "
            f'columns that have one, or accept that, allow=("{KEY_MAY_REPEAT}",)'
        )
    index = _missing_identity(key, indexes, captured)
    if index is not None and KEY_MAY_MOVE_UNSEEN not in allow:
        raise UnsupportedKey(
            f"{label}: rows are told apart by {index.name} ({', '.join(index.columns)}), which CDC does not "
            f"capture, and the key is ({', '.join(key)}): when a value of it passes from one row to another "
            "that is equal in all captured columns, silver can lose it. Capture those columns, name them as "
            f'the key, or accept that, allow=("{KEY_MAY_MOVE_UNSEEN}",)'
        )


def _missing_identity(
    key: Sequence[str], indexes: Sequence[UniqueIndex], captured: Sequence[str]
) -> UniqueIndex | None:
    """The index that the table's rows are told apart by, when bronze has neither it nor another one."""
    whole = [index for index in indexes if not (index.filtered or index.disabled)]
    others = [index for index in whole if index.clustered or set(index.columns) != set(key)]
    if any(set(index.columns) <= set(captured) for index in others):
        return None
    clustered = [index for index in others if index.clustered]
    return next(iter([*clustered, *(index for index in others if index.primary)]), None)


def refuse_other_key(stored: Sequence[str], wanted: Sequence[str], *, silver: str) -> None:
    """:raises ConfigurationError: silver's rows are told apart by other columns."""
    if tuple(stored) != tuple(wanted):
        raise ConfigurationError(
            f"{silver} tells its rows apart by {', '.join(stored)}, and the key is {', '.join(wanted)} now: "
            "name another silver path, which is then built from bronze"
        )


def _is_cut(column: PlannedColumn) -> bool:
    """Whether the lake holds fewer digits than the source; a cast to text keeps all of them."""
    source = column.source.sql_type
    cut = source.name in _CUT_TYPES and source.scale > _MICROSECOND_DIGITS
    return cut and column.lake.data_type.startswith("timestamp")
