"""Delta transactions: every app id of this package, and how it is written and read.

A transaction carries one 64-bit number (Delta protocol, "Transaction Identifiers"), so an LSN needs two. The
app ids of facts rows are built in model/facts.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import ConfigurationError, StateDamaged
from airflow_provider_mssql_cdc.model.capture import ChangesState, CommitStamp, InstanceMark
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.model.state import STATE_RULE, BronzeState, Coverage, Fold, SilverPosition

SNAPSHOT = "mssql_cdc#snapshot"
"""S of the newest complete snapshot."""

OPEN = "mssql_cdc#open"
"""S of the newest chunked snapshot that was opened."""

ABANDONED = "mssql_cdc#abandoned"
"""Chunked snapshots up to this S that were not complete have been given up on request."""

BASE = "mssql_cdc#base"
"""Lower end of coverage; only the first snapshot and a re-basing one move it."""

CHANGES = "mssql_cdc#changes"
"""Upper end of coverage, moved by compare-and-set."""

BATCH = "mssql_cdc#batch"
"""Number of the newest commit of changes; rows carry it as ``_batch_id``."""

STAMP = "mssql_cdc#stamp"
"""An LSN at or below the position with its commit time: ``.hi``, ``.lo``, and ``.time`` in µs since 1970."""

INSTANCE = "mssql_cdc#instance"
"""The change table that was read last: ``.table``, its object id, and ``.made`` in µs since 1970."""

SOURCE_OBJECT = "mssql_cdc#source.object"
"""Object id of the source table that the rows come from; written when it differs from the stored one."""

THINNED = "mssql_cdc#thinned"
"""``.hi`` and ``.lo``: up to which LSN rows may be missing; ``.version``: of the commit that took them."""

FOLD = "mssql_cdc#fold"
"""The newest fold: ``.at.hi``, ``.at.lo``, ``.older.hi``, ``.older.lo`` and ``.version``."""

SILVER_BRONZE = "mssql_cdc#silver.bronze"
"""A number that stands for the id of the bronze table that silver was built from."""

SILVER_VERSION = "mssql_cdc#silver.version"
"""The version of bronze whose change rows are all in silver."""

SILVER_SNAPSHOT = "mssql_cdc#silver.snapshot"
"""S of the snapshot that silver began with: ``.hi`` and ``.lo``."""

SILVER_CHANGES = "mssql_cdc#silver.changes"
"""How far bronze's changes reached at that version: ``.hi`` and ``.lo``."""

SILVER_RULE = "mssql_cdc#silver.rule"
"""Version of the state rule (lower eight bits) and the version of bronze that it was applied to (the others).

A package that knows no rule moves the position and leaves this one behind.
"""

SILVER_DOUBLED = "mssql_cdc#silver.doubled"
"""How many keys stand twice in the snapshot without a change that names them."""


def run_app_id(run: str) -> str:
    """The app id under which a resnapshot records which Airflow run asked for it."""
    return f"mssql_cdc#run.{run}"


def opened_app_id(snapshot: Lsn) -> str:
    """Return the app id that records permanently that a chunked snapshot was opened at S."""
    return f"mssql_cdc#opened.{snapshot.text}"


def wave_app_id(snapshot: Lsn, wave: int) -> str:
    """Return the app id of a wave of chunked snapshot S in bronze; its version is the row count."""
    return f"mssql_cdc#snap.{snapshot.text}.{wave}"


def horizon_app_id(snapshot: Lsn, wave: int | None = None) -> str:
    """Return the app id of the horizon of snapshot S, or of one wave: ``.hi``, ``.lo`` and ``.time``."""
    return f"mssql_cdc#after.{snapshot.text}" + ("" if wave is None else f".{wave}")


def plan_app_id(snapshot: Lsn) -> str:
    """Return the app id of the plan of S in the plans table; its version is the number of stored rows."""
    return f"mssql_cdc#plan.{snapshot.text}"


def plan_waves_app_id(snapshot: Lsn) -> str:
    """Return the app id that marks the plan of S as finished; its version is the chunks per wave."""
    return f"mssql_cdc#plan.{snapshot.text}.wave"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RULE_BITS = 8


def was_opened(table: DeltaTable, snapshot: Lsn) -> bool:
    """Return whether bronze may contain rows of a chunked snapshot at S."""
    return table.transaction_version(opened_app_id(snapshot)) is not None


def horizon_transactions(
    snapshot: Lsn, horizon: ReadHorizon, *, wave: int | None = None
) -> list[Transaction]:
    """Return the transactions of a horizon: its LSN, and its time in microseconds since 1970 (UTC)."""
    app_id = horizon_app_id(snapshot, wave)
    microseconds = (horizon.time - _EPOCH) // _MICROSECOND
    return [*lsn_transactions(app_id, horizon.lsn), Transaction(f"{app_id}.time", microseconds)]


def read_horizon(table: DeltaTable, snapshot: Lsn, *, wave: int | None = None) -> ReadHorizon | None:
    """Return what :func:`horizon_transactions` recorded; None for a snapshot without a read."""
    app_id = horizon_app_id(snapshot, wave)
    lsn, microseconds = read_lsn(table, app_id), table.transaction_version(f"{app_id}.time")
    if lsn is None or microseconds is None:
        return None
    return ReadHorizon(lsn, _EPOCH + microseconds * _MICROSECOND)


def lsn_transactions(app_id: str, lsn: Lsn) -> list[Transaction]:
    """Return the two transactions that carry an LSN under ``app_id``."""
    return [Transaction(f"{app_id}.hi", lsn.hi), Transaction(f"{app_id}.lo", lsn.lo)]


def coverage_transactions(coverage: Coverage) -> list[Transaction]:
    return [*lsn_transactions(BASE, coverage.base), *lsn_transactions(CHANGES, coverage.changes)]


def read_lsn(table: DeltaTable, app_id: str) -> Lsn | None:
    """Return the LSN under ``app_id`` at this handle's version; None when there is none.

    :raises StateDamaged: one half is missing, or the halves are not a valid LSN.
    """
    # An LSN has 80 bits and a transaction's version is a signed long (Delta protocol), hence two halves; one
    # commit always writes both.
    hi, lo = (table.transaction_version(f"{app_id}.{half}") for half in ("hi", "lo"))
    if hi is None and lo is None:
        return None
    if hi is None or lo is None:
        raise StateDamaged(_damage(table, f"of {app_id} only one half is there"))
    try:
        return Lsn.from_halves(hi, lo)
    except ValueError as exc:
        raise StateDamaged(_damage(table, f"{app_id} holds no LSN ({exc})")) from exc


def read_state(table: DeltaTable) -> BronzeState:
    """Return the state at the handle's version; commit a decision based on it with the same handle.

    :raises StateDamaged: the transactions are inconsistent.
    """
    app_ids = (SNAPSHOT, OPEN, ABANDONED, BASE, CHANGES)
    snapshot, opened, abandoned, base, changes = (read_lsn(table, app_id) for app_id in app_ids)
    if (base is None) != (changes is None):
        raise StateDamaged(_damage(table, "coverage has one end only"))
    if base is None and (snapshot or opened):
        raise StateDamaged(_damage(table, "a snapshot is recorded and no coverage"))
    try:
        coverage = Coverage(base, changes) if base and changes else None
    except ValueError as exc:
        raise StateDamaged(_damage(table, str(exc))) from exc
    return BronzeState(
        version=table.version(),
        snapshot=snapshot,
        open=opened,
        coverage=coverage,
        abandoned=abandoned,
        source_object=table.transaction_version(SOURCE_OBJECT),
    )


def _damage(table: DeltaTable, what: str) -> str:
    return (
        f"{table.table_uri} at version {table.version()}: {what}. No position can be read from this table; "
        "load into a new bronze path"
    )


def read_changes_state(table: DeltaTable) -> ChangesState:
    """Return the changes state other than coverage, at this handle's version."""
    lsn, time = read_lsn(table, STAMP), table.transaction_version(f"{STAMP}.time")
    number, made = (table.transaction_version(f"{INSTANCE}.{part}") for part in ("table", "made"))
    return ChangesState(
        batch=table.transaction_version(BATCH) or 0,
        stamp=None if lsn is None or time is None else CommitStamp(lsn, _EPOCH + time * _MICROSECOND),
        instance=None
        if number is None or made is None
        else InstanceMark(number, (_EPOCH + made * _MICROSECOND).replace(tzinfo=None)),
    )


def instance_transactions(instance: InstanceMark) -> list[Transaction]:
    made = (instance.create_date.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return [
        Transaction(f"{INSTANCE}.table", instance.change_table_id & 0xFFFFFFFF),
        Transaction(f"{INSTANCE}.made", made),
    ]


def fold_transactions(fold: Fold) -> list[Transaction]:
    return [
        *lsn_transactions(f"{FOLD}.at", fold.at),
        *lsn_transactions(f"{FOLD}.older", fold.older),
        Transaction(f"{FOLD}.version", fold.version),
    ]


def read_fold(table: DeltaTable) -> Fold | None:
    """Return the newest fold at this handle's version; None if there was none."""
    at, older = read_lsn(table, f"{FOLD}.at"), read_lsn(table, f"{FOLD}.older")
    version = table.transaction_version(f"{FOLD}.version")
    return None if at is None or older is None or version is None else Fold(at, older, version)


def stamp_transactions(stamp: CommitStamp | None) -> list[Transaction]:
    if stamp is None:
        return []
    time = (stamp.time - _EPOCH) // _MICROSECOND
    return [*lsn_transactions(STAMP, stamp.lsn), Transaction(f"{STAMP}.time", time)]


def position_transactions(position: SilverPosition) -> list[Transaction]:
    return [
        Transaction(SILVER_BRONZE, position.bronze),
        Transaction(SILVER_VERSION, position.version),
        Transaction(SILVER_RULE, position.version << _RULE_BITS | position.rule),
        Transaction(SILVER_DOUBLED, position.doubled),
        *lsn_transactions(SILVER_SNAPSHOT, position.snapshot),
        *lsn_transactions(SILVER_CHANGES, position.changes),
    ]


def read_position(table: DeltaTable) -> SilverPosition | None:
    bronze, version = table.transaction_version(SILVER_BRONZE), table.transaction_version(SILVER_VERSION)
    snapshot, changes = read_lsn(table, SILVER_SNAPSHOT), read_lsn(table, SILVER_CHANGES)
    if bronze is None and version is None and snapshot is None and changes is None:
        return None
    if bronze is None or version is None or snapshot is None or changes is None:
        raise StateDamaged(
            f"{table.table_uri} at version {table.version()}: its position is there in part only. Name "
            "another silver path, which is then built from bronze"
        )
    doubled = table.transaction_version(SILVER_DOUBLED) or 0
    return SilverPosition(
        bronze, version, snapshot, changes, rule=_read_rule(table, version), doubled=doubled
    )


def _read_rule(table: DeltaTable, version: int) -> int:
    """Return the rule that was applied to this version of bronze; 0 if none was recorded.

    :raises ConfigurationError: a newer package has written this table.
    """
    number = table.transaction_version(SILVER_RULE) or 0
    applied_to, rule = divmod(number, 1 << _RULE_BITS)
    if applied_to != version:
        return 0
    if rule > STATE_RULE:
        raise ConfigurationError(
            f"{table.table_uri} was kept by a newer version of this package (state rule {rule}, this one "
            f"knows {STATE_RULE}); upgrade it"
        )
    return rule
