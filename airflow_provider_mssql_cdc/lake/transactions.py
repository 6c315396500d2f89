"""Delta transactions: the state of a load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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


SOURCE_OBJECT = "mssql_cdc#source.object"
"""Object id of the source table that the rows come from; written when it is not what is there already."""


def run_app_id(run: str) -> str:
    """The app id under which a resnapshot records which Airflow run asked for it."""
    return f"mssql_cdc#run.{run}"


def opened_app_id(snapshot: Lsn) -> str:
    """Under which it stays on record that a chunked snapshot was opened at S, whatever became of it."""
    return f"mssql_cdc#opened.{snapshot.text}"


def was_opened(table: DeltaTable, snapshot: Lsn) -> bool:
    """Whether rows in bronze may carry S as those of a chunked snapshot."""
    return table.transaction_version(opened_app_id(snapshot)) is not None


def wave_app_id(snapshot: Lsn, wave: int) -> str:
    """Under which a wave of chunked snapshot S is in bronze; the version is the number of its rows."""
    return f"mssql_cdc#snap.{snapshot.text}.{wave}"


def horizon_app_id(snapshot: Lsn, wave: int | None = None) -> str:
    """Under which the horizon of snapshot S, or of one wave, is kept: ``.hi``, ``.lo`` and ``.time``."""
    return f"mssql_cdc#after.{snapshot.text}" + ("" if wave is None else f".{wave}")


def horizon_transactions(
    snapshot: Lsn, horizon: ReadHorizon, *, wave: int | None = None
) -> list[Transaction]:
    """The horizon of a snapshot's reads: its LSN, and its time in microseconds since 1970 (UTC)."""
    app_id = horizon_app_id(snapshot, wave)
    microseconds = (horizon.time - _EPOCH) // timedelta(microseconds=1)
    return [*lsn_transactions(app_id, horizon.lsn), Transaction(f"{app_id}.time", microseconds)]


def read_horizon(table: DeltaTable, snapshot: Lsn, *, wave: int | None = None) -> ReadHorizon | None:
    """What :func:`horizon_transactions` recorded; None for a snapshot without a read."""
    app_id = horizon_app_id(snapshot, wave)
    lsn, microseconds = read_lsn(table, app_id), table.transaction_version(f"{app_id}.time")
    if lsn is None or microseconds is None:
        return None
    return ReadHorizon(lsn, _EPOCH + timedelta(microseconds=microseconds))


def lsn_transactions(app_id: str, lsn: Lsn) -> list[Transaction]:
    """The two halves that carry an LSN under ``app_id``."""
    return [Transaction(f"{app_id}.hi", lsn.hi), Transaction(f"{app_id}.lo", lsn.lo)]


def coverage_transactions(coverage: Coverage) -> list[Transaction]:
    return [*lsn_transactions(BASE, coverage.base), *lsn_transactions(CHANGES, coverage.changes)]


def read_lsn(table: DeltaTable, app_id: str) -> Lsn | None:
    """The LSN under ``app_id`` as this handle sees it, None when there is none.

    :raises StateDamaged: one half without the other, or halves that make no LSN.
    """
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
    """The state at the handle's version; what is decided on it is committed with the same handle.

    :raises StateDamaged: transactions that contradict each other.
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
