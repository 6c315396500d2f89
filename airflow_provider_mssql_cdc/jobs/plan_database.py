"""``plan`` of a whole database: list the tables, decide what each needs, and assign the work to tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mssql_cdc.database import DatabaseTable, MssqlCdcDatabase
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.each_table import Worker, failure_of
from airflow_provider_mssql_cdc.jobs.plan_loads import DatabaseRequest, KnownTable, LoadPlanner, Work
from airflow_provider_mssql_cdc.lake.bronze import open_bronze
from airflow_provider_mssql_cdc.lake.facts import facts_together
from airflow_provider_mssql_cdc.lake.read_facts import StoredFacts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.database_items import (
    DatabasePlan,
    TableRef,
    ToComplete,
)
from airflow_provider_mssql_cdc.model.tracked import TableName, TablePattern, placed_by
from airflow_provider_mssql_cdc.planning.packs import (
    cost,
    pack,
)
from airflow_provider_mssql_cdc.source.tracked import TrackedTables, tracked_tables

log = logging.getLogger(__name__)

OPENED_AT_ONCE = 8
"""Bronze tables opened in parallel; opening one on an object store takes a few tenths of a second."""

LOAD, FOLLOW = "load", "follow"
_FACTS_FILES = 64


def plan_database(request: DatabaseRequest) -> DatabasePlan:
    """Find the tracked tables and distribute this run's work.

    A table that fails here is listed in the plan's failures; the others are planned.

    :raises MssqlCdcError: the list of tables could not be read.
    """
    worker, work = request.worker, Work()
    tracked = _tracked(worker)
    resolved = worker.database.resolve(tracked.tables)
    for name, said in resolved.problems.items():
        work.fail(name, said)
    again = _asked_again(request, resolved.tables, work)
    known = _looked_at(worker, resolved.tables, again, work)
    if LOAD in request.parts:
        with facts_together():
            LoadPlanner(request, work).plan([one for one in known if one.wants_load])
    if not work.items:
        work.add("nothing")
    past = _past(worker, tracked)
    followed = [one for one in known if one.is_followed and FOLLOW in request.parts]
    plan = DatabasePlan(
        plan=work.plan,
        read=tuple(work.items),
        complete=_complete_slots(work.to_complete, request.complete_slots),
        follow=_follow_slots(followed, request.follow_slots, past.durations),
        failures=work.failures,
        waiting=tuple(work.waiting),
        untracked=past.untracked,
        tables=resolved.chosen,
    )
    log.info(
        "%s: %d table(s), %d to follow, %d task(s) that read, %d table(s) wait, %d failed",
        *(worker.database.label, plan.tables, len(followed), len(plan.read)),
        *(len(plan.waiting), len(plan.failures)),
    )
    return plan


@dataclass(frozen=True, slots=True)
class _Past:
    """What facts say about earlier runs. It influences only scheduling, never what is loaded.

    :param untracked: tables loaded before that CDC no longer tracks, with their bronze.
    :param durations: seconds of the last work by Delta table location.
    """

    untracked: Mapping[str, str] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)


def _past(worker: Worker, tracked: TrackedTables) -> _Past:
    database = worker.database
    if "{" in database.facts:  # a facts table per source table: none covers all of them
        return _Past()
    storage = worker.with_storage(database.table_of("any.table").table)
    try:
        facts = StoredFacts(TableLocation.facts_of(storage))
        return _Past(_untracked(database, tracked, facts.loads()), facts.durations(files=_FACTS_FILES))
    except Exception as exc:  # noqa: BLE001 - a run without its past is a run all the same
        log.info("%s: the facts of earlier runs cannot be read: %s", database.label, exc)
        return _Past()


def _untracked(
    database: MssqlCdcDatabase, tracked: TrackedTables, loads: Mapping[str, str]
) -> dict[str, str]:
    """Return untracked tables of this database that match its location template and its patterns."""
    known = {one.name for one in tracked.tables}
    prefix = f"{database.mssql_conn_id}: {tracked.database}."
    template = database.bronze_template
    found: dict[str, str] = {}
    for bronze, source in loads.items():
        schema, _, table = source.removeprefix(prefix).partition(".")
        name = TableName(schema, table)
        if source.startswith(prefix) and name not in known and placed_by(template, bronze):
            found |= {name.text: bronze} if database.chooses(name) else {}
    return found


def _tracked(worker: Worker) -> TrackedTables:
    with worker.sessions(worker.database.isolation)() as session:
        return tracked_tables(session)


def _asked_again(request: DatabaseRequest, tables: Sequence[DatabaseTable], work: Work) -> set[str]:
    """Return the names of the tables that this run snapshots again."""
    found: set[str] = set()
    for text in request.resnapshot:
        try:
            pattern = TablePattern.parse(text)
        except ConfigurationError as exc:
            work.fail(f"resnapshot: {text}", str(exc))
            continue
        matched = {one.name for one in tables if pattern.matches(TableName.parse(one.name))}
        if not matched:
            work.fail(
                f"resnapshot: {text}", f"{text} is not a table of this run: correct it and trigger a new run"
            )
        found |= matched
    return found


def _looked_at(
    worker: Worker, tables: Sequence[DatabaseTable], again: set[str], work: Work
) -> list[KnownTable]:
    """Open each table's bronze in parallel and return what it contains."""

    def look(one: DatabaseTable) -> KnownTable | Exception:
        assert one.table.source is not None
        default = "_".join(one.table.source)
        instance = None if one.table.capture_instance == default else one.table.capture_instance
        ref = TableRef(one.name, instance, one.name in again)
        try:
            stored = worker.with_options(one)
            return KnownTable(stored, ref, open_bronze(TableLocation.bronze_of(stored.table)))
        except Exception as exc:  # noqa: BLE001 - this table's trouble is its own
            return exc

    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        looks = list(pool.map(look, tables))
    for one, seen in zip(tables, looks, strict=True):
        if isinstance(seen, Exception):
            work.failures[one.name] = failure_of(one.name, seen)
    return [seen for seen in looks if isinstance(seen, KnownTable)]


def _complete_slots(tables: Sequence[ToComplete], slots: int) -> tuple[tuple[ToComplete, ...], ...]:
    by_name = {one.table.name: one for one in tables}
    packs = pack({name: len(one.items) for name, one in by_name.items()}, packs=slots)
    return _filled([tuple(by_name[name] for name in names) for names in packs], slots)


def _follow_slots(
    tables: Sequence[KnownTable], slots: int, durations: Mapping[str, float]
) -> tuple[tuple[TableRef, ...], ...]:
    """Distribute tables over slots of about equal duration, based on their last runs."""
    by_name = {one.ref.name: one.ref for one in tables}
    costs = {
        one.ref.name: cost(0, sum(durations.get(place, 0.0) for place in one.table.places()))
        for one in tables
    }
    return _filled([tuple(by_name[name] for name in names) for names in pack(costs, packs=slots)], slots)


def _filled(packs: Sequence[tuple[Any, ...]], slots: int) -> tuple[tuple[Any, ...], ...]:
    """Return one list per slot; a slot without tables does nothing."""
    return (*packs, *[()] * (slots - len(packs)))
