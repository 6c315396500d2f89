"""Column names in the lake, and what a change of the source's columns means."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.model.source_table import Column, LakeColumn

RESERVED_NAMES = frozenset(
    "_capture_instance _start_lsn _seqval _operation _command_id _commit_ts "
    "_batch_id _snapshot _chunk".split()
)
"""Bronze's own columns."""

_REFUSED = r" ,;{}()=\t\n"
_ENCODED = re.compile(rf"[{_REFUSED}]|_(?=x[0-9A-Fa-f]{{4}}[_{_REFUSED}])")
_GROUP = re.compile(r"_x([0-9A-F]{4})_")


def lake_name(source_name: str) -> str:
    """The name in Delta; most names stay as they are."""
    return _ENCODED.sub(lambda match: f"_x{ord(match[0]):04X}_", source_name)


def source_name(lake_name: str) -> str:
    """The source's name again: the inverse of :func:`lake_name`."""
    return _GROUP.sub(lambda match: chr(int(match[1], 16)), lake_name)


def is_reserved(name: str) -> bool:
    """Whether Delta could not tell this column from one of bronze's own."""
    return _folded(name) in RESERVED_NAMES


def indistinct(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of lake names that Delta holds for one, since it ignores case."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[_folded(name)].append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _folded(name: str) -> str:
    """As Spark and delta-rs fold: lower case, character by character."""
    return name.lower()


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """How the columns that a capture instance records differ from bronze's.

    :param added: recorded, and not in bronze.
    :param retyped: one sentence for each column whose type in the lake differs.
    :param absent: lake names of columns that are in bronze and that the instance does not record.
    """

    added: tuple[LakeColumn, ...] = ()
    retyped: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaDecision:
    """How to go on.

    :param add: columns that bronze gets, NULL in the rows so far.
    :param dropped: source names that are gone; their columns stay, NULL from then on.
    :param uncaptured: source names that the instance does not record and bronze does not have.
    """

    add: tuple[LakeColumn, ...] = ()
    dropped: tuple[str, ...] = ()
    uncaptured: tuple[str, ...] = ()


def decide_schema(
    drift: ColumnDrift,
    *,
    instance: str,
    source_columns: Sequence[Column],
    recorded: Collection[tuple[str, int]],
    accept_nulls: bool,
) -> SchemaDecision:
    """Decide for one capture instance.

    :param source_columns: of the source table as it is now.
    :param recorded: (name, column id) of the instance's columns; one that was dropped and added again has a
        new id, and the instance goes on recording the old one, as NULL.
    :param accept_nulls: new columns may be NULL in the rows so far (``new_columns="null"``).
    :raises SchemaDrift: values would be lost or replaced by NULL without anybody having said so.
    """
    now = {column.name: column for column in source_columns if not column.computed}
    names = {name for name, _ in recorded}
    lost = [
        name
        for name in (*map(source_name, drift.absent), *names)
        if name in now and (name, now[name].column_id) not in recorded
    ]
    if lost:
        raise SchemaDrift(_not_recorded(instance, lost))
    if drift.retyped:
        raise SchemaDrift(_retyped(instance, drift.retyped))
    added = tuple(column for column in drift.added if column.source_name in now)
    if added and not accept_nulls:
        raise SchemaDrift(_added(instance, added))
    return SchemaDecision(
        add=added,
        dropped=tuple(name for name in (*map(source_name, drift.absent), *names) if name not in now),
        uncaptured=tuple(name for name in now if name not in names),
    )


def _not_recorded(instance: str, names: Sequence[str]) -> str:
    return (
        f"column(s) {', '.join(sorted(set(names)))} are in bronze and in the source table, and capture "
        f"instance {instance} does not record them (left out of @captured_column_list, or dropped and added "
        "again): their values would turn into NULL. Enable a second capture instance that records them and "
        "name it as capture_instance; if it begins above the position, read the older one up to there first"
    )


def _retyped(instance: str, sentences: Sequence[str]) -> str:
    return (
        f"capture instance {instance}: {'; '.join(sentences)}. Delta tables written by delta-rs cannot "
        'widen a column: keep the type with casts={"<column>": "<the old type>"} as long as the values fit, '
        "or load into a new bronze path"
    )


def _added(instance: str, columns: Sequence[LakeColumn]) -> str:
    names = ", ".join(column.source_name for column in columns)
    return (
        f"capture instance {instance} records column(s) {names}, which bronze does not have: rows that were "
        'loaded before hold no value for them. Accept that with new_columns="null", which adds the columns; '
        "to have the values, take a new snapshot after that, mssql_cdc_bootstrap(resnapshot=True)"
    )
