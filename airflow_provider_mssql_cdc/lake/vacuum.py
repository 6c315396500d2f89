"""Remove what no reader, no running task and no silver needs, and shorten the way to a table's state."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake.exceptions import DeltaError

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import LakeTable
from airflow_provider_mssql_cdc.lake.silver.table import Silver, bronze_number
from airflow_provider_mssql_cdc.lake.staged_files import (
    is_dead_in_bronze,
    is_dead_in_silver,
    is_of_rewrite,
    remove_unnamed,
)
from airflow_provider_mssql_cdc.lake.storage import TableStorage

log = logging.getLogger(__name__)

_COMMITS_BETWEEN_CHECKPOINTS = 20


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What :func:`vacuum` removed from one table's folder.

    :param files: files that older versions had and the current one does not.
    :param staged: files of attempts that ended without a commit.
    """

    files: int
    staged: int


def vacuum(table: LakeTable, *, hours: int, keep: int | None = None) -> Vacuumed:
    """Remove files that left the table at least that long ago, and staged files that nothing can commit.

    Staged files of a task that may still run are kept: only those are removed that no commit can name any
    more and that were written before the same time. Readers of older versions than that fail afterwards.

    :param hours: since a file was taken out, or a staged one was written.
    :param keep: a version whose files are kept, because silver continues from it.
    """
    kept = [keep] if keep is not None and _is_readable(table, keep) else None
    doomed = table.table.vacuum(hours, dry_run=True, enforce_retention_duration=False, keep_versions=kept)
    log.info(
        "%s: %d file(s) left the table more than %d hours ago%s",
        *(table.location, len(doomed), hours, f"; files of version {keep} are kept" if kept else ""),
    )
    for path in doomed:
        log.debug("%s: vacuum removes %s", table.location, path)
    if doomed:
        # Not the full mode: that one removes every file that the log does not name, staged ones included.
        table.table.vacuum(hours, dry_run=False, enforce_retention_duration=False, keep_versions=kept)
        table.reload()
    return Vacuumed(len(doomed), _remove_dead_staged(table, hours))


def _is_readable(table: LakeTable, version: int) -> bool:
    """Return whether the log still has this version; if not, silver is built again in any case."""
    try:
        table.table.vacuum(0, dry_run=True, enforce_retention_duration=False, keep_versions=[version])
    except DeltaError as exc:
        log.info("%s: version %d cannot be kept, the log has it no more (%s)", table.location, version, exc)
        return False
    return True


def _remove_dead_staged(table: LakeTable, hours: int) -> int:
    before = datetime.now(UTC) - timedelta(hours=hours)
    is_dead = _judge_of(table)
    names = TableStorage(table.location).names("", before=before)
    return remove_unnamed(table.location, [name for name in names if is_dead(name)])


def _judge_of(table: LakeTable) -> Callable[[str], bool]:
    if isinstance(table, Bronze):
        return is_dead_in_bronze(table.table, table.state.snapshot)
    if isinstance(table, Silver):
        return is_dead_in_silver(table.position)
    return is_of_rewrite


def version_to_keep(bronze: Bronze, silver: Silver | None) -> int | None:
    """Return the version of bronze that this silver continues from; None if it needs none."""
    position = silver.position if silver is not None else None
    if position is None or position.bronze != bronze_number(bronze):
        return None
    return position.version


def checkpoint(table: LakeTable, *, keep_log: bool) -> int | None:
    """Write a checkpoint if more than 20 commits have come since the last one; return its version.

    Opening a table reads its last checkpoint and the commits above it. Log entries older than the table's
    ``delta.logRetentionDuration`` (30 days by default) are removed with it.

    :param keep_log: leave old log entries: a silver is behind and continues from them.
    """
    if table.version - _last_checkpoint(table) <= _COMMITS_BETWEEN_CHECKPOINTS:
        return None
    table.table.create_checkpoint()
    if not keep_log:
        table.table.cleanup_metadata()
    log.info("%s: wrote a checkpoint of version %d", table.location, table.version)
    return table.version


def _last_checkpoint(table: LakeTable) -> int:
    """Return the version of the last checkpoint; 0 without one (Delta protocol, "Last Checkpoint File")."""
    storage, name = TableStorage(table.location), "_delta_log/_last_checkpoint"
    if storage.size(name) is None:
        return 0
    with storage.open(name) as file:
        return int(json.loads(file.read()).get("version", 0))
