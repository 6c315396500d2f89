"""Removing what was staged and lost, and nothing that any version of the table may need."""

from __future__ import annotations

import contextlib
import logging
import re

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.storage import TableStorage

log = logging.getLogger(__name__)

_RUN_PREFIX = re.compile(r"0x[0-9A-F]{20}-[0-9a-f]{8}-")


def remove_losers(location: TableLocation, *, prefix: str) -> int:
    """Remove staged files whose names begin with ``prefix`` and that the log does not name; how many.

    Files of killed attempts and of an earlier try of ``plan`` are among them. To be called after the own
    commit, or after another's was found: nothing of this run can be committed any more.

    :param prefix: :attr:`~..model.plan.PlanId.run_prefix` or a whole plan id, so that no other run's file
        is touched.
    """
    if not _RUN_PREFIX.match(prefix):
        raise ValueError(f"files are removed by snapshot and run, got {prefix!r}")
    storage = TableStorage(location)
    staged = storage.names(prefix)
    named = _named_by_the_log(location) if staged else set()
    removed = 0
    for name in staged:
        if name not in named:
            with contextlib.suppress(FileNotFoundError):
                storage.remove(name)
                removed += 1
    if removed:
        log.info("%s: removed %d staged file(s) that no commit names", location, removed)
    return removed


def _named_by_the_log(location: TableLocation) -> set[str]:
    """Files of the current version, and those that an OPTIMIZE took out and vacuum has yet to remove."""
    table = open_existing(location).table
    current = pa.table(table.get_add_actions()).column("path").to_pylist()
    taken_out = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    return {path.rpartition("/")[2] for path in [*current, *taken_out]}
