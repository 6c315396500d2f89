"""The state of bronze and of silver, stored in Delta transactions."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Coverage:
    """Hold the LSN span ``(base, changes]`` of which bronze has every change."""

    base: Lsn
    changes: Lsn

    def __post_init__(self) -> None:
        if self.changes < self.base:
            raise ValueError(f"coverage must end at or above its base {self.base}, got {self.changes}")


@dataclass(frozen=True, slots=True)
class BronzeState:
    """Hold the state at one version of bronze, read with the handle that a commit will use.

    :param version: version of the Delta table.
    :param snapshot: S of the newest complete snapshot.
    :param open: S of the newest chunked snapshot that was opened.
    :param coverage: of changes; None before the first snapshot.
    :param abandoned: incomplete chunked snapshots up to this S have been abandoned.
    :param source_object: object id of the loaded source table; None until a commit records it.
    """

    version: int
    snapshot: Lsn | None = None
    open: Lsn | None = None
    coverage: Coverage | None = None
    abandoned: Lsn | None = None
    source_object: int | None = None

    @property
    def unfinished(self) -> Lsn | None:
        """S of the chunked snapshot that is being loaded: open, above the complete one, not abandoned."""
        over = [lsn for lsn in (self.snapshot, self.abandoned) if lsn is not None]
        return self.open if self.open is not None and all(self.open > lsn for lsn in over) else None

    @property
    def newest(self) -> Lsn | None:
        """The largest S in bronze, complete or open."""
        return max((lsn for lsn in (self.snapshot, self.open) if lsn is not None), default=None)


@dataclass(frozen=True, slots=True)
class Fold:
    """The newest fold of bronze: its state at an LSN, written as a snapshot from bronze's own rows.

    :param at: F, the LSN of that state; S of the snapshot that the fold wrote.
    :param older: S of the snapshot whose rows it took out.
    :param version: the version of bronze that held every row that it took out; a silver that has merged it,
        from the older snapshot, goes on without a rebuild.
    """

    at: Lsn
    older: Lsn
    version: int


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Identify the source table of a bronze table (table property ``mssql_cdc.source``).

    :param object_id: object id of the table that now has this name, when it was read from the server; not
        part of the property, and not compared.
    """

    conn_id: str
    database: str
    schema: str
    table: str
    object_id: int | None = field(default=None, compare=False, kw_only=True)

    @property
    def label(self) -> str:
        """Connection, database, schema and table, for messages."""
        return f"{self.conn_id}: {self.database}.{self.schema}.{self.table}"


STATE_RULE = 4
"""Version of the state rule (ADR 10); silver that another version built is rebuilt."""


@dataclass(frozen=True, slots=True)
class SilverPosition:
    """Hold what silver's rows were built from; stored in the same commit as the rows.

    :param bronze: a number of 63 bits derived from bronze's table id.
    :param version: version of bronze; silver includes every change row in it.
    :param snapshot: S of the snapshot that silver was built from.
    :param changes: LSN at which bronze's changes ended.
    :param rule: version of the state rule that built the rows; 0 when none was recorded.
    :param doubled: keys that occur twice in the snapshot and in no change; silver is rebuilt for them once
        changes have passed the horizon.
    """

    # Versions alone do not identify bronze: a table that is created again at the same path starts at zero.

    bronze: int
    version: int
    snapshot: Lsn
    changes: Lsn
    rule: int = STATE_RULE
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Count what a merge or a rebuild changed in silver, in rows and in files.

    :param changed_keys: keys in bronze's new change rows.
    :param inserted: rows of keys that silver did not have.
    :param updated: rows that replaced a row of the same key.
    :param deleted: rows that were removed.
    :param files_kept: files that were not rewritten.
    :param bytes_added: size of the files that were written, in bytes.
    """

    changed_keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_kept: int = 0
    bytes_added: int = 0
