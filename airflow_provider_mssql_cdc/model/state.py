"""State that Delta transactions hold: of bronze, and of silver."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every change in ``(base, changes]`` is in bronze, none is missing."""

    base: Lsn
    changes: Lsn

    def __post_init__(self) -> None:
        if self.changes < self.base:
            raise ValueError(f"coverage must end at or above its base {self.base}, got {self.changes}")


@dataclass(frozen=True, slots=True)
class BronzeState:
    """The state at one version of bronze, read with the handle that a commit will use.

    :param version: of the Delta table.
    :param snapshot: S of the newest complete snapshot.
    :param open: S of the newest chunked snapshot that was opened.
    :param coverage: of changes; None before the first snapshot.
    :param abandoned: chunked snapshots up to this S that were not complete have been given up.
    :param source_object: object id of the source table that was loaded; None until a commit records it.
    """

    version: int
    snapshot: Lsn | None = None
    open: Lsn | None = None
    coverage: Coverage | None = None
    abandoned: Lsn | None = None
    source_object: int | None = None

    @property
    def unfinished(self) -> Lsn | None:
        """S of the chunked snapshot that is being loaded: open, above the complete one, not given up."""
        over = [lsn for lsn in (self.snapshot, self.abandoned) if lsn is not None]
        return self.open if self.open is not None and all(self.open > lsn for lsn in over) else None

    @property
    def newest(self) -> Lsn | None:
        """The largest S that bronze knows, complete or open."""
        return max((lsn for lsn in (self.snapshot, self.open) if lsn is not None), default=None)


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which source table a bronze table belongs to (table property ``mssql_cdc.source``).

    :param object_id: of the table that has this name now, where a server was asked; another table of the
        same name has another one. Not part of the property, and not compared.
    """

    conn_id: str
    database: str
    schema: str
    table: str
    object_id: int | None = field(default=None, compare=False, kw_only=True)

    @property
    def label(self) -> str:
        """For people: connection, database, schema and table."""
        return f"{self.conn_id}: {self.database}.{self.schema}.{self.table}"


STATE_RULE = 4
"""Version of the state rule (DESIGN, ADR 10); rows that another version made are built again."""


@dataclass(frozen=True, slots=True)
class SilverPosition:
    """What silver's rows were built from; kept in its transactions, in the same commit as the rows.

    :param bronze: a number of 63 bits that stands for bronze's table id: a bronze that is made anew at the
        same place counts its versions from zero.
    :param version: of bronze; every change row in it is in silver.
    :param snapshot: S of the snapshot whose rows silver began with.
    :param changes: how far bronze's changes reached then.
    :param rule: version of the state rule that made the rows; 0 for one that recorded none.
    :param doubled: keys that stand twice in the snapshot and that no change names: they are looked at again
        once changes have passed the horizon.
    """

    bronze: int
    version: int
    snapshot: Lsn
    changes: Lsn
    rule: int = STATE_RULE
    doubled: int = 0


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What a merge or a rebuild did to silver, in rows and in files.

    :param changed_keys: keys that bronze's new change rows name.
    :param inserted: rows of keys that silver did not have.
    :param updated: rows that took the place of a row of the same key.
    :param deleted: rows that were taken out.
    :param files_kept: files that were not touched.
    """

    changed_keys: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    files_kept: int = 0
