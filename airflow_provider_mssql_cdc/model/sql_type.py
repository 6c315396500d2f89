"""A column's declared type, from the catalog, checked before it is written into SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LENGTH = -1
"""``max_length`` of the (max) types."""

CHAR_TYPES = frozenset({"char", "varchar", "nchar", "nvarchar"})
BINARY_TYPES = frozenset({"binary", "varbinary"})
INTEGER_TYPES = frozenset({"tinyint", "smallint", "int", "bigint"})
_SCALED_TYPES = frozenset({"time", "datetime2", "datetimeoffset"})
_PLAIN_TYPES = frozenset(
    "bit date datetime smalldatetime money smallmoney real float uniqueidentifier rowversion "
    "text ntext image xml sql_variant hierarchyid geography geometry json vector clr".split()
)
_SYNONYMS = {"timestamp": "rowversion", "numeric": "decimal", "sysname": "nvarchar"}
_COLLATION_NAME = re.compile(r"[A-Za-z0-9_]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class SqlType:
    """A system type of SQL Server with its length, precision, scale and collation.

    :param name: system type name in lower case; ``timestamp`` is spelled ``rowversion`` and
        ``numeric`` is spelled ``decimal``; ``clr`` is any type of a user's assembly.
    :param max_length: bytes, as ``sys.columns.max_length`` has it; :data:`MAX_LENGTH` for (max).
    :param precision: digits of a decimal.
    :param scale: digits after the point of a decimal, or of a time's seconds.
    :param collation: of a char type, as the catalog names it.
    """

    name: str
    max_length: int = 0
    precision: int = 0
    scale: int = 0
    collation: str | None = None

    def __post_init__(self) -> None:
        known = CHAR_TYPES | BINARY_TYPES | INTEGER_TYPES | _SCALED_TYPES | _PLAIN_TYPES | {"decimal"}
        if self.name not in known:
            raise ValueError(f"unknown SQL Server type {self.name!r}")
        if self.collation is not None and not _COLLATION_NAME.match(self.collation):
            raise ValueError(f"not a collation name: {self.collation!r}")
        if self.name == "decimal" and not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise ValueError(f"decimal({self.precision},{self.scale}) is no SQL Server type")
        if self.name in _SCALED_TYPES and not 0 <= self.scale <= 7:
            raise ValueError(f"{self.name}({self.scale}) is no SQL Server type")
        if self.name in CHAR_TYPES | BINARY_TYPES and not self._length_is_valid():
            raise ValueError(f"{self.name} of {self.max_length} bytes is no SQL Server type")

    @classmethod
    def from_catalog(
        cls, name: str, max_length: int, *, precision: int = 0, scale: int = 0, collation: str | None = None
    ) -> SqlType:
        """Build the type from a row of ``sys.columns``; what does not belong to the type is left out.

        :param name: of the base type; a name that is no system type is a user's CLR type.
        """
        name = _SYNONYMS.get(name.lower(), name.lower())
        if name == "decimal":
            return cls(name, precision=precision, scale=scale)
        if name in _SCALED_TYPES:
            return cls(name, scale=scale)
        if name in CHAR_TYPES | BINARY_TYPES:
            return cls(name, max_length, collation=collation)
        known = name in _PLAIN_TYPES | INTEGER_TYPES
        return cls(name if known else "clr", collation=collation if name in {"text", "ntext"} else None)

    def _length_is_valid(self) -> bool:
        fixed = self.name in {"char", "nchar", "binary"}
        return 1 <= self.max_length <= 8000 or (self.max_length == MAX_LENGTH and not fixed)

    @property
    def is_max(self) -> bool:
        """Whether the value is a large object, streamed apart from the row."""
        sized = self.name in CHAR_TYPES | BINARY_TYPES
        return self.max_length == MAX_LENGTH if sized else self.name in {"text", "ntext", "image", "xml"}

    @property
    def is_large(self) -> bool:
        """Whether CDC may leave the value out of a before-image.

        https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
        (Large Object Data Types); types that the page does not name are taken for large where their values
        are stored as large objects.
        """
        return self.is_max or self.name in {"json", "geography", "geometry", "clr"}

    @property
    def is_char(self) -> bool:
        return self.name in CHAR_TYPES

    @property
    def declaration(self) -> str:
        """The type as DDL and CAST spell it, without the collation: ``nvarchar(50)``."""
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name in _SCALED_TYPES:
            return f"{self.name}({self.scale})"
        if self.name in CHAR_TYPES | BINARY_TYPES:
            if self.max_length == MAX_LENGTH:
                return f"{self.name}(max)"
            per_unit = 2 if self.name in {"nchar", "nvarchar"} else 1
            return f"{self.name}({self.max_length // per_unit})"
        return self.name

    def __str__(self) -> str:
        return self.declaration
