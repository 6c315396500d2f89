"""``plan`` of a whole database: turn the tables to load into items for mapped tasks."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_provider_mssql_cdc.database import DatabaseTable
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.each_table import Worker, failure_of
from airflow_provider_mssql_cdc.jobs.packs import chunked_request
from airflow_provider_mssql_cdc.jobs.plan_chunks import plan_chunks
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.chunked import landed_waves
from airflow_provider_mssql_cdc.lake.plans import read_plan
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.database_items import (
    Kind,
    ReadItem,
    TableFailure,
    TableRef,
    ToComplete,
    new_plan_id,
)
from airflow_provider_mssql_cdc.model.tracked import TableName
from airflow_provider_mssql_cdc.planning.packs import (
    ITEM_BYTES,
    cost,
    pack,
    ranges_wanted,
    share_out,
    wanted_packs,
)
from airflow_provider_mssql_cdc.planning.ranges import TooManySeeks
from airflow_provider_mssql_cdc.source.tracked import estimated_rows

log = logging.getLogger(__name__)

MOST_SEEKS = 32
"""``plan`` cuts a table by seeks into at most this many ranges; a longer cut becomes its own mapped task."""

LONGEST_WAIT_SECONDS = 10
"""Maximum wait of ``plan`` for one table's capture, because all tables wait for ``plan``."""

_AROUND_NAMES_BYTES = 100


@dataclass(frozen=True, slots=True)
class DatabaseRequest:
    """Parameters of ``plan``.

    :param parts: ``load``, ``follow``, or both.
    :param max_tasks: maximum mapped tasks of ``read``; Airflow's own limit applies too.
    :param max_waves: maximum waves of all chunked tables together, within ``max_tasks``.
    :param complete_slots: mapped tasks of ``complete``.
    :param follow_slots: mapped tasks of ``follow``, and packs of small tables read in parallel.
    :param resnapshot: names or patterns of tables to snapshot again.
    """

    worker: Worker
    parts: tuple[str, ...]
    max_tasks: int
    max_waves: int
    complete_slots: int
    follow_slots: int
    resnapshot: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownTable:
    """One table of the run and its bronze."""

    table: DatabaseTable
    ref: TableRef
    bronze: Bronze | None

    @property
    def is_followed(self) -> bool:
        return self.bronze is not None and self.bronze.state.coverage is not None

    @property
    def wants_load(self) -> bool:
        state = None if self.bronze is None else self.bronze.state
        is_loaded = state is not None and state.snapshot is not None and state.unfinished is None
        return self.ref.resnapshot or not is_loaded

    def waves_missing(self, run: str) -> int | None:
        """Return the missing waves of the open chunked snapshot; None until all of its chunks are planned.

        :param run: name of the Airflow run, which may itself have opened the requested snapshot.
        """
        if self.bronze is None or (snapshot := self.bronze.state.unfinished) is None:
            return None
        if self.ref.resnapshot and self.bronze.snapshot_of_run(run) is None:
            return None
        plan = read_plan(TableLocation.plans_of(self.table.table), snapshot)
        if plan is None or not plan.is_finished:
            return None
        return max(1, plan.waves - len(landed_waves(self.bronze.table, snapshot, plan.waves)))


@dataclass(slots=True)
class Work:
    """Collect the work of the run."""

    plan: str = field(default_factory=new_plan_id)
    items: list[ReadItem] = field(default_factory=list)
    to_complete: list[ToComplete] = field(default_factory=list)
    failures: dict[str, TableFailure] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def add(self, kind: Kind, *tables: TableRef, work: Mapping[str, Any] | None = None) -> int:
        self.items.append(ReadItem(self.plan, len(self.items), kind, tables, work))
        return len(self.items) - 1

    def add_parts(self, kind: Kind, ref: TableRef, works: Sequence[Mapping[str, Any]]) -> None:
        """Add a table that several tasks read and ``complete`` commits."""
        numbers = tuple(self.add(kind, ref, work=work) for work in works)
        self.to_complete.append(ToComplete(ref, numbers, chunked=kind == "wave"))

    def fail(self, name: str, said: str) -> None:
        self.failures[name] = TableFailure(ConfigurationError.__name__, said)


class LoadPlanner:
    """Build the items of ``read``, largest first: ranges of whole snapshots, waves, then packs."""

    def __init__(self, request: DatabaseRequest, work: Work) -> None:
        self._request, self._work = request, work
        self._attempt = request.worker.attempt

    def plan(self, loads: Sequence[KnownTable]) -> None:
        whole = {one.ref.name: one for one in loads if not one.table.options.is_chunked}
        chunked = {one.ref.name: one for one in loads if one.table.options.is_chunked}
        rows = self._estimates(whole)
        wanted = {name: self._ranges_of(one, rows[name]) for name, one in whole.items()}
        small = {name: cost(rows[name]) for name, count in wanted.items() if count == 1}
        missing = {name: one.waves_missing(self._attempt.run) for name, one in chunked.items()}
        shares = share_out(
            packs=wanted_packs(small, at_least=self._request.follow_slots) if small else 0,
            ranges={name: count for name, count in wanted.items() if count > 1},
            waves={name: min(count or 1, _most_waves(chunked[name])) for name, count in missing.items()},
            max_tasks=self._request.max_tasks,
            max_waves=self._request.max_waves,
        )
        self._work.waiting += shares.waiting
        for name in shares.ranges:
            self._guarded(name, partial(self._add_ranges, whole[name], wanted[name]))
        for name, count in shares.waves.items():
            if missing[name] is None:
                self._work.add("cut", chunked[name].ref)
            else:
                self._guarded(name, partial(self._add_waves, chunked[name], count))
        if small:
            self._add_packs({name: whole[name].ref for name in small}, small, shares.packs)

    def _estimates(self, whole: Mapping[str, KnownTable]) -> dict[str, int | None]:
        """Return row estimates; None for all if the server cannot be queried: the packs then decide."""
        worker = self._request.worker
        names = [TableName.parse(name) for name in whole]
        if not names:
            return {}
        with worker.sessions(worker.database.isolation)() as session:
            return dict(zip(whole, estimated_rows(session, names), strict=True))

    def _ranges_of(self, one: KnownTable, rows: int | None) -> int:
        options = one.table.options
        return ranges_wanted(
            rows,
            rows_per_range=options.rows_per_range,
            max_ranges=options.max_ranges,
            max_tasks=self._request.max_tasks,
        )

    def _add_ranges(self, one: KnownTable, count: int) -> None:
        """Add a table as separate ranges; as one item when cutting it takes long."""
        options = one.table.options
        request = PlanRequest(
            table=one.table.table,
            attempt=self._attempt,
            max_ranges=min(options.max_ranges, max(count, 1)),
            rows_per_range=options.rows_per_range,
            resnapshot=one.ref.resnapshot,
            wait_seconds=min(options.wait_seconds, LONGEST_WAIT_SECONDS),
            max_seeks=MOST_SEEKS,
        )
        try:
            planned = plan_snapshot(request, connect=self._request.worker.connect(one.table))
        except TooManySeeks:
            self._work.add("alone", one.ref)
        else:
            self._work.add_parts("range", one.ref, [each.to_xcom() for each in planned])

    def _add_waves(self, one: KnownTable, count: int) -> None:
        request = chunked_request(self._attempt, one.table, one.ref, max_waves=count)
        planned = plan_chunks(request, connect=self._request.worker.connect(one.table))
        if isinstance(planned, Skipped):
            log.info("%s", planned.reason)
            self._work.waiting.append(one.ref.name)
        else:
            self._work.add_parts("wave", one.ref, [each.to_xcom() for each in planned])

    def _add_packs(self, refs: Mapping[str, TableRef], costs: Mapping[str, int], packs: int) -> None:
        """Add packs for the remaining tasks; tables that fit in none wait for the next run."""
        sizes = {name: len(json.dumps(ref.to_xcom())) + 2 for name, ref in refs.items()}
        found = pack(costs, packs=packs, sizes=sizes, item_bytes=ITEM_BYTES - _AROUND_NAMES_BYTES)
        left = self._request.max_tasks - len(self._work.items)
        for names in found[:left]:
            self._work.add("pack", *(refs[name] for name in names))
        self._work.waiting += [name for names in found[left:] for name in names]

    def _guarded(self, name: str, add: Callable[[], None]) -> None:
        try:
            add()
        except Exception as exc:  # noqa: BLE001 - this table's trouble is its own
            self._work.failures[name] = failure_of(name, exc)


def _most_waves(one: KnownTable) -> int:
    return one.table.options.max_waves
