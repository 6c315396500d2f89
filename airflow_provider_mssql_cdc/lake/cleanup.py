"""Staged files that no commit names: found by name, removed."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Sequence

from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.arrays import read_all
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn

log = logging.getLogger(__name__)

_RUN = re.compile(r"[0-9a-f]{8}\Z")


def remove_losers(location: TableLocation, *, run: str) -> int:
    """Remove files that an Airflow run staged and that the log does not name; how many.

    Files of killed attempts and of an earlier try of ``plan`` are among them. To be called after the own
    commit, or after another's was found: nothing of this run can be committed any more.

    :param run: eight hex digits that name the run, part of every name it staged; no other run's file is
        touched.
    """
    if not _RUN.match(run):
        raise ValueError(f"a run is named by eight hex digits, got {run!r}")
    staged_by_run = re.compile(rf"0x[0-9A-F]{{20}}-{run}-[0-9a-f]{{8}}-")
    staged = [name for name in TableStorage(location).names("0x") if staged_by_run.match(name)]
    return remove_unnamed(location, staged)


def remove_waves_losers(location: TableLocation, *, snapshot: Lsn) -> int:
    """Remove files that waves of a chunked snapshot staged, in any run, and that the log does not name.

    To be called when nothing of it can be committed any more: it is complete, or it was abandoned.
    """
    staged_by_waves = re.compile(rf"{snapshot.text}-[0-9a-f]{{8}}-[0-9a-f]{{8}}-w\d")
    names = TableStorage(location).names(f"{snapshot.text}-")
    return remove_unnamed(location, [name for name in names if staged_by_waves.match(name)])


def remove_unnamed(location: TableLocation, names: Sequence[str]) -> int:
    """Remove those of these files that the log does not name; how many there were.

    The newest version decides: a commit that seemed to fail may have landed.
    """
    named = _named_by_the_log(location) if names else set()
    storage = TableStorage(location)
    removed = sum(storage.discard(name) for name in names if name not in named)
    if removed:
        log.info("%s: removed %d staged file(s) that no commit names", location, removed)
    return removed


def _named_by_the_log(location: TableLocation) -> set[str]:
    """Files of the current version, and those that were taken out and that vacuum has yet to remove."""
    table = DeltaTable(location.uri, storage_options=location.options())
    current = read_all(table.get_add_actions()).column("path").to_pylist()
    taken_out = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    return {path.rpartition("/")[2] for path in [*current, *taken_out]}


_KINDS = ("changes", "repair")
_NAME = re.compile(r"(?:changes|repair)-(\d{12})-")


def file_prefix(event: Event, batch: int, window: Window) -> str:
    """What the names of one attempt's files begin with; random at its end, so never used before."""
    if event not in _KINDS:
        raise ValueError(f"no change rows are staged for {event}")
    return f"{event}-{batch:012d}-{window.after}-{secrets.token_hex(6)}"


def remove_dead_files(bronze: Bronze) -> int:
    """Remove staged change files that no version of the table names and none ever will; how many."""
    newest, storage = read_changes_state(bronze.table).batch, TableStorage(bronze.location)
    staged = [name for kind in _KINDS for name in storage.names(f"{kind}-")]
    dead = [name for name in staged if (match := _NAME.match(name)) and int(match[1]) <= newest]
    return remove_unnamed(bronze.location, dead)
