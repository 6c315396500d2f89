"""SQL Server's types: families, precedence, ids, lengths; from sys.types and the documentation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_mssql_cdc.embedded.engine.parser.tree import TypeName
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlError, SqlType


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """``family`` groups types that share a Python form; higher ``precedence`` wins when two types meet."""

    family: str
    precedence: int
    system_type_id: int
    user_type_id: int
    length: int
    precision: int = 0
    scale: int = 0


FACTS: dict[str, TypeFacts] = {
    "sql_variant": TypeFacts("opaque", 39, 98, 98, 8016),
    "xml": TypeFacts("string", 38, 241, 241, -1),
    "datetimeoffset": TypeFacts("moment", 37, 43, 43, 10, 34, 7),
    "datetime2": TypeFacts("moment", 36, 42, 42, 8, 27, 7),
    "datetime": TypeFacts("moment", 35, 61, 61, 8, 23, 3),
    "smalldatetime": TypeFacts("moment", 34, 58, 58, 4, 16, 0),
    "date": TypeFacts("moment", 33, 40, 40, 3, 10, 0),
    "time": TypeFacts("moment", 32, 41, 41, 5, 16, 7),
    "float": TypeFacts("float", 31, 62, 62, 8, 53),
    "real": TypeFacts("float", 30, 59, 59, 4, 24),
    "decimal": TypeFacts("decimal", 29, 106, 106, 9, 18, 0),
    "numeric": TypeFacts("decimal", 29, 108, 108, 9, 18, 0),
    "money": TypeFacts("decimal", 28, 60, 60, 8, 19, 4),
    "smallmoney": TypeFacts("decimal", 27, 122, 122, 4, 10, 4),
    "bigint": TypeFacts("integer", 26, 127, 127, 8, 19),
    "int": TypeFacts("integer", 25, 56, 56, 4, 10),
    "smallint": TypeFacts("integer", 24, 52, 52, 2, 5),
    "tinyint": TypeFacts("integer", 23, 48, 48, 1, 3),
    "bit": TypeFacts("integer", 22, 104, 104, 1, 1),
    "ntext": TypeFacts("string", 21, 99, 99, 16),
    "text": TypeFacts("string", 20, 35, 35, 16),
    "image": TypeFacts("binary", 19, 34, 34, 16),
    "timestamp": TypeFacts("binary", 18, 189, 189, 8),
    "uniqueidentifier": TypeFacts("guid", 17, 36, 36, 16),
    "nvarchar": TypeFacts("string", 16, 231, 231, 8000),
    "nchar": TypeFacts("string", 15, 239, 239, 8000),
    "varchar": TypeFacts("string", 14, 167, 167, 8000),
    "char": TypeFacts("string", 13, 175, 175, 8000),
    "varbinary": TypeFacts("binary", 12, 165, 165, 8000),
    "binary": TypeFacts("binary", 11, 173, 173, 8000),
    "hierarchyid": TypeFacts("opaque", 40, 240, 128, 892),
    "geometry": TypeFacts("opaque", 40, 240, 129, -1),
    "geography": TypeFacts("opaque", 40, 240, 130, -1),
}
_ALIASES = {
    "integer": "int",
    "rowversion": "timestamp",
    "dec": "decimal",
}
_BOUNDS = {
    "bit": (0, 1),
    "tinyint": (0, 255),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
NATIONAL = frozenset({"nchar", "nvarchar", "ntext", "xml"})
PADDED = frozenset({"char", "nchar", "binary"})
SIZED = frozenset({"char", "varchar", "nchar", "nvarchar", "binary", "varbinary"})

INT = SqlType("int")
BIGINT = SqlType("bigint")
BIT = SqlType("bit")
FLOAT = SqlType("float")
DATETIME = SqlType("datetime")


def facts(type_: SqlType) -> TypeFacts:
    return FACTS[type_.name]


def family(type_: SqlType) -> str:
    return FACTS[type_.name].family


def nvarchar(characters: int = 4000, collation: str | None = None) -> SqlType:
    """``characters`` -1 is max."""
    return SqlType("nvarchar", MAX if characters < 0 else 2 * characters, collation=collation)


def varchar(length: int = 8000, collation: str | None = None) -> SqlType:
    return SqlType("varchar", length, collation=collation)


def decimal(precision: int, scale: int = 0) -> SqlType:
    return SqlType("decimal", precision=precision, scale=scale)


def integer_bounds(type_: SqlType) -> tuple[int, int]:
    return _BOUNDS[type_.name]


def is_text(type_: SqlType) -> bool:
    return family(type_) == "string"


def is_wide(type_: SqlType) -> bool:
    """A decimal that is stored as 16 bytes."""
    return type_.name in ("decimal", "numeric") and (type_.precision or 18) > 18


def characters(type_: SqlType) -> int | None:
    """The declared number of characters (bytes for char and varchar); None for max."""
    if type_.length is None or type_.length == MAX:
        return None
    return type_.length // 2 if type_.name in NATIONAL else type_.length


def from_name(name: TypeName, *, default_length: int = 1) -> SqlType:
    """A built-in type as written in SQL. ``default_length``: 1 in declarations, 30 in CAST. Error 243."""
    base = name.name[-1].lower()
    base = _ALIASES.get(base, base)
    if base == "sysname":
        return nvarchar(128)
    if base not in FACTS or len(name.name) > 2 or (len(name.name) == 2 and name.name[0].lower() != "sys"):
        raise SqlError(243, f"Type {'.'.join(name.name)} is not a defined system type.")
    return _with_arguments(base, name.arguments, default_length)


def _with_arguments(base: str, arguments: tuple[int, ...], default_length: int) -> SqlType:
    first = arguments[0] if arguments else None
    if base in SIZED:
        length = default_length if first is None else first
        _check_length(base, length)
        return SqlType(base, MAX if length == -1 else length * 2 if base in NATIONAL else length)
    if base in ("decimal", "numeric"):
        scale = arguments[1] if len(arguments) > 1 else 0
        precision = 18 if first is None else first
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise SqlError(2750, f"Column or parameter has an invalid precision or scale: {base}.")
        return SqlType(base, precision=precision, scale=scale)
    if base in ("time", "datetime2", "datetimeoffset"):
        return SqlType(base, scale=7 if first is None else first)
    if base == "float":
        return SqlType("real" if first is not None and first <= 24 else "float")
    return SqlType(base)


def _check_length(base: str, length: int) -> None:
    limit = 4000 if base in NATIONAL else 8000
    if length == -1 and base not in PADDED:
        return
    if not 1 <= length <= limit:
        raise SqlError(
            131, f"The size ({length}) given to the type '{base}' exceeds the maximum allowed ({limit}).", 15
        )


def _scaled(small: int, scale: int) -> int:
    return small + (0 if scale <= 2 else 1 if scale <= 4 else 2)


def max_length(type_: SqlType) -> int:
    """``sys.columns.max_length``."""
    if type_.length is not None:
        return type_.length
    if type_.name in ("decimal", "numeric"):
        precision = type_.precision or 18
        return 5 if precision <= 9 else 9 if precision <= 19 else 13 if precision <= 28 else 17
    small = {"time": 3, "datetime2": 6, "datetimeoffset": 8}.get(type_.name)
    if small is not None:
        return _scaled(small, 7 if type_.scale is None else type_.scale)
    return facts(type_).length


def catalog_precision(type_: SqlType) -> tuple[int, int]:
    """``sys.columns.precision`` and ``scale``."""
    if type_.name in ("decimal", "numeric"):
        return type_.precision or 18, type_.scale or 0
    base = {"time": 8, "datetime2": 19, "datetimeoffset": 26}.get(type_.name)
    if base is not None:
        scale = 7 if type_.scale is None else type_.scale
        return base + (scale + 1 if scale else 0), scale
    return facts(type_).precision, facts(type_).scale


def as_decimal(type_: SqlType) -> SqlType:
    """The exact numeric type that holds every value of an integer or money type."""
    if type_.name in ("decimal", "numeric"):
        return type_
    return decimal(facts(type_).precision, facts(type_).scale)


def _common_decimal(left: SqlType, right: SqlType) -> SqlType:
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale or 0, b.scale or 0)
    whole = max((a.precision or 0) - (a.scale or 0), (b.precision or 0) - (b.scale or 0))
    return decimal(min(38, whole + scale), min(scale, 38))


def _longer(left: SqlType, right: SqlType, name: str) -> SqlType:
    sizes = [
        characters(t) if t.name in SIZED else None if t.length is None else t.length for t in (left, right)
    ]
    if None in sizes:
        length = MAX
    else:
        size = max(s for s in sizes if s is not None)
        length = min(size * 2, 8000) if name in NATIONAL else min(size, 8000)
    return SqlType(name, length, collation=left.collation or right.collation)


def common(left: SqlType, right: SqlType) -> SqlType:
    """The type that two operands are brought to (data type precedence)."""
    if left == right:
        return left
    high, low = (left, right) if facts(left).precedence >= facts(right).precedence else (right, left)
    if family(high) == "decimal" and family(low) in ("decimal", "integer"):
        return high if high.name == low.name and high.name.endswith("money") else _common_decimal(high, low)
    if family(high) == family(low) and high.name in SIZED and low.name in SIZED:
        return _longer(high, low, {"char": "varchar", "nchar": "nvarchar"}.get(high.name, high.name))
    if high.name in ("datetime2", "datetimeoffset", "time"):
        scales = [
            {"datetime": 3, "smalldatetime": 0, "date": 0}.get(t.name, t.scale)
            for t in (high, low)
            if family(t) == "moment"
        ]
        if high.name != "time" and any(t.name == "datetime" for t in (high, low)):
            return replace(high, scale=7)
        return replace(high, scale=max(s or 0 for s in scales) if scales else 7)
    return high
