"""Upkeep of every table of a database, one after the other, and of the facts tables once each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_mssql_cdc.database import DatabaseTable
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.each_table import Done, Worker, each_table, failure_of
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepDone, UpkeepOptions, UpkeepOrder, upkeep
from airflow_provider_mssql_cdc.model.database_items import PackOutcome, TableRef
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.source.tracked import tracked_tables


def upkeep_database(worker: Worker, options: UpkeepOptions) -> PackOutcome:
    """Look after the tables that the database value chooses; one that fails does not stop the others.

    The source is asked which tables CDC tracks, and nothing else.

    :raises MssqlCdcError: the list of tables could not be read.
    """
    with worker.sessions(worker.database.isolation)() as session:
        tracked = tracked_tables(session)
    resolved = worker.database.resolve(tracked.tables)
    outcome = each_table(worker, _refs(resolved.tables), _Upkeep(options).of_one)
    for name, said in resolved.problems.items():
        outcome.failures[name] = failure_of(name, ConfigurationError(said))
    return outcome


def _refs(tables: Iterable[DatabaseTable]) -> list[TableRef]:
    return [TableRef(one.name, one.table.capture_instance) for one in tables]


@dataclass(slots=True)
class _Upkeep:
    """The job of each table; the first of a facts table that ends well has looked after that too."""

    options: UpkeepOptions
    facts_seen: set[str] = field(default_factory=set)

    def of_one(self, worker: Worker, one: DatabaseTable, _: TableRef, done: Done) -> None:
        facts = canonical_uri(one.table.facts)
        order = UpkeepOrder(
            one.table, one.silver, worker.attempt, self.options, with_facts=facts not in self.facts_seen
        )
        outcome = upkeep(order)
        if isinstance(outcome, UpkeepDone):
            self.facts_seen.add(facts)
        done.told["upkeep"] = outcome.reason if isinstance(outcome, Skipped) else outcome.to_xcom()


def summed(outcome: PackOutcome) -> dict[str, Any]:
    """Return the numbers of all tables added up, so that the XCom of any number of tables is small."""
    total: dict[str, Any] = {}
    for told in outcome.tables.values():
        _add(total, told.get("upkeep"))
    return total


def _add(total: dict[str, Any], told: Any) -> None:
    for name, value in told.items() if isinstance(told, Mapping) else ():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), value)
        elif isinstance(value, int) and name != "version":
            total[name] = total.get(name, 0) + value
