"""The source table: its columns and SQL types, there and in the lake, its indexes, facts for preflight."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import SourceIdentity

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
    """Hold a system type of SQL Server with its length, precision, scale and collation.

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
            raise ValueError(f"name must be a SQL Server type, got {self.name!r}")
        if self.collation is not None and not _COLLATION_NAME.match(self.collation):
            raise ValueError(f"collation must be a collation name, got {self.collation!r}")
        if self.name == "decimal" and not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise ValueError(
                "decimal must have 1 <= precision <= 38 and 0 <= scale <= precision, got "
                f"({self.precision},{self.scale})"
            )
        if self.name in _SCALED_TYPES and not 0 <= self.scale <= 7:
            raise ValueError(f"{self.name} must have a scale in [0, 7], got {self.scale}")
        if self.name in CHAR_TYPES | BINARY_TYPES and not self._length_is_valid():
            raise ValueError(f"{self.name} must have a valid length in bytes, got {self.max_length}")

    @classmethod
    def from_catalog(
        cls, name: str, max_length: int, *, precision: int = 0, scale: int = 0, collation: str | None = None
    ) -> SqlType:
        """Build the type from a row of ``sys.columns``; ignores values that the type does not have.

        :param name: name of the base type; a name that is not a system type is a user's CLR type.
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
        """Whether the value is a large object, which drivers stream separately from the row."""
        sized = self.name in CHAR_TYPES | BINARY_TYPES
        return self.max_length == MAX_LENGTH if sized else self.name in {"text", "ntext", "image", "xml"}

    @property
    def is_large(self) -> bool:
        """Whether CDC may omit the value from a before-image."""
        # https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql
        # ("Large Object Data Types"). Types that the page does not name count as large when their values are
        # stored as large objects.
        return self.is_max or self.name in {"json", "geography", "geometry", "clr"}

    @property
    def declaration(self) -> str:
        """The type in the syntax of DDL and CAST, without the collation: ``nvarchar(50)``."""
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


@dataclass(frozen=True, slots=True)
class Column:
    """Hold one column of the source table.

    :param name: the catalog's spelling.
    :param column_id: ``sys.columns.column_id``.
    :param sql_type: base type; an alias type is resolved to it.
    :param nullable: whether the source column accepts NULL.
    :param computed: its value is computed; CDC stores NULL for it.
    :param masked: this login reads a mask: dynamic data masking is on and the login lacks UNMASK.
    :param encrypted: Always Encrypted; only ciphertext can be read.
    :param column_set: the XML view of the sparse columns.
    :param captured: whether the capture instance records it.
    :param utf16: the server casts strings to their UTF-16 units, like every SQL Server; other engines may
        return other bytes.
    """

    name: str
    column_id: int
    sql_type: SqlType
    nullable: bool = True
    computed: bool = False
    masked: bool = False
    encrypted: bool = False
    column_set: bool = False
    captured: bool = True
    utf16: bool = True


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Hold a table's names in the catalog's spelling; ``object_id`` identifies the table."""

    database: str
    schema: str
    name: str
    object_id: int

    @property
    def label(self) -> str:
        """``schema.table`` for logs and messages."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """Hold a captured column of bronze.

    :param name: its name in Delta; differs from the source's when Spark would refuse that name.
    :param source_name: the catalog's spelling.
    :param data_type: ``bool``, ``int16``, ``int32``, ``int64``, ``float32``, ``float64``,
        ``decimal(p,s)``, ``date``, ``timestamp_ntz``, ``timestamp`` (UTC), ``string`` or ``binary``.
    :param comment: the column's comment in Delta: source name and type, and what the mapping changes.
    :param large: declared as a (max) type, text, ntext, image, xml or another large object: CDC omits such
        values from before-images, so two images of one row may differ in them.
    """

    name: str
    source_name: str
    data_type: str
    comment: str = ""
    large: bool = False


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """Hold one column of the SELECT list: the source column, its projection and its column in the lake.

    :param projection: T-SQL that both drivers read to equal values, for instance ``CAST([qty] AS
        smallint)``; percent signs are doubled as in a :class:`~..tsql.statement.Statement`.
    :param cast: target type of the user's cast; None without one.
    """

    source: Column
    lake: LakeColumn
    projection: str
    cast: SqlType | None = None


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """Hold one unique index of ``sys.indexes``.

    :param columns: its key columns in key order (``key_ordinal``), without INCLUDE columns.
    :param clustered: its ``index_id`` is 1
        (https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-indexes-transact-sql).
    :param filtered: it covers only some rows, so it does not identify a row.
    """

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    filtered: bool = False
    disabled: bool = False
    clustered: bool = False


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Hold the answers of the catalog and of the CDC procedures; None when the login's rights hide them.

    :param capture_instance: in the user's spelling.
    :param login: the database user, for messages that name a missing GRANT.
    :param cdc_enabled: whether CDC is on in the database.
    :param table: the source table, when it is visible.
    :param likely_table: (schema, name) from the user, else from the instance's name; it may not exist.
    :param tracked: ``sys.tables.is_tracked_by_cdc``; None when no table is visible.
    :param instance: the capture instance, when the help procedure returns it.
    :param other_instances: names of the table's (or database's) other visible capture instances.
    :param select_denied: captured columns that the login may not SELECT.
    :param may_read_changes: whether the login has SELECT on the change table.
    :param in_gating_role: membership of the instance's role; None without a role.
    :param row_level_security: an enabled security policy filters the table.
    :param may_unmask: the login reads the values of masked columns.
    :param last_capture_age_seconds: since the newest entry of ``cdc.lsn_time_mapping``.
    :param snapshot_allowed: ALLOW_SNAPSHOT_ISOLATION is on.
    :param partitioned: the table is partitioned, so partitions may be switched without changes.
    :param code_pages: code pages of the database's collation and of those that differ from it; empty when
        none differs.
    """

    capture_instance: str
    login: str
    database: str
    cdc_enabled: bool | None = None
    table: SourceTable | None = None
    likely_table: tuple[str, str] | None = None
    tracked: bool | None = None
    instance: CaptureInstance | None = None
    other_instances: tuple[str, ...] = ()
    select_denied: tuple[str, ...] = ()
    may_read_changes: bool | None = None
    in_gating_role: bool | None = None
    row_level_security: bool | None = None
    may_unmask: bool | None = None
    last_capture_age_seconds: float | None = None
    snapshot_allowed: bool | None = None
    read_committed_snapshot: bool | None = None
    memory_optimized: bool | None = None
    partitioned: bool | None = None
    database_collation: str | None = None
    code_pages: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """What every read and every commit of one snapshot have in common.

    :param identity: of the source table.
    :param instance: name of the capture instance.
    :param snapshot: S.
    :param commit_ts: commit time of S (UTC), None where S is not a mapped commit.
    :param columns: as planned.
    :param run: eight hex digits that name the Airflow run; a resnapshot leaves them in bronze.
    :param run_id: Airflow's own, for the commit's entry in the log.
    """

    identity: SourceIdentity
    instance: str
    snapshot: Lsn
    commit_ts: datetime | None
    columns: tuple[LakeColumn, ...]
    run: str
    run_id: str
