"""Read the facts table, for status pages and commands; never for a decision about a load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.lake.delta_table import open_table, query, read_all
from airflow_provider_mssql_cdc.lake.facts import FACTS_SCHEMA
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage, parquet_file
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn

_NEWEST = """
SELECT facts.* FROM stored AS facts JOIN
  (SELECT target, event, max(written_at) AS newest FROM stored GROUP BY target, event) AS last
ON facts.target = last.target AND facts.event = last.event AND facts.written_at = last.newest
"""
# One run of a reconcile writes a row per tile.
_PROOFS = """
SELECT facts.* FROM stored AS facts JOIN
  (SELECT target, run_id, row_number() OVER (PARTITION BY target ORDER BY written_at DESC) AS place
   FROM stored WHERE event = 'reconcile') AS last
ON facts.target = last.target AND facts.run_id = last.run_id
WHERE facts.event = 'reconcile' AND last.place = 1
"""
_WAVES = """
SELECT target, snapshot, count(*) AS waves FROM stored WHERE event = 'snapshot_wave' GROUP BY target, snapshot
"""
_LOADS = """
SELECT target, source FROM stored WHERE event IN ('bootstrap', 'resnapshot') GROUP BY target, source
"""
_LSNS = frozenset({"snapshot", "min_lsn", "max_lsn", "end_lsn"})
_JSON = frozenset({"consistent_after", "detail"})
_COLUMNS = tuple(field.name for field in fields(FactsRow))


class StoredFacts:
    """One version of a facts table.

    :raises ConfigurationError: there is no facts table of this package at the location.
    """

    def __init__(self, location: TableLocation) -> None:
        self.location = location
        table = open_table(location)
        if table is None:
            raise ConfigurationError(
                f"there is no Delta table at {location}: name the path that the tables have as facts="
            )
        self._table = table
        stored = {field.name for field in table.schema().fields}
        if missing := [name for name in FACTS_SCHEMA.names if name not in stored]:
            raise ConfigurationError(
                f"{location} is not a facts table: columns {', '.join(missing)} are missing. Name the "
                "path that the tables have as facts="
            )

    def newest(self) -> list[FactsRow]:
        """Return the newest row of each event, per target; of ``reconcile`` the rows of its newest run."""
        rows = {(row["target"], row["event"]): row for row in query(self._table, _NEWEST)}
        others = [row for row in rows.values() if row["event"] != "reconcile" or row["run_id"] is None]
        return [_facts_row(row) for row in (*others, *query(self._table, _PROOFS))]

    def waves_landed(self) -> dict[tuple[str, Lsn], int]:
        """Return how many waves of each snapshot have a facts row, by bronze table and S."""
        return {
            (row["target"], Lsn.parse(row["snapshot"])): row["waves"] for row in query(self._table, _WAVES)
        }

    def loads(self) -> dict[str, str]:
        """Return every bronze in which a snapshot was completed, with the source table's name."""
        return {row["target"]: row["source"] for row in query(self._table, _LOADS) if row["source"]}

    def durations(self, *, files: int) -> dict[str, float]:
        """Return the seconds of each target's newest event, from the table's newest ``files`` files.

        An estimate of bounded cost: the table grows by some files with every run.
        """
        actions = read_all(self._table.get_add_actions(flatten=True)).select(["path", "modification_time"])
        newest = actions.sort_by([("modification_time", "ascending")]).slice(max(0, actions.num_rows - files))
        storage, found = TableStorage(self.location), dict[str, float]()
        for path in newest.column("path").to_pylist():
            with storage.open(path) as file:
                rows = parquet_file(file).read(columns=["target", "duration_ms"]).to_pylist()
            found |= {row["target"]: row["duration_ms"] / 1000 for row in rows if row["duration_ms"]}
        return found

    @property
    def version(self) -> int:
        """Return the Delta version that is read."""
        return self._table.version()

    def recent(
        self,
        *,
        limit: int,
        event: str | None = None,
        source: str | None = None,
        targets: Sequence[str] = (),
    ) -> list[FactsRow]:
        """Return the newest rows, newest first.

        :param event: only rows of this event.
        :param source: only rows whose source table's name contains this string, ignoring case.
        :param targets: only rows of these Delta tables.
        """
        conditions = []
        if event is not None:
            conditions.append(f"event = {_literal(event)}")
        if source is not None:
            conditions.append(f"strpos(lower(source), lower({_literal(source)})) > 0")
        if targets:
            conditions.append(f"target IN ({', '.join(map(_literal, targets))})")
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        found = query(self._table, f"SELECT * FROM stored {where}ORDER BY written_at DESC LIMIT {int(limit)}")
        return [_facts_row(row) for row in found]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _facts_row(stored: Mapping[str, Any]) -> FactsRow:
    return FactsRow(**{name: _value(name, stored[name]) for name in _COLUMNS})


def _value(name: str, value: Any) -> Any:
    """Convert a stored value: facts store LSNs and JSON as strings, and times in UTC without a zone."""
    if value is None:
        return None
    if name in _LSNS:
        return Lsn.parse(value)
    if name in _JSON:
        return json.loads(value)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
