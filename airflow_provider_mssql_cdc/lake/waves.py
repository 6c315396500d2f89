"""Waves of a chunked snapshot in bronze: one commit each, found by an identifier, landed once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, reduce

from deltalake import DeltaTable, QueryBuilder, Transaction
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.cleanup import remove_unnamed
from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.retries import until_committed
from airflow_provider_mssql_cdc.lake.staged_files import add_actions
from airflow_provider_mssql_cdc.lake.transactions import horizon_transactions, read_horizon, wave_app_id
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.planned_column import LakeColumn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.model.state import SourceIdentity
from airflow_provider_mssql_cdc.planning.opening import refuse_ended

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LandedWave:
    """A wave that bronze holds.

    :param rows: that it has.
    :param horizon: how new they may be; its time is when the wave had been read.
    """

    wave: int
    rows: int
    horizon: ReadHorizon | None


@dataclass(frozen=True, slots=True)
class WaveStamps:
    """The stamps of a wave's rows, told from the rows; None for a wave without rows."""

    low: Lsn | None
    high: Lsn | None
    commit_ts: datetime | None


def landed_wave(table: DeltaTable, snapshot: Lsn, wave: int) -> LandedWave | None:
    """The wave as this handle sees it, None when it is not in bronze."""
    rows = table.transaction_version(wave_app_id(snapshot, wave))
    return None if rows is None else LandedWave(wave, rows, read_horizon(table, snapshot, wave=wave))


def landed_waves(table: DeltaTable, snapshot: Lsn, waves: int) -> dict[int, LandedWave]:
    """All waves of a plan that bronze holds, by number."""
    found = (landed_wave(table, snapshot, wave) for wave in range(waves))
    return {one.wave: one for one in found if one is not None}


def latest_horizon(landed: Iterable[LandedWave]) -> ReadHorizon | None:
    """What changes must pass until no row of these waves can be newer than them."""
    horizons = [one.horizon for one in landed if one.horizon is not None]
    return reduce(ReadHorizon.merged, horizons) if horizons else None


def commit_wave(
    location: TableLocation,
    *,
    identity: SourceIdentity,
    snapshot: Lsn,
    wave: int,
    stamp: Lsn,
    horizon: ReadHorizon,
    files: Sequence[StagedFile],
    columns: Sequence[LakeColumn],
    run_id: str,
) -> tuple[LandedWave, bool]:
    """Put a wave's files into bronze, or find that another attempt has; whether this one did.

    Bronze is opened here, after the read. On a conflict it is loaded again and the identifier decides; the
    same files are committed then, and nothing is read again. A wave without rows leaves its trace. Files
    of this attempt that another one made needless are removed.

    :raises Superseded: coverage has been re-based above S, or S was abandoned.
    :raises IncompletePlan: a staged file is missing, cut, swapped or of another snapshot.
    :raises SchemaDrift: a staged file, or bronze, has other columns than planned.
    """
    bronze = open_existing(location)
    rows = sum(file.rows for file in files)
    landed = LandedWave(wave, rows, horizon)

    @cache
    def checked_files() -> list[AddAction]:
        return add_actions(bronze, files, snapshot=snapshot, columns=columns)

    def once() -> tuple[LandedWave, bool]:
        bronze.check_identity(identity)
        if (theirs := landed_wave(bronze.table, snapshot, wave)) is not None:
            return theirs, False
        refuse_ended(bronze.state, snapshot)
        bronze.check_columns(columns)
        bronze.commit(
            checked_files(),
            transactions=[
                Transaction(wave_app_id(snapshot, wave), rows),
                *horizon_transactions(snapshot, horizon, wave=wave),
            ],
            event="snapshot_wave",
            user_metadata={
                "open": snapshot.text,
                "wave": wave,
                "lsn": stamp.text,
                "rows": rows,
                "run_id": run_id,
            },
        )
        return landed, True

    what = f"wave {wave} of {snapshot} into {location}"
    outcome, added = until_committed(once, what=what, reload=bronze.reload)
    if not added:
        log.info("%s: wave %d of snapshot %s was there already", location, wave, snapshot)
        remove_unnamed(location, [file.path for file in files])
    return outcome, added


def stamps_of(bronze: Bronze, snapshot: Lsn, *, first_chunk: int, last_chunk: int) -> WaveStamps:
    """What the rows of some chunks were stamped with: for a facts row that is written again."""
    query = (
        'SELECT min("_start_lsn") AS low, max("_start_lsn") AS high, max("_commit_ts") AS t FROM bronze '
        f'WHERE "_snapshot" = \'{snapshot.text}\' AND "_operation" = 0 '
        f'AND "_chunk" >= {int(first_chunk)} AND "_chunk" <= {int(last_chunk)}'
    )
    (row,) = read_all(QueryBuilder().register("bronze", bronze.table).execute(query).read_all()).to_pylist()
    time: datetime | None = row["t"]
    return WaveStamps(
        None if row["low"] is None else Lsn.parse(row["low"]),
        None if row["high"] is None else Lsn.parse(row["high"]),
        None if time is None else time.replace(tzinfo=UTC),
    )
