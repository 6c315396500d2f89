"""Map captured columns to Delta types, and refuse columns that cannot be loaded."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.source_table import (
    BINARY_TYPES,
    CHAR_TYPES,
    MAX_LENGTH,
    Column,
    LakeColumn,
    PlannedColumn,
    SqlType,
)
from airflow_provider_mssql_cdc.planning.columns import indistinct, is_reserved, lake_name
from airflow_provider_mssql_cdc.tsql.bounds import text_length
from airflow_provider_mssql_cdc.tsql.snapshot import cast_projection, projection
from airflow_provider_mssql_cdc.tsql.statement import quote_identifier, shown

_ARGUMENTS = r"\(\s*(max|\d{1,4})\s*(?:,\s*(\d{1,2})\s*)?\)"
_DECLARED = re.compile(rf"\s*([A-Za-z][A-Za-z0-9]*)\s*(?:{_ARGUMENTS}\s*)?\Z", re.I | re.ASCII)
_SYNONYMS = {"numeric": "decimal", "dec": "decimal", "integer": "int", "sysname": "nvarchar"}
_SCALED = frozenset({"time", "datetime2", "datetimeoffset"})
_WITHOUT_ARGUMENTS = frozenset(
    "bit tinyint smallint int bigint date datetime smalldatetime money smallmoney real "
    "uniqueidentifier xml".split()
)
_LONGEST_REAL = 24  # float(1) to float(24) is real: Microsoft Learn, "float and real"


def parse_type(text: str) -> SqlType:
    """Read a type such as ``varchar(100)``, ``decimal(18, 4)`` or ``datetime2``.

    :raises ValueError: the text is not a type that a column can be cast to.
    """
    match = _DECLARED.match(text)
    if not match:
        raise ValueError(f"a type must be written like varchar(100) or decimal(18, 4), got {text!r}")
    name = _SYNONYMS.get(match[1].lower(), match[1].lower())
    length, scale = match[2], match[3]
    try:
        return _build(name, length.lower() if length else None, scale)
    except ValueError as exc:
        raise ValueError(f"a type must be one that a column can be cast to, got {text!r} ({exc})") from exc


def _build(name: str, length: str | None, scale: str | None) -> SqlType:
    if scale is not None and name != "decimal":
        raise ValueError(f"{name} must not have a second number")
    if name in CHAR_TYPES | BINARY_TYPES:
        return SqlType(name, _bytes(name, length))
    if length == "max":
        raise ValueError(f"{name} must not have (max)")
    if name == "decimal":
        return SqlType(name, precision=int(length or 18), scale=int(scale or 0))
    if name in _SCALED:
        return SqlType(name, scale=7 if length is None else int(length))
    if name == "float":
        return SqlType("real" if length and int(length) <= _LONGEST_REAL else "float")
    if name in _WITHOUT_ARGUMENTS and length is None:
        return SqlType(name)
    raise ValueError("allowed are numbers, dates, times, char and binary types, uniqueidentifier and xml")


def _bytes(name: str, length: str | None) -> int:
    """Return the length in bytes of a declared type.

    :raises ValueError: no length is given.
    """
    # CAST to varchar without a length uses 30 characters and cuts longer values silently (Microsoft Learn,
    # "char and varchar").
    if length is None:
        raise ValueError(f"{name} must have a length, for instance {name}(100)")
    if length == "max":
        return MAX_LENGTH
    return int(length) * (2 if name in {"nchar", "nvarchar"} else 1)


_LAKE_TYPES = {
    "bit": "bool",
    "tinyint": "int16",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "real": "float32",
    "float": "float64",
    "money": "decimal(19,4)",
    "smallmoney": "decimal(10,4)",
    "date": "date",
    "datetime": "timestamp_ntz",
    "smalldatetime": "timestamp_ntz",
    "datetime2": "timestamp_ntz",
    "datetimeoffset": "timestamp",
    "time": "string",
    "uniqueidentifier": "string",
    "text": "string",
    "ntext": "string",
    "xml": "string",
    "json": "string",
    "vector": "string",
    "image": "binary",
    "rowversion": "binary",
    **dict.fromkeys(CHAR_TYPES, "string"),
    **dict.fromkeys(BINARY_TYPES, "binary"),
}
_MICROSECOND_DIGITS = 6

ROW_LEVEL_SECURITY = "row_level_security"
"""Value of ``allow`` that accepts a table with row-level security."""

KEY_MAY_REPEAT = "key_without_unique_index"
"""Value of ``allow`` that accepts a silver key without an unfiltered unique index."""

KEY_MAY_MOVE_UNSEEN = "key_of_indistinct_rows"
"""Value of ``allow`` that accepts a silver key where no other captured columns identify a row."""

ALLOWED_WORDS = frozenset({ROW_LEVEL_SECURITY, KEY_MAY_REPEAT, KEY_MAY_MOVE_UNSEEN})
"""Values of ``allow`` that are not column names."""


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Hold the SELECT list of a table, with its problems and warnings.

    :param columns: planned columns, in the table's order.
    :param problems: one sentence each, with its remedy; a plan with problems is not used.
    :param warnings: columns that are left out or changed, one sentence each.
    """

    columns: tuple[PlannedColumn, ...]
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_columns(
    columns: Sequence[Column],
    casts: Mapping[str, str],
    allow: Collection[str] = frozenset(),
) -> ColumnPlan:
    """Plan every captured column.

    :param columns: of the source table, in its order.
    :param casts: ``{column: SQL type}`` by the user.
    :param allow: masked or encrypted columns that the user accepts in the form they are read.
    """
    targets, problems = _targets(columns, casts)
    accepted, unknown = _accepted(columns, allow)
    problems += unknown
    warnings: list[str] = []
    planned: list[PlannedColumn] = []
    for column in (column for column in columns if column.captured or not column.column_set):
        omission = _omission(column)
        refusal = None if omission else _refusal(column, targets, allow=accepted)
        if omission is not None:
            warnings.append(omission)
        elif refusal is not None:
            problems.append(refusal)
        else:
            planned.append(_planned(column, targets.get(column.name)))
    problems += _name_problems(planned)
    if not planned and not problems:
        problems.append("at least one column must be captured by CDC and not computed, got none")
    return ColumnPlan(tuple(planned), tuple(problems), tuple(warnings))


def find_column(columns: Sequence[Column], name: str) -> Column:
    """Find a column by name: the exact one first, else the only one equal ignoring case.

    :raises ValueError: no such column, or several that differ by case only.
    """
    exact = [column for column in columns if column.name == name]
    found = exact or [column for column in columns if column.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError(f"the table has no column {shown(name)}")
    names = ", ".join(shown(column.name) for column in found)
    raise ValueError(f"{shown(name)} must be spelled like one of {names}")


def _accepted(columns: Sequence[Column], allow: Collection[str]) -> tuple[frozenset[str], list[str]]:
    """Return the columns that ``allow`` names, and a problem for each unknown name."""
    accepted: set[str] = set()
    problems: list[str] = []
    for name in allow:
        try:
            accepted.add(find_column(columns, name).name)
        except ValueError as exc:
            if name not in ALLOWED_WORDS:
                problems.append(f"allow: {exc}")
    return frozenset(accepted), problems


def _targets(columns: Sequence[Column], casts: Mapping[str, str]) -> tuple[dict[str, SqlType], list[str]]:
    targets: dict[str, SqlType] = {}
    problems: list[str] = []
    for name, text in casts.items():
        try:
            column = find_column(columns, name)
            target = parse_type(text)
        except ValueError as exc:
            problems.append(f"casts: {exc}")
            continue
        problem = _cast_problem(column, target)
        if column.name in targets:
            problem = f"column {shown(column.name)} must be named once, got it twice"
        if problem is None:
            targets[column.name] = target
        else:
            problems.append(f"casts: {problem}")
    return targets, problems


def _cast_problem(column: Column, target: SqlType) -> str | None:
    """Refuse a cast whose target is too short for the source type."""
    # CAST cuts a string that is too long without an error.
    needed = text_length(column.sql_type)
    if target.name in CHAR_TYPES and needed is not None and not target.is_max:
        characters = target.max_length // (2 if target.name in {"nchar", "nvarchar"} else 1)
        if characters < needed:
            return f"{_label(column)} must be cast to at least {needed} characters, got {target}"
    return None


def _omission(column: Column) -> str | None:
    if not column.captured:
        return f"{_label(column)} is not captured by CDC and is left out"
    if column.computed:
        return f"{_label(column)} is computed and is left out: CDC records NULL for computed columns"
    return None


def _refusal(column: Column, targets: Mapping[str, SqlType], *, allow: Collection[str]) -> str | None:
    """Say why a column cannot be planned and what to do; None when it can."""
    if column.column_set:
        return (
            f"{_label(column)} must not be a column set, the XML view of the sparse columns: enable CDC with "
            "a @captured_column_list that names the sparse columns instead"
        )
    if column.encrypted and column.name not in allow:
        return (
            f"{_label(column)} is encrypted (Always Encrypted), and only its ciphertext can be read: remove "
            "it from @captured_column_list, or load the ciphertext as binary with "
            f'allow=("{column.name}",)'
        )
    if column.masked and column.name not in allow:
        return (
            f"{_label(column)} is masked and this login would read the mask: GRANT UNMASK to it, remove the "
            f'column from @captured_column_list, or accept the mask with allow=("{column.name}",)'
        )
    if column.encrypted or column.name in targets:
        return None
    if column.sql_type.name != "decimal" and column.sql_type.name not in _LAKE_TYPES:
        return (
            f"{_label(column)} must be cast, since Delta has no such type: for instance "
            f'casts={{"{column.name}": "{_suggestion(column.sql_type)}"}}'
        )
    return None


def _suggestion(sql_type: SqlType) -> str:
    return {"geography": "varchar(max)", "geometry": "varchar(max)"}.get(sql_type.name, "nvarchar(4000)")


def _planned(column: Column, target: SqlType | None) -> PlannedColumn:
    if column.encrypted:
        read, data_type = quote_identifier(column.name), "binary"
    elif target is None:
        read, data_type = projection(column), lake_type(column.sql_type)
    else:
        read, data_type = cast_projection(column, target), lake_type(target)
    comment, large = _comment(column, target), column.sql_type.is_large
    lake = LakeColumn(lake_name(column.name), column.name, data_type, comment, large)
    return PlannedColumn(column, lake, read, None if column.encrypted else target)


def lake_type(sql_type: SqlType) -> str:
    """Return the lake's type for a source type, or for the target of a user's cast.

    :raises ValueError: for a type that needs a cast.
    """
    if sql_type.name == "decimal":
        return f"decimal({sql_type.precision},{sql_type.scale})"
    if sql_type.name not in _LAKE_TYPES:
        raise ValueError(f"a type must have a counterpart in the lake, got {sql_type}")
    return _LAKE_TYPES[sql_type.name]


def _comment(column: Column, target: SqlType | None) -> str:
    """Write the column's comment in Delta: its source and what the mapping changes."""
    read_as = target or column.sql_type
    parts = [f"{shown(column.name)} {column.sql_type}"]
    if target is not None:
        parts.append(f"cast to {target}")
    if column.encrypted:
        parts.append("ciphertext")
    elif read_as.name in {"datetime2", "datetimeoffset"} and read_as.scale > _MICROSECOND_DIGITS:
        parts.append("the 100 ns digit is cut")
    if read_as.name == "datetimeoffset" and not column.encrypted:
        parts.append("in UTC, the offset is not kept")
    return ", ".join(parts)


def _name_problems(planned: Sequence[PlannedColumn]) -> list[str]:
    problems = [
        f"{_label(column.source)} must not have the name of a technical column of bronze: remove it from "
        "@captured_column_list or rename it"
        for column in planned
        if is_reserved(column.lake.name)
    ]
    sources = {column.lake.name: column.source.name for column in planned}
    for group in indistinct(column.lake.name for column in planned):
        names = " and ".join(shown(sources[name]) for name in group)
        problems.append(
            f"columns {names} must differ by more than case, which Delta ignores: remove one from "
            "@captured_column_list"
        )
    return problems


def _label(column: Column) -> str:
    kind = "a CLR type" if column.sql_type.name == "clr" else str(column.sql_type)
    return f"column {shown(column.name)} ({kind})"
