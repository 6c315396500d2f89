"""Column names in the lake, changes of the source's columns, and which casts keep keys distinct."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import SchemaDrift
from airflow_provider_mssql_cdc.model.source_table import (
    BINARY_TYPES,
    CHAR_TYPES,
    INTEGER_TYPES,
    Column,
    LakeColumn,
    PlannedColumn,
    SourceFacts,
    SqlType,
)
from airflow_provider_mssql_cdc.tsql.bounds import is_bindable, text_length
from airflow_provider_mssql_cdc.tsql.statement import shown

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


_DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "uniqueidentifier": 16, "rowversion": 8}
_SCALES = {"money": 4, "smallmoney": 4}
_EXACT_DIGITS = {"float": 15, "real": 6}
"""Decimal digits of a whole number that these hold, whatever the number."""
_WIDE_CHARS = frozenset({"nchar", "nvarchar"})
_MICROSECOND_DIGITS = 6
_SECONDS = {"smalldatetime": 0, "datetime": 3, "date": 0}
"""Digits after the second; datetime's ticks of 1/300 s are apart with three."""
_DATETIME_DIGITS = 2
"""As many digits as datetime holds apart."""
_HIERARCHY_CHARACTERS, _HIERARCHY_BYTES = 4000, 892


def is_one_to_one(source: SqlType, target: SqlType) -> bool:
    """Whether no two key values of ``source`` become one as ``target`` in the lake."""
    if target.name in CHAR_TYPES:
        return _as_text(source, target)
    if target.name in BINARY_TYPES:
        return _as_bytes(source, target)
    if source.name in _DIGITS or source.name == "decimal" or source.name in _SCALES:
        return _as_number(source, target)
    if source.name in {"real", "float"}:
        return target.name == "float" or target.name == source.name
    if source.name == "rowversion":
        return target.name == "bigint"
    if source.name == "time":
        return target.name == "time" and target.scale >= source.scale
    if source.name in _SECONDS or source.name in {"datetime2", "datetimeoffset"}:
        return _as_moment(source, target)
    return source.name == target.name == "uniqueidentifier"


def _as_text(source: SqlType, target: SqlType) -> bool:
    """Texts of other types are exact ones; trailing blanks tell no keys apart, so padding does no harm."""
    if source.name in CHAR_TYPES:
        return _units(target) >= _units(source) and (
            source.name not in _WIDE_CHARS or target.name in _WIDE_CHARS
        )
    if source.name == "hierarchyid":
        return _units(target) >= _HIERARCHY_CHARACTERS
    needed = text_length(source)
    return is_bindable(source) and needed is not None and _units(target) >= needed


def _as_bytes(source: SqlType, target: SqlType) -> bool:
    if source.name in BINARY_TYPES:
        padded = source.name == "varbinary" and target.name == "binary"
        return not padded and _units(target) >= _units(source)
    if source.name == "hierarchyid":
        return target.name == "varbinary" and _units(target) >= _HIERARCHY_BYTES
    if source.name == "clr":
        return target.is_max
    return source.name in _BYTES and _units(target) >= _BYTES[source.name]


def _units(sql_type: SqlType) -> float:
    """Characters, or bytes, that a type has room for."""
    if sql_type.is_max:
        return float("inf")
    return sql_type.max_length // (2 if sql_type.name in _WIDE_CHARS else 1)


def _as_number(source: SqlType, target: SqlType) -> bool:
    """Rounding makes two numbers one; a number that is too large is an error (8115, 220)."""
    scale = _SCALES.get(source.name, source.scale)
    if target.name in INTEGER_TYPES:
        return scale == 0
    if target.name == "decimal" or target.name in _SCALES:
        return _SCALES.get(target.name, target.scale) >= scale
    if target.name in _EXACT_DIGITS:
        digits = _DIGITS.get(source.name, source.precision)
        return scale == 0 and source.name not in _SCALES and digits <= _EXACT_DIGITS[target.name]
    return source.name == target.name == "bit"


def _as_moment(source: SqlType, target: SqlType) -> bool:
    """Digits are rounded, and an offset that is left out makes two instants one."""
    digits = _SECONDS.get(source.name, source.scale)
    if source.name == "datetimeoffset" and target.name != "datetimeoffset":
        return False
    if target.name in {"datetime2", "datetimeoffset"}:
        return digits <= min(target.scale, _MICROSECOND_DIGITS)
    if target.name == "datetime":
        return source.name == "datetime" or digits <= _DATETIME_DIGITS
    if target.name == "smalldatetime":
        return source.name in {"smalldatetime", "date"}
    return source.name == target.name == "date"


def cast_problems(key: Sequence[Column], planned: Sequence[PlannedColumn]) -> list[str]:
    """One sentence for each key column whose cast may turn two keys into one."""
    casts = {column.source.name: column.cast for column in planned}
    return [
        f"casts: column {shown(column.name)} ({column.sql_type}) is part of the key, and {cast} may turn two "
        "of its values into one, so that silver would lose rows: leave the cast out, or name a type that "
        f"holds every value apart{_suggested(column.sql_type)}"
        for column in key
        if (cast := casts.get(column.name)) is not None and not is_one_to_one(column.sql_type, cast)
    ]


def _suggested(sql_type: SqlType) -> str:
    if sql_type.name in CHAR_TYPES:
        return ""
    if sql_type.name == "hierarchyid":
        return ", for instance nvarchar(4000)"
    needed = text_length(sql_type)
    return f", for instance varchar({needed})" if needed else ", or key=(…) that names other columns"


def code_page_problems(key: Sequence[Column], facts: SourceFacts, *, allow: Collection[str]) -> list[str]:
    """One sentence for each char or varchar column of the key in another code page than the database.

    CDC keeps captured values in variables of the database's collation, so characters outside ASCII may
    change on the way to the change table, and to no other rows ("Collation differences",
    learn.microsoft.com, known issues and errors of change data capture).
    """
    accepted = {name.casefold() for name in allow}
    return [
        f"column {shown(column.name)} ({column.sql_type}, {column.sql_type.collation}) is part of the key "
        f"and in another code page than the database ({facts.database_collation}): change rows may hold "
        "other characters than the table, and silver would keep a row twice or lose it. Make the column "
        "nvarchar or give it the database's collation; if it holds ASCII alone, allow it by name, "
        f'allow=("{column.name}",)'
        for column in key
        if column.name.casefold() not in accepted and is_of_other_code_page(column, facts)
    ]


def is_of_other_code_page(column: Column, facts: SourceFacts) -> bool:
    """Whether CDC may change the column's characters; a code page that is not known counts as another."""
    collation = column.sql_type.collation
    if column.sql_type.name not in {"char", "varchar"} or facts.database_collation is None:
        return False
    if collation is None or collation == facts.database_collation:
        return False
    pages: Mapping[str, int | None] = facts.code_pages
    page = pages.get(collation)
    return page is None or page != pages.get(facts.database_collation)
