"""Map column names to the lake, decide on changed columns, and check that casts keep keys distinct."""

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
"""Bronze's technical columns."""

# The characters that Spark and Delta refuse in a column name unless column mapping is on ("Found invalid
# character(s) among ' ,;{}()\n\t=' in the column names"), which delta-rs does not write.
_REFUSED = r" ,;{}()=\t\n"
_ENCODED = re.compile(rf"[{_REFUSED}]|_(?=x[0-9A-Fa-f]{{4}}[_{_REFUSED}])")
_GROUP = re.compile(r"_x([0-9A-F]{4})_")


def lake_name(source_name: str) -> str:
    """Return the name in Delta: ``_x0020_`` for a blank; a name without refused characters is unchanged."""
    return _ENCODED.sub(lambda match: f"_x{ord(match[0]):04X}_", source_name)


def source_name(lake_name: str) -> str:
    """Return the source's name: the inverse of :func:`lake_name`."""
    return _GROUP.sub(lambda match: chr(int(match[1], 16)), lake_name)


def is_reserved(name: str) -> bool:
    """Whether a column has the name of one of bronze's technical columns, ignoring case."""
    return _folded(name) in RESERVED_NAMES


def indistinct(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Group lake names that are equal ignoring case, as Delta compares them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[_folded(name)].append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _folded(name: str) -> str:
    """Fold a name to lower case, character by character, like Spark and delta-rs."""
    return name.lower()


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """Hold the differences between a capture instance's columns and bronze's.

    :param added: columns that are recorded and not in bronze.
    :param retyped: one sentence for each column whose type in the lake differs.
    :param absent: lake names of columns that are in bronze and not recorded by the instance.
    """

    added: tuple[LakeColumn, ...] = ()
    retyped: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaDecision:
    """Hold the decision for one capture instance.

    :param add: columns to add to bronze, NULL in existing rows.
    :param dropped: source names that no longer exist; their columns stay, NULL in later rows.
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

    :param source_columns: the current columns of the source table.
    :param recorded: (name, column id) of the instance's columns.
    :param accept_nulls: new columns may be NULL in existing rows (``new_columns="null"``).
    :raises SchemaDrift: values would be lost, or replaced by NULL without ``new_columns="null"``.
    """
    # A column that was dropped and added again has a new column id: the instance still records the old
    # one, and its change table holds NULL from then on (Microsoft Learn, "What is change data capture",
    # handling changes to source tables).
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
        f"capture instance {instance} must record column(s) {', '.join(sorted(set(names)))}, which are in "
        "bronze and in the source table (not in @captured_column_list, or dropped and added again): their "
        "values would become NULL. Enable a second capture instance that records them and name it as "
        "capture_instance; if it begins above the position, read the older one up to its start first"
    )


def _retyped(instance: str, sentences: Sequence[str]) -> str:
    return (
        f"capture instance {instance}: {'; '.join(sentences)}. delta-rs cannot widen the type of a column: "
        'keep the old type with casts={"<column>": "<the old type>"} while the values fit, or load into a '
        "new bronze path"
    )


def _added(instance: str, columns: Sequence[LakeColumn]) -> str:
    names = ", ".join(column.source_name for column in columns)
    return (
        f"capture instance {instance} records column(s) {names}, which bronze does not have: existing rows "
        'have no value for them. Add the columns, with NULL in existing rows, by new_columns="null"; to load '
        "the values, take a new snapshot afterwards, mssql_cdc_bootstrap(resnapshot=True)"
    )


_DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_BYTES = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "uniqueidentifier": 16, "rowversion": 8}
_SCALES = {"money": 4, "smallmoney": 4}
_EXACT_DIGITS = {"float": 15, "real": 6}
"""Decimal digits of an integer that these types always hold exactly."""
_WIDE_CHARS = frozenset({"nchar", "nvarchar"})
_MICROSECOND_DIGITS = 6
_SECONDS = {"smalldatetime": 0, "datetime": 3, "date": 0}
"""Fractional digits of the seconds; three distinguish datetime's ticks of 1/300 s."""
_DATETIME_DIGITS = 2
"""Fractional digits that datetime always holds distinct."""
# The encoding of hierarchyid is limited to 892 bytes, and ToString() returns nvarchar(4000) (Microsoft
# Learn, "hierarchyid data type method reference").
_HIERARCHY_CHARACTERS, _HIERARCHY_BYTES = 4000, 892


def is_one_to_one(source: SqlType, target: SqlType) -> bool:
    """Whether a cast from ``source`` to ``target`` keeps all key values distinct in the lake."""
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
    """Whether a cast to a char type keeps values distinct: it must be long enough and keep Unicode."""
    # The projection renders other types exactly. SQL Server ignores trailing blanks in comparisons, so
    # padding to char(n) makes no two keys equal that were not.
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
    """Return the characters, or bytes, that a type can hold."""
    if sql_type.is_max:
        return float("inf")
    return sql_type.max_length // (2 if sql_type.name in _WIDE_CHARS else 1)


def _as_number(source: SqlType, target: SqlType) -> bool:
    """Whether a cast to a number keeps values distinct: no digit may be rounded."""
    # A number that is too large is an error (8115, 220), never another number.
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
    """Whether a cast to a date or time keeps values distinct: no digit rounded, no offset dropped."""
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
    """List one sentence for each key column whose cast may make two keys equal."""
    casts = {column.source.name: column.cast for column in planned}
    return [
        f"casts: key column {shown(column.name)} ({column.sql_type}) must be cast to a type that keeps its "
        f"values distinct, got {cast}: silver would lose rows. Remove the cast, or name such a type"
        f"{_suggested(column.sql_type)}"
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
    """List one sentence for each char or varchar key column in another code page than the database."""
    # CDC keeps captured values in variables of the database's collation: characters outside ASCII may
    # change on the way to the change table, and only there ("Collation differences" in Microsoft Learn,
    # "Known limitations, issues, and errors with CDC").
    accepted = {name.casefold() for name in allow}
    return [
        f"key column {shown(column.name)} ({column.sql_type}, {column.sql_type.collation}) must have the "
        "code "
        f"page of the database ({facts.database_collation}): change rows may hold other characters than the "
        "table, and silver would duplicate or lose rows. Make the column nvarchar or give it the database's "
        f'collation; if it holds only ASCII, use allow=("{column.name}",)'
        for column in key
        if column.name.casefold() not in accepted and is_of_other_code_page(column, facts)
    ]


def is_of_other_code_page(column: Column, facts: SourceFacts) -> bool:
    """Whether CDC may change the column's characters; an unknown code page counts as another one."""
    collation = column.sql_type.collation
    if column.sql_type.name not in {"char", "varchar"} or facts.database_collation is None:
        return False
    if collation is None or collation == facts.database_collation:
        return False
    pages: Mapping[str, int | None] = facts.code_pages
    page = pages.get(collation)
    return page is None or page != pages.get(facts.database_collation)
