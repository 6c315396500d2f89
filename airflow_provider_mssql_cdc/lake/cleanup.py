"""Staged files that no commit names: found by name, removed."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_provider_mssql_cdc.lake.arrays import read_all
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.lake.delta_table import LakeTable, load_table
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile

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

    The newest version decides: a commit that seemed to fail may have landed. Where the log cannot be read
    nothing is removed, and a warning says so.
    """
    try:
        named = _named_by_the_log(location) if names else set()
    except (DeltaError, OSError, ValueError) as exc:
        log.warning("%s: %d staged file(s) are left, its log cannot be read: %s", location, len(names), exc)
        return 0
    storage = TableStorage(location)
    removed = sum(storage.discard(name) for name in names if name not in named)
    if removed:
        log.info("%s: removed %d staged file(s) that no commit names", location, removed)
    return removed


def discard(table: LakeTable, files: Sequence[StagedFile]) -> int:
    """Remove files that this process staged and that no commit can name any more; how many.

    One that a commit may still name stays: the tidying after a later commit removes it, or VACUUM.
    """
    settled = [file.path for file in files if file.path not in table.in_doubt]
    return remove_unnamed(table.location, settled)


@contextlib.contextmanager
def discarding_on_failure(table: LakeTable, files: Sequence[StagedFile]) -> Iterator[None]:
    """:func:`discard` when the block fails; a task that is ended by a signal leaves through here too."""
    try:
        yield
    except BaseException:
        discard(table, files)
        raise


def missing_files(location: TableLocation, table: DeltaTable) -> list[str]:
    """Files that the handle's version names and that are not there, decoded.

    One listing answers for all files at the table's root; the others are asked for one by one. A path with
    a scheme belongs to another table's folder (a shallow clone) and is not looked for.
    """
    storage = TableStorage(location)
    logged = [unquote(path) for path in read_all(table.get_add_actions()).column("path").to_pylist()]
    there = set(storage.names(""))
    return [path for path in logged if path not in there and "://" not in path and storage.size(path) is None]


def _named_by_the_log(location: TableLocation) -> set[str]:
    """Files of the current version, and those that were taken out and that vacuum has yet to remove."""
    table = load_table(location)
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
