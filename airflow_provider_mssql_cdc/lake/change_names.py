"""Names of files with change rows, and which of those that no commit names can never be committed any more.

A name holds the number of the commit that the file is staged for. A commit carries its number as a
transaction and is refused when that number is taken: so once bronze's own number has reached a file's, the
file is dead, whoever staged it and whether or not that process still lives.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.model.facts import Event

log = logging.getLogger(__name__)

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
    named = _named_by_the_log(bronze) if dead else set()
    removed = 0
    for name in dead:
        if name not in named:
            with contextlib.suppress(FileNotFoundError):
                storage.remove(name)
                removed += 1
    if removed:
        log.info(
            "%s: removed %d staged file(s) of attempts that did not live to commit", bronze.location, removed
        )
    return removed


def _named_by_the_log(bronze: Bronze) -> set[str]:
    """Files of the current version, and those that were taken out and that vacuum has yet to remove."""
    current = read_all(bronze.table.get_add_actions()).column("path").to_pylist()
    taken_out = bronze.table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    return {path.rpartition("/")[2] for path in [*current, *taken_out]}
