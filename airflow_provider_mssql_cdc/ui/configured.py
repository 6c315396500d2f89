"""The facts tables listed in ``[mssql_cdc] facts``, read once per Delta version."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_mssql_cdc.errors import ConfigurationError, MssqlCdcError
from airflow_provider_mssql_cdc.hooks.delta_storage import storage_options
from airflow_provider_mssql_cdc.lake.read_facts import StoredFacts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.planning.overview import TableOverview, overviews

log = logging.getLogger(__name__)

SECTION, OPTION = "mssql_cdc", "facts"


@dataclass(frozen=True, slots=True)
class FactsSource:
    """One entry of the configuration: the facts table's location, and the connection of its object store."""

    path: str
    delta_conn_id: str | None = None


@dataclass(slots=True)
class Look:
    """Content of all facts tables, and the ones that could not be read."""

    tables: list[tuple[StoredFacts, TableOverview]] = field(default_factory=list)
    facts: dict[str, StoredFacts] = field(default_factory=dict)
    """The facts tables that were read, by canonical path or URI."""
    problems: list[str] = field(default_factory=list)


def configured_facts(text: str) -> tuple[FactsSource, ...]:
    """Parse the option: a JSON list of paths, or of objects with a path and a connection id; or one path.

    ``["/lake/ops/facts", {"path": "s3://lake/ops/facts", "delta_conn_id": "lake"}]``

    :raises ConfigurationError: names the invalid entry.
    """
    text = text.strip()
    if not text:
        return ()
    if not text.startswith("["):
        return (FactsSource(text),)
    try:
        entries = json.loads(text)
    except ValueError as exc:
        raise ConfigurationError(f"[{SECTION}] {OPTION} must be a path or a JSON list: {exc}") from exc
    return tuple(_source(entry) for entry in entries)


def _source(entry: object) -> FactsSource:
    if isinstance(entry, str) and entry.strip():
        return FactsSource(entry)
    if isinstance(entry, Mapping) and _is_known(entry):
        return FactsSource(entry["path"], entry.get("delta_conn_id"))
    raise ConfigurationError(
        f'[{SECTION}] {OPTION}: an entry must be a path or {{"path", "delta_conn_id"}}, got {entry!r}'
    )


def _is_known(entry: Mapping[str, object]) -> bool:
    return isinstance(entry.get("path"), str) and set(entry) <= {"path", "delta_conn_id"}


class FactsReader:
    """Overviews of all configured facts tables; a table is read again when its Delta version changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[FactsSource, tuple[StoredFacts, list[TableOverview]]] = {}

    def look(self) -> Look:
        """Read what changed since the last call. A facts table that fails is reported, not raised."""
        found = Look()
        try:
            sources = configured_facts(conf.get(SECTION, OPTION, fallback=""))
        except ConfigurationError as exc:
            found.problems.append(str(exc))
            return found
        for source in sources:
            try:
                stored, tables = self._of(source)
            except (MssqlCdcError, OSError, AirflowNotFoundException):
                # What a store says may name more than everybody who reads this page is to know.
                log.exception("the facts table %s cannot be read", source.path)
                found.problems.append(
                    f"A facts table cannot be read: {source.path}. The API server's log says why."
                )
            else:
                found.facts[stored.location.uri] = stored
                found.tables += [(stored, table) for table in tables]
        return found

    def _of(self, source: FactsSource) -> tuple[StoredFacts, list[TableOverview]]:
        with self._lock:  # one reader at a time: requests of many open pages would read the same files
            options = storage_options(source.delta_conn_id) if source.delta_conn_id else None
            stored = StoredFacts(TableLocation(source.path, options))
            known = self._read.get(source)
            if known is None or known[0].version != stored.version:
                known = stored, overviews(stored.newest(), stored.waves_landed())
                self._read[source] = known
            return known
