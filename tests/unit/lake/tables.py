"""What the tests of the lake share: a source, its columns, rows, and the steps from range to commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.commit import SnapshotCommit, commit_snapshot
from airflow_provider_mssql_cdc.lake.staging import stage_range
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange, StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn, SnapshotHeader
from airflow_provider_mssql_cdc.model.state import SourceIdentity

IDENTITY = SourceIdentity("erp", "sales", "dbo", "orders")
INSTANCE = "dbo_orders"
RUN, OTHER_RUN = "3fa9c1d2", "aaaaaaaa"
COMMIT_TS = dt.datetime(2024, 5, 11, 2, 0, 0, 277000, tzinfo=dt.UTC)

COLUMNS = (
    LakeColumn("id", "id", "int64", "id bigint"),
    LakeColumn("amount", "amount", "decimal(18,4)", "amount decimal(18,4)"),
    LakeColumn("at", "at", "timestamp_ntz", "at datetime2(7)"),
    LakeColumn("name", "name", "string", "name nvarchar(200)"),
)


def lsn(number: int) -> Lsn:
    """An LSN whose both halves count: 1 is below 2 by the upper half, whatever the lower one is."""
    return Lsn((number << 40) | (0xFF_FFFF_FFFF - number))


def batch(ids: Sequence[int], columns: Sequence[LakeColumn] = COLUMNS) -> pa.RecordBatch:
    """Rows with these ids and other values that follow from them."""
    rows = {
        "id": list(ids),
        "amount": [Decimal(f"{number}.1111") for number in ids],
        "at": [dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=number) for number in ids],
        "name": [f"order {number}" for number in ids],
    }
    return pa.record_batch([rows[column.name] for column in columns], schema=captured_schema(columns))


def new_bronze(folder: Path, columns: Sequence[LakeColumn] = COLUMNS) -> Bronze:
    return open_or_create(TableLocation(str(folder / "orders")), IDENTITY, columns)


def header(snapshot: Lsn, **more: Any) -> SnapshotHeader:
    """What reads and commits of S carry; a test names what it speaks of."""
    return replace(
        SnapshotHeader(IDENTITY, INSTANCE, snapshot, COMMIT_TS, COLUMNS, RUN, "manual__2024-05-11"), **more
    )


_IN_THE_HEADER = frozenset(field.name for field in fields(SnapshotHeader))


def _split(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What belongs into the header, and the rest."""
    own = {name: value for name, value in arguments.items() if name in _IN_THE_HEADER}
    return own, {name: value for name, value in arguments.items() if name not in own}


def stage(
    bronze: Bronze,
    snapshot: Lsn,
    ids: Sequence[int] = (1, 2, 3),
    *,
    run: str = RUN,
    index: int = 0,
    planned: PlannedRange | None = None,
    batches: Sequence[pa.RecordBatch] | None = None,
    **more: Any,
) -> tuple[StagedFile, ...]:
    """One staged range of a new plan of ``run``."""
    planned = planned or PlannedRange(PlanId.new(snapshot, run), index, index + 1)
    own, arguments = _split(more)
    rows = [batch(ids)] if batches is None else batches
    given = {"attempt": "a1-9f03bc", **arguments}
    of_s = header(**{"snapshot": snapshot, "run": run, **own})
    return stage_range(bronze, of_s, planned, rows, **given)


def complete(
    location: TableLocation,
    snapshot: Lsn,
    files: Sequence[StagedFile] = (),
    *,
    gap: bool = False,
    gap_position: Lsn | None = None,
    **more: Any,
) -> SnapshotCommit:
    """``commit_snapshot`` with everything that a test does not speak of filled in.

    :param gap: changes are proven lost just above the position that bronze has now, unless one is named.
    """
    own, arguments = _split(more)
    if gap and gap_position is None:
        coverage = open_existing(location).state.coverage
        gap_position = coverage.changes if coverage else None
    return commit_snapshot(location, header(snapshot, **own), files, gap_position=gap_position, **arguments)


def rows_of(location: TableLocation, select: str = "*", where: str = "true") -> list[dict[str, Any]]:
    """Rows of the current version."""
    table = DeltaTable(location.uri)
    result = QueryBuilder().register("t", table).execute(f"SELECT {select} FROM t WHERE {where}")
    rows: list[dict[str, Any]] = pa.table(result.read_all()).to_pylist()
    return rows


def ids_in(location: TableLocation) -> list[int]:
    return sorted(row["id"] for row in rows_of(location, "id"))


def reopened(bronze: Bronze) -> Bronze:
    return open_existing(bronze.location)
