"""The plans table beside bronze: how a chunked snapshot is cut, stored once per S, bound by bound.

One row describes the start of the plan, and one row each bound of a chunk. A Delta transaction counts the
rows of S: of two concurrent planners one writes, and the other detects the conflict and continues from the
stored rows. The last commit of a plan records the chunks per wave and is final.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import CommitConflict, ForeignTable, StateDamaged
from airflow_provider_mssql_cdc.lake.delta_table import (
    create_table,
    open_table,
    query,
    until_committed,
    write_rows,
)
from airflow_provider_mssql_cdc.lake.schema import (
    STATISTICS_PROPERTY,
    TIMESTAMP_NTZ,
    commented,
    described,
    identity_properties,
    read_identity,
)
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import plan_app_id, plan_waves_app_id
from airflow_provider_mssql_cdc.model.chunks import PlanStart, StoredPlan
from airflow_provider_mssql_cdc.model.key_range import Bound, bound_from_json, bound_to_json
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import SourceIdentity

log = logging.getLogger(__name__)

PLANS_SCHEMA = pa.schema(
    [
        commented("snapshot", pa.string(), "LSN that identifies the snapshot"),
        commented("chunk", pa.int32(), "Number of the chunk that begins at the bound; 0 has no lower bound"),
        commented("bound", pa.string(), "JSON list, one text per split column: where the chunk begins"),
        commented("detail", pa.string(), "JSON, on chunk 0 alone: how the table is cut, and up to which key"),
        commented("written_at", TIMESTAMP_NTZ, "When this row was written, UTC"),
    ]
)


class PlanMoved(CommitConflict):
    """Another planner stored bounds of the same snapshot; nothing was written."""


def read_plan(location: TableLocation, snapshot: Lsn) -> StoredPlan | None:
    """Return the stored plan of S; None when there is none."""
    table = open_table(location)
    if table is None or table.transaction_version(plan_app_id(snapshot)) is None:
        return None
    rows = query(
        table,
        f"SELECT chunk, bound, detail FROM stored WHERE snapshot = '{snapshot.text}' ORDER BY chunk",
    )
    if [row["chunk"] for row in rows] != list(range(len(rows))) or len(rows) != _count(table, snapshot):
        raise StateDamaged(
            f"{location}: the stored plan of snapshot {snapshot} has {len(rows)} rows that are not "
            "consecutive, so another tool has removed or written rows. RESTORE the table, or abandon "
            "the snapshot and open another one"
        )
    bounds = tuple(bound_from_json(json.loads(row["bound"])) or () for row in rows[1:])
    start = _start_of(snapshot, json.loads(rows[0]["detail"]))
    return StoredPlan(start, bounds, table.transaction_version(plan_waves_app_id(snapshot)))


def begin_plan(location: TableLocation, identity: SourceIdentity, start: PlanStart) -> StoredPlan:
    """Store the start of a plan; concurrent planners all get the first one's.

    :raises ForeignTable: the table beside bronze belongs to another source.
    """
    _open_or_create(location, identity)
    plan = StoredPlan(start)
    try:
        _store(location, plan.snapshot, _rows(plan, from_chunk=0), expected=None, transactions=[])
    except PlanMoved:
        theirs = read_plan(location, start.snapshot)
        assert theirs is not None
        return theirs
    return plan


def add_bounds(location: TableLocation, plan: StoredPlan, bounds: Sequence[Bound]) -> StoredPlan:
    """Store further bounds of a plan.

    :raises PlanMoved: the stored plan is no longer ``plan``; read it again.
    """
    longer = replace(plan, bounds=(*plan.bounds, *bounds))
    rows = _rows(longer, from_chunk=plan.chunks)
    _store(location, plan.snapshot, rows, expected=plan.chunks, transactions=[])
    return longer


def finish_plan(location: TableLocation, plan: StoredPlan, *, chunks_per_wave: int) -> StoredPlan:
    """Record that all bounds are found and how they are grouped; compacts the rows of S into one file.

    :raises PlanMoved: the stored plan is no longer ``plan``; read it again.
    """
    finished = replace(plan, chunks_per_wave=chunks_per_wave)
    _store(
        location,
        plan.snapshot,
        _rows(finished, from_chunk=0),
        expected=plan.chunks,
        transactions=[Transaction(plan_waves_app_id(plan.snapshot), chunks_per_wave)],
        replacing=True,
    )
    return finished


def _store(
    location: TableLocation,
    snapshot: Lsn,
    rows: pa.Table,
    *,
    expected: int | None,
    transactions: Sequence[Transaction],
    replacing: bool = False,
) -> None:
    """Write rows of S if it has ``expected`` rows and is unfinished (compare-and-set)."""
    count = rows.num_rows if replacing else (expected or 0) + rows.num_rows

    def once() -> None:
        table = open_table(location)
        assert table is not None
        if _count(table, snapshot) != expected or table.transaction_version(plan_waves_app_id(snapshot)):
            raise PlanMoved(f"{location}: another run has stored more of the plan of snapshot {snapshot}")
        write_rows(
            table,
            rows,
            transactions=[Transaction(plan_app_id(snapshot), count), *transactions],
            replacing=f"snapshot = '{snapshot.text}'" if replacing else None,
        )

    until_committed(once, what=f"plan of snapshot {snapshot} into {location}")


def _rows(plan: StoredPlan, *, from_chunk: int) -> pa.Table:
    chunks = range(from_chunk, plan.chunks)
    bounds = [plan.bounds[chunk - 1] if chunk else None for chunk in chunks]
    columns: dict[str, list[Any]] = {
        "snapshot": [plan.snapshot.text for _ in chunks],
        "chunk": list(chunks),
        "bound": [None if bound is None else _json(bound_to_json(bound)) for bound in bounds],
        "detail": [None if chunk else _json(_detail_of(plan)) for chunk in chunks],
        "written_at": [datetime.now(UTC).replace(tzinfo=None) for _ in chunks],
    }
    return pa.table(columns, schema=PLANS_SCHEMA)


def _detail_of(plan: StoredPlan) -> dict[str, Any]:
    start = plan.start
    detail = {
        "method": start.method,
        "reason": start.reason,
        "chunk_rows": start.chunk_rows,
        "split": start.split,
        "lowest": None if start.lowest is None else bound_to_json(start.lowest),
        "highest": None if start.highest is None else bound_to_json(start.highest),
        "rows_estimated": start.rows_estimated,
        "commit_ts": None if start.commit_ts is None else start.commit_ts.isoformat(),
    }
    if plan.is_finished:
        detail |= {"chunks": plan.chunks, "waves": plan.waves, "chunks_per_wave": plan.chunks_per_wave}
    return detail


def _start_of(snapshot: Lsn, detail: dict[str, Any]) -> PlanStart:
    committed = detail["commit_ts"]
    return PlanStart(
        snapshot=snapshot,
        method=detail["method"],
        reason=detail["reason"],
        chunk_rows=detail["chunk_rows"],
        split=detail["split"],
        lowest=bound_from_json(detail["lowest"]),
        highest=bound_from_json(detail["highest"]),
        rows_estimated=detail["rows_estimated"],
        commit_ts=None if committed is None else datetime.fromisoformat(committed),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _count(table: DeltaTable, snapshot: Lsn) -> int | None:
    count: int | None = table.transaction_version(plan_app_id(snapshot))
    return count


def _open_or_create(location: TableLocation, identity: SourceIdentity) -> DeltaTable:
    table = open_table(location) or _create(location, identity)
    if (theirs := read_identity(table)) != identity:
        raise ForeignTable(
            f"{location} holds plans of {described(theirs)}, not of {described(identity)}: it was left there "
            "by another bronze table. Remove it, or name another bronze path"
        )
    return table


def _create(location: TableLocation, identity: SourceIdentity) -> DeltaTable:
    return create_table(
        location,
        PLANS_SCHEMA,
        name=f"{identity.schema}.{identity.table} plans",
        description=f"How chunked snapshots of {described(identity)} are cut; holds key values",
        properties={**identity_properties(identity), STATISTICS_PROPERTY: "snapshot,chunk"},
    )
