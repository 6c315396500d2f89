"""How every table that writes into one facts table is doing, worst first: from facts rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from airflow_provider_mssql_cdc.model.facts import Event, FactsRow, json_value
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.reconcile import FAILURES

TableState = Literal["gap", "not loaded", "loading", "loaded", "following"]
WORST_FIRST: tuple[TableState, ...] = get_args(TableState)

_COMPLETED: tuple[Event, ...] = ("bootstrap", "resnapshot")
_BEGUN: tuple[Event, ...] = ("snapshot_open", "snapshot_plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """One source table in one bronze table, as its facts describe it.

    :param source: connection, database, schema and table.
    :param bronze: canonical path or URI.
    :param state: ``gap`` when changes were lost and no snapshot was taken since; ``not loaded`` without any
        facts, for tables that something else than facts names; ``loading`` when a snapshot
        was begun after the last complete one; ``loaded`` while no changes follow the snapshot;
        ``following`` otherwise.
    :param loading: S of the snapshot that is being loaded.
    :param parts_done: waves in bronze; None for a whole snapshot, whose ranges leave no facts.
    :param parts: waves or ranges that were planned.
    :param snapshot_rows: rows of the newest complete snapshot.
    :param position: LSN up to which changes are in bronze, with its commit time in UTC.
    :param headroom_hours: hours of changes between CDC's oldest and the position, when it was last written.
    :param looked_at: when the newest facts row of bronze was written, UTC.
    :param silver: canonical path of the silver table, None without a merge.
    :param silver_rows: rows of silver after its newest merge that changed any.
    :param consistent: whether that merge left silver equal to a state of the source.
    :param reconciled_at: when the newest comparison with the source was written, UTC; None when a snapshot
        has replaced the rows that it was about.
    :param differences: keys that failed in the run of that comparison.
    :param dag_id: DAG that wrote the newest row.
    :param tasks: DAG and task of the newest row of each event.
    """

    source: str
    bronze: str
    state: TableState
    loading: Lsn | None = None
    parts_done: int | None = None
    parts: int | None = None
    snapshot: Lsn | None = None
    snapshot_rows: int | None = None
    position: Lsn | None = None
    position_time: datetime | None = None
    headroom_hours: float | None = None
    looked_at: datetime | None = None
    silver: str | None = None
    silver_rows: int | None = None
    merged_at: datetime | None = None
    consistent: bool | None = None
    reconciled_at: datetime | None = None
    differences: int | None = None
    lost_from: datetime | None = None
    lost_to: datetime | None = None
    dag_id: str | None = None
    tasks: tuple[tuple[str, str], ...] = ()

    @property
    def dag_ids(self) -> frozenset[str]:
        """DAGs whose tasks wrote the newest rows."""
        return frozenset(dag_id for dag_id, _ in self.tasks)

    def lag_seconds(self, at: datetime) -> float | None:
        """Seconds from the position's commit time to ``at``; grows on a quiet table as on a stopped one."""
        return None if self.position_time is None else (at - self.position_time).total_seconds()

    @property
    def is_in_trouble(self) -> bool:
        """Whether an operator has to act."""
        return self.state == "gap"

    def to_json(self, at: datetime) -> dict[str, Any]:
        """JSON types; times in ISO 8601 with their zone."""
        values = {
            name: json_value(getattr(self, name)) for name in self.__dataclass_fields__ if name != "tasks"
        }
        lag = self.lag_seconds(at)
        return {**values, "lag_seconds": None if lag is None else round(lag, 3)}


SilverRows = dict[str, list[FactsRow]]
"""Rows of one event of silver tables, by their source."""


def _differences(proofs: Iterable[FactsRow], proof: FactsRow) -> int:
    """Keys that failed in the run of ``proof``; a part that was compared again counts as its newest row."""
    parts: dict[tuple[Any, Any], FactsRow] = {}
    for row in sorted(proofs, key=_written):
        if (row.target, row.run_id) == (proof.target, proof.run_id):
            detail = row.detail or {}
            parts[detail.get("item"), detail.get("number")] = row
    return sum(int((row.detail or {}).get(name) or 0) for row in parts.values() for name in FAILURES)


def overviews(newest: Iterable[FactsRow], waves_landed: Mapping[tuple[str, Lsn], int]) -> list[TableOverview]:
    """One value per bronze table, in the order in which they need attention.

    :param newest: of each target the newest row of each event; of ``reconcile`` all rows of its newest run.
    :param waves_landed: facts rows of waves by bronze table and S.
    """
    of_bronze: dict[str, dict[str, FactsRow]] = {}
    of_silver: dict[Event, SilverRows] = {"merge": {}, "reconcile": {}}
    for row in newest:
        if row.event in of_silver:
            of_silver[row.event].setdefault(row.source or "", []).append(row)
        else:
            of_bronze.setdefault(row.target, {})[row.event] = row
    found = [
        _overview(rows, of_silver["merge"], of_silver["reconcile"], waves_landed)
        for rows in of_bronze.values()
    ]
    return sorted(found, key=_urgency)


def _urgency(one: TableOverview) -> tuple[int, float, str]:
    headroom = float("inf") if one.headroom_hours is None else one.headroom_hours
    return WORST_FIRST.index(one.state), headroom, one.source


def _overview(
    rows: Mapping[str, FactsRow],
    merges: SilverRows,
    proofs: SilverRows,
    waves_landed: Mapping[tuple[str, Lsn], int],
) -> TableOverview:
    last = _newest(rows.values())
    complete = _newest(rows[event] for event in _COMPLETED if event in rows)
    begun = _open_snapshot(rows, complete)
    gap = rows.get("gap")
    lost = gap if gap is not None and _is_after(gap, complete) else None
    followed = _newest(rows[event] for event in ("changes", "repair") if event in rows)
    reached = _newest(row for row in (complete, followed) if row is not None) or last
    merge = _newest(merges.get(last.source or "", ()))
    of_silver = [row for row in proofs.get(last.source or "", ()) if _is_of(row, complete)]
    proof = _newest(of_silver)
    plan = rows.get("snapshot_plan")
    return TableOverview(
        source=last.source or last.target,
        bronze=last.target,
        state=_state(lost=lost, begun=begun, followed=followed, complete=complete),
        loading=begun,
        parts_done=waves_landed.get((last.target, begun)) if begun else None,
        parts=_parts(plan) if begun and plan and plan.snapshot == begun else None,
        snapshot=complete.snapshot if complete else None,
        snapshot_rows=complete.rows if complete else None,
        position=reached.end_lsn,
        position_time=reached.end_commit_ts,
        headroom_hours=reached.retention_headroom_hours,
        looked_at=last.written_at,
        silver=merge.target if merge else None,
        silver_rows=merge.rows if merge else None,
        merged_at=merge.written_at if merge else None,
        consistent=merge.detail.get("consistent") if merge and merge.detail else None,
        reconciled_at=proof.written_at if proof else None,
        differences=_differences(of_silver, proof) if proof and proof.detail else None,
        lost_from=lost.lost_from_ts if lost else None,
        lost_to=lost.lost_to_ts if lost else None,
        dag_id=last.dag_id,
        tasks=tuple(sorted({*_tasks(rows.values()), *_tasks(merges.get(last.source or "", ()))})),
    )


def _is_of(proof: FactsRow, complete: FactsRow | None) -> bool:
    """Whether a comparison is about rows of the newest complete snapshot, or nothing says otherwise."""
    return (
        complete is None
        or complete.snapshot is None
        or proof.snapshot is None
        or proof.snapshot >= complete.snapshot
    )


def _state(
    *, lost: FactsRow | None, begun: Lsn | None, followed: FactsRow | None, complete: FactsRow | None
) -> TableState:
    if lost is not None:
        return "gap"
    if begun is not None or complete is None:
        return "loading"
    return "following" if followed is not None and _is_after(followed, complete) else "loaded"


def _open_snapshot(rows: Mapping[str, FactsRow], complete: FactsRow | None) -> Lsn | None:
    """S of a snapshot that was begun above the newest complete one. S alone decides: it only grows."""
    begun = [rows[event].snapshot for event in _BEGUN if event in rows]
    newest = max((lsn for lsn in begun if lsn is not None), default=None)
    done = None if complete is None else complete.snapshot
    return newest if newest is not None and (done is None or newest > done) else None


def _tasks(rows: Iterable[FactsRow]) -> Iterable[tuple[str, str]]:
    return ((row.dag_id, row.task_id) for row in rows if row.dag_id and row.task_id)


def _parts(plan: FactsRow) -> int | None:
    detail = plan.detail or {}
    parts = detail.get("waves", detail.get("ranges"))
    return parts if isinstance(parts, int) else None


def _newest(rows: Iterable[FactsRow]) -> Any:
    """The row that was written last, None without one."""
    return max(rows, key=_written, default=None)


def _written(row: FactsRow) -> datetime:
    assert row.written_at is not None, "a stored facts row says when it was written"
    return row.written_at


def _is_after(row: FactsRow, other: FactsRow | None) -> bool:
    return other is None or _written(row) > _written(other)
