"""What a task read and wrote, from the facts rows that it writes, for OpenLineage.

Nothing here imports OpenLineage where a DAG is parsed, or where its provider is not installed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mssql_cdc.model.facts import FactsRow, json_value
from airflow_provider_mssql_cdc.source.settings import DEFAULT_PORT, ConnectionSettings

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

log = logging.getLogger(__name__)

FROM_SOURCE = frozenset({"bootstrap", "resnapshot", "snapshot_wave", "changes", "repair"})
"""Events that commit rows of the source to bronze."""
MERGE = "merge"
Name = tuple[str, str]
"""Namespace and name of a dataset."""


@dataclass(frozen=True, slots=True)
class Written:
    """The facts rows that one try of a task wrote, and the namespace of each connection that they name."""

    rows: Sequence[FactsRow] = ()
    servers: Mapping[str, str] = field(default_factory=dict)


def written(rows: Iterable[FactsRow]) -> Written:
    """Keep what lineage tells of; nothing when OpenLineage is not installed or not configured.

    Called at the end of the task itself: OpenLineage asks in a forked process, which shares the task's line
    to its supervisor and must ask for no connection there (``_fork_execute`` of its listener).
    """
    told = [row for row in rows if row.event in FROM_SOURCE or row.event == MERGE]
    if not told or not _is_on():
        return Written()
    return Written(told, {conn: _server(conn) for conn in {_connection_and_name(row)[0] for row in told}})


def lineage_of(found: Written, *, bronze: str | None) -> OperatorLineage[Any, Any]:
    """Return the datasets and the run facet; called by the OpenLineage provider alone.

    :param bronze: canonical path or URI of the bronze table, where the task has only one.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_mssql_cdc.operators._lineage_facets import dataset, output, run_facet

    sources: dict[Name, None] = {}
    targets: dict[Name, list[FactsRow]] = {}
    bronzes = {row.source: row.target for row in found.rows if row.event in FROM_SOURCE}
    for row in found.rows:
        targets.setdefault(delta_name(row.target), []).append(row)
        if row.event in FROM_SOURCE:
            sources[_source_name(row, found.servers)] = None
        elif of_row := bronze or bronzes.get(row.source):
            sources[delta_name(of_row)] = None
    return OperatorLineage(
        inputs=[dataset(name) for name in sources],
        outputs=[output(name, **statistics(rows)) for name, rows in targets.items()],
        run_facets={"mssql_cdc": run_facet([told_of(row) for row in found.rows])} if found.rows else {},
    )


def delta_name(uri: str) -> Name:
    """Return OpenLineage's name of a Delta table: ``("file", path)`` or ``("s3://bucket", key)``."""
    # OpenLineage, "Dataset naming": S3, GCS and ABFS have the bucket or container as the namespace, and the
    # key without a leading slash as the name; a local file system is "file" with the absolute path.
    if uri.startswith("/"):
        return "file", uri
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def server_name(settings: ConnectionSettings) -> str:
    """Return ``mssql://host:port``, or ``mssql://host\\instance`` where the connection names no port."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.port is None and settings.instance:
        return f"mssql://{host}\\{settings.instance}"
    return f"mssql://{host}:{settings.port or DEFAULT_PORT}"


def statistics(rows: Iterable[FactsRow]) -> dict[str, int | None]:
    """Return the rows, and for silver the bytes and files, that some facts rows of one table tell of.

    A merge that wrote silver anew tells all of its rows, another one those that it inserted, updated and
    deleted. Facts of bronze do not hold the sizes of files.
    """
    told = list(rows)
    return {
        "rows": sum(_rows(row) for row in told),
        "size": _total(told, "bytes_added"),
        "files": _total(told, "files_added"),
    }


def told_of(row: FactsRow) -> dict[str, Any]:
    """Return one table's entry in the run facet; no key value and no credential is in a facts row."""
    names = {
        "event": "event",
        "source": "source",
        "target": "target",
        "snapshot": "snapshot",
        "position": "end_lsn",
        "position_time": "end_commit_ts",
        "rows": "rows",
    }
    return {name: json_value(getattr(row, column)) for name, column in names.items()}


def _rows(row: FactsRow) -> int:
    if row.event != MERGE or (row.detail or {}).get("rebuilt"):
        return row.rows or 0
    return (row.inserts or 0) + (row.updates or 0) + (row.deletes or 0)


def _total(rows: Iterable[FactsRow], name: str) -> int | None:
    found = [row.detail[name] for row in rows if row.detail and row.detail.get(name) is not None]
    return sum(found) if found else None


def _connection_and_name(row: FactsRow) -> tuple[str, str]:
    # A connection id has no blank (airflow.models.connection, sanitize_conn_id), so this is its end.
    connection, _, name = (row.source or "").partition(": ")
    return connection, name


def _source_name(row: FactsRow, servers: Mapping[str, str]) -> Name:
    connection, name = _connection_and_name(row)
    return servers[connection], name


def _is_on() -> bool:
    try:
        from airflow.providers.openlineage import conf

        return not conf.is_disabled()
    except Exception as exc:  # noqa: BLE001 - not installed, or misconfigured: never worth a task
        log.debug("no lineage: %s", exc)
        return False


def _server(connection: str) -> str:
    from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook

    try:
        return server_name(MssqlCdcHook(connection).settings)
    except Exception as exc:  # noqa: BLE001 - lineage is never worth a task
        log.debug("the server of connection %s is not known to lineage: %s", connection, exc)
        return f"mssql://{connection}"
