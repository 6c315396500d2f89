"""Names of the files that merges stage, and the removal of what a killed attempt left."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets

from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.storage import TableStorage

log = logging.getLogger(__name__)

_STAGED = re.compile(r"silver-(\d+)-([0-9a-f]{8})-")


def staging_prefix(version: int, run: str) -> str:
    """What the names of one attempt's files begin with; never used before.

    :param version: of bronze.
    :param run: eight hex digits that name the Airflow run.
    """
    return f"silver-{version:08d}-{run}-{secrets.token_hex(4)}"


def remove_orphans(silver: Silver, *, run: str, up_to: int) -> int:
    """Remove files that attempts of this run staged and no commit names; how many.

    :param up_to: silver's position: what was staged from this version of bronze, or an older one, can never
        be committed any more, since whoever staged it would have to find the position where it was.
    """
    storage = TableStorage(silver.location)
    staged = [name for name in storage.names("silver-") if _is_dead(name, run, up_to)]
    named = _named_by_the_log(silver) if staged else set()
    orphans = [name for name in staged if name not in named]
    for name in orphans:
        with contextlib.suppress(FileNotFoundError):
            storage.remove(name)
    if orphans:
        log.info("%s: removed %d staged file(s) that no commit names", silver.location, len(orphans))
    return len(orphans)


def _is_dead(name: str, run: str, up_to: int) -> bool:
    staged = _STAGED.match(name)
    return staged is not None and staged[2] == run and int(staged[1]) <= up_to


def _named_by_the_log(silver: Silver) -> set[str]:
    """Files of the newest version, and those that a commit took out and vacuum has yet to remove."""
    table = silver.reload().table
    current = read_all(table.get_add_actions()).column("path").to_pylist()
    taken_out = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    return {path.rpartition("/")[2] for path in [*current, *taken_out]}
